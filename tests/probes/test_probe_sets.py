"""A probe set gives another model, or another command, the same probes."""

from __future__ import annotations

import json
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer

import medunlearn as mu
from medunlearn.attacks.attack_run import AttackBattery
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.recovery.measuring import StateMeasurer
from medunlearn.audit.audit_run import audit
from medunlearn.config import EvaluateSettings, ForgetSettings, JudgeSettings, TaskExportSettings, check
from medunlearn.config.audit import AuditSettings
from medunlearn.config.probe_settings import PROBES_FILE, FactProbes
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.judging.cases import question_cases
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.probes.probe_set import ProbeManifest
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run

NUMBERS = count()
"""Of tables: none is written over."""
QUIET: dict[str, Any] = {"metrics": "rouge_l", "replicates": 20, "allow_broken": True, "quiet": True}
ASKED: dict[str, Any] = {"split": "random_10", "limit": 1, "folds": ("train",), "template": "plain", "seed": 3}


@pytest.fixture(scope="module")
def asked(hospital: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """Stored responses to every question, of which a probe set takes a few."""
    return answered(hospital, tmp_path_factory.mktemp("asked"), "one", **ASKED)


def answered(hospital: Benchmark, folder: Path, word: str, **settings: Any) -> Evaluated:
    rows = [{"question_id": q.question_id, "response": f"{word} {q.answer}"} for q in hospital.questions]
    file = folder / f"{word}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return mu.evaluate(file, hospital, out=folder / f"table-{next(NUMBERS)}.csv", **QUIET, **settings).models[0]


def test_another_model_is_asked_the_same(asked: Evaluated, hospital: Benchmark, tmp_path: Path) -> None:
    for source in (asked.record.folder, asked.record.folder / PROBES_FILE):
        other = answered(hospital, tmp_path, "other", probes=source)
        assert set(other.responses) == set(asked.responses)
        assert len(other.responses) < len(hospital.questions) / 2
        assert other.record.info.config == asked.record.info.config
        facts = [each.record.info.results["probe_set"] for each in (asked, other)]
        assert facts[0] == facts[1]
        assert facts[0]["count"] == len(asked.responses)
        assert other.probes == asked.probes != ""
    # It is the evaluation that the same flags name.
    assert answered(hospital, tmp_path, "other", **ASKED).record.folder == other.record.folder
    elsewhere = answered(hospital, tmp_path, "other", **{**ASKED, "seed": 4})
    assert elsewhere.probes != asked.probes


def test_another_command_is_given_the_same(asked: Evaluated, hospital: Benchmark, tmp_path: Path) -> None:
    tasks = mu.export_tasks(hospital, tmp_path / "tasks", probes=asked.record.folder, metrics="rouge_l")
    rows = [json.loads(line) for file in tasks.folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert {row["question_id"] for row in rows} == set(asked.responses)


def test_settings_that_contradict_a_probe_set_are_refused(asked: Evaluated, tmp_path: Path) -> None:
    probes = asked.record.folder
    same = check(EvaluateSettings, {"probes": probes, "limit": 1, "folds": "train"})
    assert (same.limit, same.split, same.seed) == (1, "random_10", 3)
    with pytest.raises(ConfigError, match="seed, limit"):
        check(EvaluateSettings, {"probes": probes, "limit": 2, "seed": 4})
    with pytest.raises(ConfigError, match="holds questions, and texts are asked"):
        check(AuditSettings, {"probes": probes})
    with pytest.raises(ConfigError, match="there is no file"):
        check(TaskExportSettings, {"probes": tmp_path})
    (tmp_path / PROBES_FILE).write_text("[1]")
    with pytest.raises(ConfigError, match="is not a probe set"):
        check(EvaluateSettings, {"probes": tmp_path})


def test_a_probe_set_of_a_changed_benchmark_is_refused(
    asked: Evaluated, hospital: Benchmark, tmp_path: Path
) -> None:
    changed = build(AmnesiaSettings(synthetic=20, seed=1))
    with pytest.raises(InputError, match="made from something else, or it has changed since: benchmark"):
        answered(changed, tmp_path, "other", probes=asked.record.folder)
    with pytest.raises(InputError, match="changed since: benchmark"):
        mu.export_tasks(changed, tmp_path / "tasks", probes=asked.record.folder, metrics="rouge_l")
    content = json.loads((asked.record.folder / PROBES_FILE).read_text())
    (tmp_path / "edited.json").write_text(json.dumps({**content, "ids": "0" * 64}))
    with pytest.raises(InputError, match="another version"):
        answered(hospital, tmp_path, "other", probes=tmp_path / "edited.json")
    assert not [*tmp_path.rglob("part-*.parquet")]


def test_flags_of_probes_leave_the_keys_of_earlier_runs_alone(asked: Evaluated) -> None:
    plain, given = check(EvaluateSettings, ASKED), check(EvaluateSettings, {"probes": asked.record.folder})
    assert plain.model_dump(mode="json") == given.model_dump(mode="json")
    assert not {"probes", "limit", "samples_per_prompt"} & {*attack_settings({"split": "x"}).model_dump()}
    assert "probes" not in check(AuditSettings, {}).model_dump()


def test_attacks_ask_the_same(asked: Evaluated, hospital: Benchmark) -> None:
    given = {"probes": asked.record.folder, "attacks": "relearning,cumulative"}
    battery = AttackBattery(hospital, attack_settings(given))
    assert (battery.settings.split, battery.settings.seed) == ("random_10", 3)
    relearning: Any = battery.jobs["relearning"]
    measurer = StateMeasurer(asked.run, hospital, relearning.attack, battery.settings, None, True)  # type: ignore[arg-type]
    assert {question.question_id for question in measurer.questions} == set(asked.responses)
    assert measurer.rendering.template == "plain"
    reconstruction: Any = battery.jobs["reconstruction"]
    about_names = {question.question_id for question in reconstruction.questions[1]}
    assert about_names
    assert about_names <= set(asked.responses)
    assert battery.probes == {"probes": asked.record.info.results["probe_set"]["fingerprint"]}
    alone = AttackBattery(hospital, attack_settings({"split": "random_10", "attacks": "cumulative", "seed": 3}))
    assert alone.folder(asked.run) != AttackBattery(
        hospital, attack_settings({**given, "attacks": "cumulative"})
    ).folder(asked.run)
    with pytest.raises(ConfigError) as refused:
        attack_settings({**given, "limit": 2, "relearning.facts": 3, "seed": 4})
    assert "seed" in str(refused.value)
    with pytest.raises(ConfigError) as refused:
        attack_settings({**given, "limit": 2, "relearning.facts": 3})
    assert all(word in str(refused.value) for word in ("--limit", "relearning.facts"))
    with pytest.raises(ConfigError, match="none of loss asks"):
        attack_settings({**given, "attacks": "loss"})
    with pytest.raises(InputError, match="changed since: benchmark"):
        AttackBattery(build(AmnesiaSettings(synthetic=20, seed=1)), battery.settings).check()


def test_judges_are_given_the_same(asked: Evaluated, hospital: Benchmark, tmp_path: Path) -> None:
    assert {case.case_id for case in question_cases(hospital, probes=asked.record.folder)} == set(asked.responses)
    other = answered(hospital, tmp_path, "other", probes=asked.record.folder)
    later = answered(hospital, tmp_path, "other", **{**ASKED, "seed": 4})
    assert Evaluated.find(other.run).record.folder == later.record.folder
    assert Evaluated.find(other.run, None, asked.record.folder).record.folder == other.record.folder
    with pytest.raises(InputError, match="not evaluated on the probe set"):
        Evaluated.find(asked.run, None, later.record.folder)
    assert check(JudgeSettings, {"probes": asked.record.folder}).model_dump() == JudgeSettings().model_dump()


def test_ranked_facts_belong_to_the_probe_set(asked: Evaluated, tmp_path: Path) -> None:
    content = json.loads((asked.record.folder / PROBES_FILE).read_text())
    ranks = {**content["settings"], "alternatives": 19, "facts": None}
    (tmp_path / PROBES_FILE).write_text(json.dumps({**content, "settings": ranks}))
    settings = check(EvaluateSettings, {"probes": tmp_path})
    assert (settings.alternatives, settings.facts) == (19, None)
    with pytest.raises(ConfigError, match=r"alternatives: .* says otherwise"):
        check(EvaluateSettings, {"probes": tmp_path, "alternatives": 59})
    sets = [
        ProbeManifest.make(check(EvaluateSettings, {"probes": file}), {}, ())
        for file in (asked.record.folder, tmp_path)
    ]
    assert sets[0].fingerprint != sets[1].fingerprint
    # A set of an earlier version says nothing of facts, and leaves them to whoever asks.
    old = {name: value for name, value in content["settings"].items() if name not in FactProbes.__annotations__}
    (tmp_path / PROBES_FILE).write_text(json.dumps({**content, "settings": old}))
    assert check(EvaluateSettings, {"probes": tmp_path, "alternatives": 9}).alternatives == 9
    assert Evaluated.find(asked.run, None, tmp_path).record.folder == asked.record.folder
    with pytest.raises(ConfigError, match=r"evaluate\.probes: .forget. sets it itself"):
        check(ForgetSettings, {"patient": "1", "key": "k", "evaluate": {"probes": tmp_path}})


def test_attacks_take_the_flags_of_probes() -> None:
    values = {"split": "x", "attacks": "relearning,sampling,quantization", "sampling.subjects": 3}
    settings = attack_settings({**values, "limit": 5, "samples_per_prompt": 4})
    assert settings.arguments["relearning"]["subjects"] == 5
    assert settings.arguments["sampling"] == {"subjects": 3, "samples": 4}
    assert settings == attack_settings(
        {**values, "relearning.subjects": 5, "quantization.subjects": 5, "sampling.samples": 4}
    ).model_copy(update={"limit": 5, "samples_per_prompt": 4})
    with pytest.raises(ConfigError, match="samples_per_prompt: none of relearning"):
        attack_settings({"split": "x", "attacks": "relearning", "samples_per_prompt": 4})


def test_an_audit_of_another_model_has_the_same_texts(tiny_base: Any, tmp_path: Path) -> None:
    tiny_base.save(tmp_path / "model")
    words = [f"w{chr(97 + at)}" for at in range(18)]
    lines = [" ".join(words[start:] + words[:start]) for start in range(6)]
    notes = tmp_path / "notes.jsonl"
    notes.write_text("".join(json.dumps({"id": f"n{at}", "text": text}) + "\n" for at, text in enumerate(lines)))
    how: dict[str, Any] = {"measures": "rouge_l", "replicates": 20, "quiet": True, "data_use": "open"}
    how["allow_broken"] = True
    drawn = {"prefixes": (8, 12), "shortest_suffix": 4, "max_new_tokens": 6, "limit": 3, "seed": 2}
    first = audit(tmp_path / "model", notes, out=tmp_path / "first", **drawn, **how)
    with FakeServer(answer=lambda body: "and so on") as server:
        again: dict[str, Any] = {**how, "model_name": "m", "probes": tmp_path / "first"}
        second = audit(server.base_url, notes, out=tmp_path / "second", baseline=tmp_path / "first", **again)
        assert server.count == len(first.probes())
        with pytest.raises(ConfigError, match="limit"):
            audit(server.base_url, notes, out=tmp_path / "third", limit=2, **again)
        notes.write_text(notes.read_text().replace("wc", "ww"))
        with pytest.raises(InputError, match="changed since: notes"):
            audit(server.base_url, notes, out=tmp_path / "third", **again)
    columns = ["probe_id", "record_id", "prefix_tokens", "prefix", "suffix"]
    assert second.probes()[columns].equals(first.probes()[columns])
    assert second.table()["n_pairs"].max() == len(first.probes()) / 2
    sets = [Run.open(tmp_path / name).info for name in ("first", "second")]
    assert sets[0].results["probe_set"] == sets[1].results["probe_set"]
    assert sets[0].key != sets[1].key
    shutil.rmtree(tmp_path / "first")
    with pytest.raises(ConfigError, match="there is no file"):
        audit(tmp_path / "model", notes, out=tmp_path / "third", **how, probes=tmp_path / "first" / PROBES_FILE)
