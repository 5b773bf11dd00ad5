"""Recovery attacks on runs: the model is left as it was; resumed, compared, printed, reported, refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from broken import poison
from click.testing import CliRunner
from forking import together
from run_folders import rerecorded

from medunlearn.attacks import attack_class
from medunlearn.attacks.attack_run import AttackBattery, attack
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.attacked import Attacks
from medunlearn.attacks.recovery.measuring import StateMeasurer
from medunlearn.attacks.recovery.recovery_results import ABOVE, COMES_BACK, NO_POWER, NOT_TOLD_APART, STILL_THERE
from medunlearn.attacks.recovery.relearning_attack import Relearning
from medunlearn.attacks.recovery.relearning_data import relearning_data
from medunlearn.cli.main import app
from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, ModelError
from medunlearn.metrics import get_metric
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import load_model
from medunlearn.models.quantization import round_weights
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.reports.write import write_report
from medunlearn.results.runs import Run
from medunlearn.study.report.gather import gather

ALL = "relearning,quantization,sampling"
QUICK: dict[str, Any] = {
    "replicates": 50,
    "relearning.steps": 4,
    "relearning.lr": 1e-3,
    "relearning.alternatives": 9,
    "quantization.alternatives": 9,
    "quantization.types": "int4",
    "sampling.samples": 8,
}


def settings(attacks: str = ALL, **more: Any) -> Any:
    names = attacks.split(",")
    quick = {key: value for key, value in QUICK.items() if "." not in key or key.partition(".")[0] in names}
    return attack_settings({"split": "gone", "attacks": attacks, **quick, **more})


@pytest.fixture(scope="module")
def attacked(knowing: dict[str, Run], pulses: Benchmark) -> Attacks:
    others = [knowing[name] for name in ("perfect", "target", "retrained")]
    return attack(knowing["nothing"], pulses, settings(), against=others, device="cpu", quiet=True)


def words(attacks: Attacks, model: str) -> set[Any]:
    table = attacks.table()
    return set(table[(table["model"] == model) & table["reading"].notna()]["reading"])


def test_models_that_did_nothing_and_that_forgot_everything(attacked: Attacks) -> None:
    assert attacked.reference is not None
    assert attacked.reference.passed, attacked.caveats
    nothing = attacked.models[0].run.label
    for kind, attacks in attacked.recoveries.items():
        table = attacks.table()
        said = table[(table["measure"].isin(["em", "extraction"])) & table["reading"].notna()]
        # Half of the forgotten subjects are five, which settle little.
        said = said[said["attack"] != "relearning.forget_half"]
        assert set(said[said["model"] == nothing]["reading"]) == {STILL_THERE}, kind
        assert set(said[said["model"] == "perfect"]["reading"]) == {NOT_TOLD_APART}, kind
        # No model that did nothing is read as one that forgot, and none that forgot everything as one that did not.
        assert words(attacks, nothing) <= {STILL_THERE, COMES_BACK, ABOVE, NO_POWER}
        assert words(attacks, "perfect") <= {NOT_TOLD_APART, NO_POWER}
        # Nothing is read of the models that others are read against, nor of the model as it is.
        assert set(table[table["reading"].notna()]["model"]) == {nothing, "perfect"}
        assert attack_class(kind).before not in set(table[table["reading"].notna()]["strength"])


def test_two_processes_find_what_one_does(
    knowing: dict[str, Run], pulses: Benchmark, attacked: Attacks, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(knowing["target"].folder, folder, ignore=shutil.ignore_patterns("attacks", "responses"))
    both = together(lambda: attack(folder, pulses, settings("quantization,sampling"), device="cpu", quiet=True))
    assert [process.wait() for process in both] == [0, 0]
    for kind in ("quantization", "sampling"):
        (alone,) = (model for model in attacked.of(kind).models if model.run.role == "target")
        (scores,) = (pd.read_parquet(path) for path in folder.glob("attacks/*/scores.parquet"))
        keys = ["item", "measure", "strength", "value"]
        shared, one = (
            table.loc[table["attack"] == kind, keys].sort_values(keys[:3]).reset_index(drop=True)
            for table in (scores, alone.scores)
        )
        pd.testing.assert_frame_equal(shared, one, rtol=1e-5)
    # Answers and ranks of two states, and samples: every second patient's by one process, the others' by the other.
    stores = [store for place in (folder, folder / "attacks") for store in place.glob("responses/*")]
    assert len(stores) == 5
    for store in stores:
        parts = [set(pd.read_parquet(part)["question_id"]) for part in store.glob("part-*")]
        shares = {frozenset(int(name[1:3]) % 2 for name in part) for part in parts}
        assert shares == {frozenset({0}), frozenset({1})}


def test_two_processes_go_on_after_an_attack_that_fails(
    knowing: dict[str, Run], pulses: Benchmark, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(knowing["target"].folder, folder, ignore=shutil.ignore_patterns("attacks", "responses"))
    values = {"split": "patient=p00", "attacks": "relearning,quantization", "relearning.data": "forget_half"}
    how = attack_settings(
        {**values, "quantization.types": "int4", "quantization.alternatives": 9, "replicates": 20}
    )
    both = together(lambda: attack(folder, pulses, how, device="cpu", quiet=True))
    assert [process.wait() for process in both] == [0, 0]
    found = attack(folder, pulses, how, device="cpu", quiet=True)
    ((model, name, reason),) = found.failed
    assert (model, name) == ("target", "relearning")
    assert "single subject" in reason
    assert set(found.by_family) == {"quantization"}


def test_the_baseline_is_what_evaluate_measures(
    knowing: dict[str, Run], pulses: Benchmark, attacked: Attacks
) -> None:
    own = {"split": "gone", "metrics": ["em", "rouge_l", "ranked_first"], "folds": ["train"], "replicates": 50}
    plain = check(EvaluateSettings, {**own, "alternatives": 9})
    evaluated = evaluate_one(knowing["target"], pulses, plain, device="cpu", quiet=True)
    model = next(one for one in attacked.of("relearning").models if one.run.role == "target")
    keys = ["item", "measure", "value"]
    before, there = (
        table[keys].sort_values(keys[:2]).reset_index(drop=True) for table in (model.before, evaluated.table)
    )
    pd.testing.assert_frame_equal(before, there)


def test_rounding_in_memory_is_rounding_the_folder(
    knowing: dict[str, Run], pulses: Benchmark, attacked: Attacks, tmp_path: Path
) -> None:
    run = knowing["target"]
    rounded = load_model(run.model, device="cpu")
    round_weights(rounded.model, "int4")
    rounded.save(tmp_path / "rounded" / "model")
    (tmp_path / "rounded" / "run.json").write_text((run.folder / "run.json").read_text())
    plain = check(EvaluateSettings, {"split": "gone", "metrics": ["em"], "folds": ["train"], "replicates": 50})
    there = evaluate_one(Run.open(rerecorded(tmp_path / "rounded")), pulses, plain, device="cpu", quiet=True).table
    model = next(one for one in attacked.of("quantization").models if one.run.role == "target")
    here = model.scores[(model.scores["strength"] == "int4") & (model.scores["measure"] == "em")]
    assert here.set_index("item")["value"].to_dict() == there.set_index("item")["value"].to_dict()


def test_tables_are_by_subject_and_the_run_keeps_its_model(knowing: dict[str, Run], attacked: Attacks) -> None:
    relearning, sampling = attacked.recoveries["relearning"], attacked.recoveries["sampling"]
    model = relearning.models[0]
    curve = model.summary[(model.summary["attack"] == "relearning.retain") & (model.summary["side"] == "forget")]
    assert list(dict.fromkeys(curve["strength"])) == ["0", "1", "2", "4"]
    assert model.facts["lr"] == pytest.approx(1e-3), "a tenth of the training's"
    assert model.facts["items"] == "questions"
    subjects = sampling.models[0].subjects
    assert set(subjects["strength"]) == {"1", "2", "8"}
    one = subjects[(subjects["measure"] == "extraction") & (subjects["strength"] == "8")]
    assert len(one) == 10
    assert (one["any"] >= one["value"]).all()
    for name, run in knowing.items():
        assert not list(run.folder.glob("checkpoints")), name
        assert fingerprint(run.model) == run.fingerprint
    half = model.scores[model.scores["attack"] == "relearning.forget_half"]
    assert half["subject"].nunique() == 5


def test_a_live_model_is_left_as_it_was_and_lora_can_be_relearned(
    knowing: dict[str, Run], pulses: Benchmark
) -> None:
    live = load_model(knowing["target"].model, device="cpu")
    before = {name: tensor.clone() for name, tensor in live.model.named_parameters()}
    names = "relearning,quantization"
    how = settings(names, **{"relearning.trainable": "lora:4", "relearning.data": "retain", "replicates": 51})
    done = AttackBattery(pulses, how).attack_one(knowing["target"], device="cpu", quiet=True, live=live)
    after = dict(live.model.named_parameters())
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) and after[name].requires_grad for name in before)
    scores = pd.read_parquet(done.record.folder / "scores.parquet")
    assert set(scores["attack"]) == {"relearning.retain", "quantization"}


def test_no_forgotten_subject_is_taught_and_no_tested_one(pulses: Benchmark, attacked: Attacks) -> None:
    how = settings("relearning")
    sides = pulses.sides(pulses.split("gone"))
    forget = [question for question in pulses.questions if sides[question.record_id] == "forget"]
    run = attacked.models[0].run
    live = load_model(run.model, device="cpu")
    measurer = StateMeasurer(run, pulses, Relearning(), how, live, True)
    measurer.questions = list(pulses.questions)
    assert measurer.of_side("forget") == forget
    relearning = Relearning(seed=3)
    for variant in relearning.variants:
        lesson = relearning_data(measurer, variant, "questions", relearning.seed)
        learned = {item.key[:3] for item in lesson.sequences(measurer)}
        if variant == "relearning.retain":
            assert learned == {f"p{number:02d}" for number in range(10, 20)}
        else:
            assert len(learned) == 5
            assert {question.record_id for question in lesson.questions} == {
                f"p{n:02d}" for n in range(10)
            } - learned
    other = relearning_data(measurer, "relearning.forget_half", "questions", 4)
    assert {question.record_id for question in other.items} not in (learned, set())


def test_an_attack_that_was_cut_off_asks_nothing_twice(
    knowing: dict[str, Run], pulses: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = settings("relearning", **{"relearning.data": "retain", "replicates": 52})
    done = attack(knowing["nothing"], pulses, how, device="cpu", quiet=True).recoveries["relearning"].models[0]
    scores = done.scores
    record = done.record.folder / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "status": "interrupted"}))
    (done.record.folder / "relearning_summary.parquet").unlink()
    monkeypatch.setattr("medunlearn.probes.questioning.respond", lambda *args, **more: pytest.fail("asked again"))
    monkeypatch.setattr("medunlearn.probes.questioning.FactRanker", lambda *args, **more: pytest.fail("ranked"))
    again = attack(knowing["nothing"], pulses, how, device="cpu", quiet=True).recoveries["relearning"].models[0]
    pd.testing.assert_frame_equal(again.scores, scores)
    assert again.measured


def test_a_broken_model_is_refused_or_read_as_nothing(
    knowing: dict[str, Run], pulses: Benchmark, tmp_path: Path
) -> None:
    # Its folder holds whole weights, not a delta.
    shutil.copytree(knowing["perfect"].folder, tmp_path / "broken", ignore=shutil.ignore_patterns("attacks"))
    poison(tmp_path / "broken" / "model")
    run = Run.open(rerecorded(tmp_path / "broken"))
    with pytest.raises(ModelError, match="NaN"):
        attack(run, pulses, settings(), device="cpu", quiet=True)
    others = [knowing["target"], knowing["retrained"]]
    how = settings(allow_broken=True)
    attacks = attack(run, pulses, how, against=others, device="cpu", quiet=True)
    assert attacks.problems[run.label]
    for one in attacks.recoveries.values():
        assert not words(one, run.label)
    assert any("nothing can be learned" in note for note in attacks.recoveries["relearning"].models[0].notes)


def test_words_that_cannot_be_attacked(pulses: Benchmark, knowing: dict[str, Run]) -> None:
    with pytest.raises(ConfigError, match="steps must be 1 to 10000"):
        attack_settings({"split": "gone", "attacks": "relearning", "relearning.steps": 0})
    with pytest.raises(ConfigError, match="types must be all or int8"):
        attack_settings({"split": "gone", "attacks": "quantization", "quantization.types": "int3"})
    how = settings("sampling", **{"sampling.fold": "rephrase"})
    with pytest.raises(InputError, match=r"--sampling\.fold holdout|no question of these folds"):
        attack(knowing["target"], pulses, how, device="cpu", quiet=True)
    how = attack_settings({"split": "patient=p00", "attacks": "relearning", "relearning.data": "forget_half"})
    with pytest.raises(InputError, match="single subject"):
        attack(knowing["target"], pulses, how, device="cpu", quiet=True)


def test_a_report_leaves_out_what_was_attacked_with_other_settings(
    knowing: dict[str, Run], pulses: Benchmark, attacked: Attacks
) -> None:
    plain = check(EvaluateSettings, {"split": "gone", "metrics": ["rouge_l", "em"], "replicates": 50})
    names = ("nothing", "target", "retrained")
    models = [evaluate_one(knowing[name], pulses, plain, device="cpu", quiet=True) for name in names]
    for name in names:
        how = settings("sampling", **({"sampling.samples": 2} if name == "target" else {}))
        attack(knowing[name], pulses, how, device="cpu", quiet=True)
    parts = gather("Pulses", models, replicates=50).attacks
    (sampling,) = [part.data["sampling"] for part in parts if "sampling" in part.data]
    assert set(sampling["table"]["model"]) == {models[0].run.label, "retrained"}
    assert sampling["notes"] == ("target is left out: it was attacked with other settings.",)


def test_the_verb_and_the_report(
    knowing: dict[str, Run], pulses: Benchmark, attacked: Attacks, tmp_path: Path
) -> None:
    pulses.save(tmp_path / "bench")
    runs = {name: str(knowing[name].folder) for name in ("nothing", "target", "retrained")}
    given = [f"--{key}={value}" for key, value in QUICK.items()]
    words = [
        "attack",
        runs["nothing"],
        str(tmp_path / "bench"),
        "--split",
        "gone",
        "--attacks",
        ALL,
        "--device=cpu",
    ]
    against = ["--against", runs["target"], "--against", runs["retrained"]]
    shown = CliRunner().invoke(app, [*words, *given, *against])
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert f"{get_metric('em').title}, forget" in text
    assert f"{get_metric('rouge_l').title}, retain" in text
    assert "forget half" in text
    assert "Still there: above the retrained model before the attack and after it" in text
    found = json.loads(CliRunner().invoke(app, [*words, *given, *against, "--json"]).stdout)
    assert set(found["recovery"]) == {"relearning", "quantization", "sampling"}
    assert found["caveats"] == []
    plain = check(EvaluateSettings, {"split": "gone", "metrics": ["rouge_l", "em"], "replicates": 50})
    models = [evaluate_one(knowing[name], pulses, plain, device="cpu", quiet=True) for name in runs]
    page = write_report(gather("Pulses", models, pulses, replicates=50), tmp_path / "report")
    markdown = (page.parent / "report.md").read_text()
    assert {f"## {title}" for title in ("Relearning", "Quantization", "Sampling")} <= set(markdown.splitlines())
    assert "trained on forget half" in markdown
    assert "still there" in markdown
    data = json.loads((page.parent / "report.json").read_text())["recovery"]
    assert {row["strength"] for row in data["quantization"]["table"]} == {"none", "int4"}
