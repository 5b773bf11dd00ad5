"""The reconstruction attack on runs: asked once, compared, printed, reported, in experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

from medunlearn.attacks.attack_run import attack
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.attacked import Attacked, Attacks
from medunlearn.cli.main import app
from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import ResponseStore
from medunlearn.errors import InputError
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.reports.write import write_report
from medunlearn.results.runs import Run
from medunlearn.study.epochs.epoch_settings import attack_section, check_watched
from medunlearn.study.report.gather import gather

CONTEXTS = ["none", "patient", "institution"]


def attacked(runs: dict[str, Run], bench: Benchmark) -> Attacks:
    more = {"replicates": 20, "cumulative.max_new_tokens": 6}
    settings = attack_settings({"split": "gone", "attacks": "reconstruction", **more})
    others = [runs["target"], runs["retrained"]]
    return attack(runs["chip"], bench, settings, against=others, device="cpu", quiet=True)


def test_every_level_is_asked_and_stored_once(
    runs: dict[str, Run], bench: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = attacked(runs, bench).reconstructions
    assert [model.run.label for model in found.models] == ["CHIP", "target", "retrained"]
    record = found.models[0].record
    facts = record.info["results"]["reconstruction"]
    assert facts["levels"] == ["institution", "patient"]
    assert (facts["questions"], facts["left_out"], facts["context"]) == (6, 0, "closed_book")
    store = runs["chip"].folder / facts["responses"]
    variants = {variant for _, variant, _ in ResponseStore(store, ResponseStore.settings_of(store)).read()}
    assert variants == {f"closed_book|{context}" for context in CONTEXTS}
    scores = found.models[0].scores
    assert scores["given"].unique().tolist() == CONTEXTS
    assert set(scores["item"].str[:2]) == {"A1"}
    kept = scores.pivot_table(index="given", columns="measure", values="item", aggfunc="count")
    assert (kept == 6).all().all()
    # Without its record, the attack is computed again from what is stored.
    from medunlearn.attacks import model_holder as module

    monkeypatch.setattr(module, "load_model", lambda *rest, **more: pytest.fail("asked again"))
    assert attacked(runs, bench).models[0].record.info == record.info
    (record.folder / "run.json").unlink()
    for table in record.folder.glob("*.parquet"):
        table.unlink()
    again = attacked(runs, bench).reconstructions.models[0]
    pd.testing.assert_frame_equal(again.scores, scores)


def test_the_prompt_has_the_names_in_front(
    runs: dict[str, Run], bench: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.probes import questioning as module

    shown: list[str] = []
    respond = module.respond

    def watch(model: object, questions: list[object], *rest: object, **more: object) -> object:
        shown.extend(question.question for question in questions)  # type: ignore[attr-defined]
        return respond(model, questions, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "respond", watch)
    settings = attack_settings(
        {"split": "gone", "attacks": "cumulative", "replicates": 20, "cumulative.max_new_tokens": 2}
    )
    attack(runs["manu"], bench, settings, device="cpu", quiet=True)
    asked = "What does A1 of findings say?"
    assert {asked, f"For patient A1: {asked}", f"For institution A, patient A1: {asked}"} <= set(shown)
    assert len(shown) == 18


def test_models_are_compared_in_pairs(runs: dict[str, Run], bench: Benchmark) -> None:
    found = attacked(runs, bench)
    gaps = found.reconstructions.comparisons
    assert set(zip(gaps["model"], gaps["against"], strict=True)) == {("CHIP", "target"), ("CHIP", "retrained")}
    one = gaps[(gaps["context"] == "patient") & (gaps["measure"] == "rouge_l_f") & (gaps["kind"] == "generation")]
    means = found.reconstructions.table().set_index(["model", "context", "kind", "measure"])["value"]
    key = ("patient", "generation", "rouge_l_f")
    for row in one.to_dict("records"):
        assert row["difference"] == pytest.approx(means["CHIP", *key] - means[row["against"], *key])
    section = attack_section({"attacks": "reconstruction"}, {"split": "gone"})
    check_watched(bench, section, None)
    both = attack_section({"attacks": "reconstruction,loss"}, {"split": "gone"})
    with pytest.raises(InputError, match="no non-members"):
        check_watched(bench, both, None)
    # Membership was not attacked: nothing is said of it.
    assert found.table().empty
    assert found.comparisons.empty
    assert Attacked.find(runs["chip"], "gone", "membership") is None


def test_the_report_shows_it(runs: dict[str, Run], bench: Benchmark, tmp_path: Path) -> None:
    attacked(runs, bench)
    settings = EvaluateSettings(split="gone", metrics=("rouge_l", "em"), replicates=20, max_new_tokens=2)
    models = [
        evaluate_one(runs[name], bench, settings, device="cpu", quiet=True)
        for name in ("target", "retrained", "chip")
    ]
    page = write_report(gather("Edits", models, bench, replicates=20), tmp_path / "report")
    words = (page.parent / "report.md").read_text()
    assert "## Reconstruction" in words
    assert "institution + patient" in words
    assert "cloze questions on forget" in words
    html = page.read_text()
    assert 'id="reconstruction"' in html
    found = json.loads((page.parent / "report.json").read_text())["reconstruction"]
    assert {row["model"] for row in found["table"]} == {"target", "retrained", "CHIP"}
    assert {row["context"] for row in found["comparisons"]} == set(CONTEXTS)


def test_the_verb_prints_it_and_writes_it(runs: dict[str, Run], bench: Benchmark, tmp_path: Path) -> None:
    bench.save(tmp_path / "bench")
    words = [
        *("attack", str(runs["chip"].folder), str(tmp_path / "bench"), "--split", "gone"),
        *("--attacks", "reconstruction", "--device", "cpu"),
        *("--replicates=20", "--cumulative.max-new-tokens=6", "--against", str(runs["target"].folder)),
    ]
    said = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "table.csv")])
    assert said.exit_code == 0, said.output
    assert "cloze questions on forget: Exact match" in said.output
    assert "CHIP − target" in said.output
    assert set(pd.read_csv(tmp_path / "table.csv")["context"]) == set(CONTEXTS)
    found = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert found["table"] == []
    assert {row["model"] for row in found["reconstruction"]} == {"CHIP", "target"}
    assert {row["change"] for row in found["reconstruction"] if row["context"] == "none"} == {None}


def test_a_judge_adds_gen_score_at_every_level(runs: dict[str, Run], bench: Benchmark) -> None:
    from fake_server import FakeServer

    import medunlearn as mu
    from medunlearn.config import JudgeSettings
    from medunlearn.judging.controls import control_cases
    from medunlearn.judging.judges import judges_of
    from medunlearn.study.judging_jobs import job

    shown: list[str] = []

    def opinion(body: dict[str, Any]) -> str:
        """2 of 10, and 8 where the patient is named in front."""
        text = next(message["content"] for message in body["messages"] if message["role"] == "user")
        shown.append(text)
        return json.dumps({"reasoning": "So it is.", "rating": 8 if "patient A1:" in text else 2})

    settings = attack_settings({"split": "gone", "attacks": "reconstruction", "replicates": 20})
    record = attack(runs["manu"], bench, settings, device="cpu", quiet=True).models[0].record
    with FakeServer(("well",), answer=opinion) as server:
        how = [{"base_url": server.base_url, "model": "a", "backoff_seconds": 0.01, "retries": 0}]
        asked = job(record, judges_of(how), JudgeSettings(), benchmark=bench)
        # Two sections' generation questions at three levels.
        requests = {one.requests for one in asked.plan().estimates.values()}
        asked_about = 6 + len(control_cases("factuality"))
        assert requests == {asked_about}
        mu.judge(record, benchmark=bench, llm=how, replicates=20, quiet=True)
        assert len(shown) == asked_about
    found = attack(runs["manu"], bench, settings, device="cpu", quiet=True).reconstructions.models[0]
    rows = found.summary[(found.summary["kind"] == "generation") & (found.summary["measure"] == "factuality")]
    assert rows.set_index("context")["value"].to_dict() == pytest.approx(
        {"none": 0.2, "patient": 0.8, "institution": 0.8}
    )
    gen = found.summary[(found.summary["kind"] == "generation") & (found.summary["measure"] == "gen_score")]
    rouge = found.summary[(found.summary["kind"] == "generation") & (found.summary["measure"] == "rouge_l_f")]
    for context, share in (("none", 0.2), ("patient", 0.8)):
        value, of = (one.set_index("context")["value"][context] for one in (gen, rouge))
        assert value == pytest.approx(100 * (0.75 * share + 0.25 * of))
    assert (found.scores["measure"] == "gen_score").sum() == 6
