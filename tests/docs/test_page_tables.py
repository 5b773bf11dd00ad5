"""Scripts that write tables into docs/: where they write, and what the calibration's table says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks_perf"))
import ablation
import calibration
import false_alarms
import hospitals
import medforget_tables
import suppressed
from page_tables import DOCS, markdown, replace_table

TRAINING = {"epochs": 1, "tiny_width": 32, "tiny_layers": 2}


def test_a_table_stands_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- sizes -->\nold\n<!-- end of sizes -->\n\nBehind.\n")
    table = markdown([{"model": "a", "size": "1"}, {"size": "2", "model": "b"}])
    for _ in range(2):
        replace_table("page.md", "sizes", table, tmp_path)
        assert page.read_text() == (
            "Before.\n\n<!-- sizes -->\n\n| model | size |\n|---|---|\n| a | 1 |\n| b | 2 |\n\n"
            "<!-- end of sizes -->\n\nBehind.\n"
        )
    with pytest.raises(ValueError, match="no markers <!-- others -->"):
        replace_table("page.md", "others", table, tmp_path)


def test_scripts_write_into_pages_that_have_their_markers() -> None:
    for script in (DOCS.parent / "benchmarks_perf").glob("*.py"):
        source = script.read_text()
        for page, name in re.findall(r'replace_table\("([\w.]+)", "([^"]+)"', source):
            assert f"<!-- {name} -->" in (DOCS / page).read_text(), f"{script.name}: {page} has no table {name!r}"
        for page in re.findall(r'"(\w+\.md)"|docs/([\w/-]+\.md)', source):
            assert (DOCS / "".join(page)).exists() or "report" in page[0], f"{script.name} names {page}"


def test_every_fact_of_the_patients_that_were_left_out_is_in_the_calibration(tmp_path: Path) -> None:
    calibration.run(tmp_path, 0, patients=8, training=TRAINING)
    facts = pd.read_parquet(tmp_path / "0-facts.parquet")
    unseen = facts[(facts["side"] == "forget") & facts["p"].notna()]
    assert unseen["subject"].nunique() == 4
    rows = list(calibration.rows(facts, 0))
    assert {row["in"] for row in rows} == {"answers", "records", "whole notes"}
    assert sum(int(row["facts"]) for row in rows) == len(unseen)
    (notes,) = (row for row in rows if row["fact"] == "note")
    # A note that the tokenizer writes in fewer tokens than all its versions has no rank.
    assert 1 <= int(notes["facts"]) <= 4
    assert notes["due"] == "0.050"
    # A second call reads what is there.
    before = (tmp_path / "without-half-0" / "run.json").stat().st_mtime_ns
    calibration.run(tmp_path, 0, patients=8, training=TRAINING)
    assert (tmp_path / "without-half-0" / "run.json").stat().st_mtime_ns == before


def test_models_that_never_saw_the_notes_have_groups_of_their_own(tmp_path: Path) -> None:
    from medunlearn.study.benchmark_builds import build

    benchmark = build("amnesia", {"synthetic": 3 * false_alarms.GROUP, "note_length": "short", "seed": 1})
    groups = false_alarms.groups_of(benchmark, 1)
    assert [len(group) for group in groups] == [false_alarms.GROUP] * 3
    assert len({patient for group in groups for patient in group}) == 3 * false_alarms.GROUP
    notes = pd.read_json(false_alarms.write_notes(benchmark, groups[0], tmp_path / "notes.jsonl"), lines=True)
    assert set(notes["subject"]) == set(groups[0])
    one = {"extracted": 3, "of": 20, "unseen_extracted": 1, "memorized": True, "identifiers": 4}
    other = {**one, "memorized": False, "extracted": 0, "unseen_identifiers": 2}
    (row,) = false_alarms.table_of({false_alarms.NEVER: [{**one, "unseen_identifiers": 0}, other]})
    assert (row["models"], row["called memorizing"], row["patients extracted"]) == ("2", "1", "3 of 40")
    assert false_alarms.seeds_of("0-2,7") == [0, 1, 2, 7]


def test_every_variant_of_the_ablation_is_unlearned_and_relearned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [name for name, (method, _) in ablation.VARIANTS.items() if method != "counterfactual"]
    assert len(own) == 2
    variants = {name: ablation.VARIANTS[name] for name in ("counterfactual", *own)}
    monkeypatch.setattr(ablation, "VARIANTS", variants)
    small = {
        "benchmark": {"builder": "amnesia", "synthetic": 10, "note_length": "short", "seed": 0},
        "train": {"model": "tiny", **TRAINING},
        "evaluate": {"folds": ["train"], "ranked": 2, "alternatives": 9, "max_new_tokens": 2, "allow_broken": True},
    }
    ablation.run(tmp_path, changes=small, epochs=1, steps=2)
    table = [ablation.row(tmp_path, name, place) for place, name in enumerate(("target", "retrained", *variants))]
    assert all(re.match(r"\d\.\d\d", row["forget"]) for row in table)
    assert all(re.match(r"\d\.\d\d", row["relearned on retained patients"]) for row in table)
    folders = {path.name.partition("-")[0] for path in (tmp_path / "seed-0").iterdir()}
    assert {"target", "retrained", "counterfactual", "ablation"} <= folders


def test_a_share_of_facts_is_over_patients_of_every_hospital() -> None:
    facts = pd.DataFrame(
        {
            "side": ["forget"] * 6 + ["retain"],
            "fold": "train",
            "subject": ["a", "a", "b", "a", "b", "b", "c"],
            "seed": [0, 0, 0, 1, 1, 1, 0],
            "p": [0.02, 0.5, 0.02, 0.02, None, 0.7, 0.02],
            "rank": [1, 25, 1, 1, None, 35, 1],
        }
    )
    mean = suppressed.first_over_subjects(facts, "forget")
    assert (mean.value, mean.subjects) == (3 / 5, 4)
    assert suppressed.first_with_interval(facts, "retain") == "1.00"


def test_a_mean_over_patients_weighs_their_items() -> None:
    rows = pd.DataFrame({"value": [1.0, 0.0], "n_scored": [1, 3], "subject": ["a", "b"], "seed": 0})
    mean = suppressed.over_subjects(rows)
    assert (mean.value, mean.subjects) == (0.25, 2)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> hospitals.Experiment:
    """One hospital of ten patients, and one method with a setting that tuning found."""
    out = tmp_path_factory.mktemp("hospitals")
    settings = hospitals.settings_of(out, "random_10", 0, {"npo": {"beta": 0.2}})
    questions = {"max_new_tokens": 2, "alternatives": 9, "allow_broken": True}
    attack = {key: value for key, value in settings["attack"].items() if key.startswith("relearning")}
    attack |= {"attacks": ["relearning"], "relearning.steps": 2, "relearning.alternatives": 9}
    settings |= {
        "benchmark": hospitals.hospital(0, 10),
        "train": {"model": "tiny", **TRAINING},
        "unlearn": {"methods": ["npo"], "epochs": 1, "npo.beta": 0.2},
        "evaluate": {**settings["evaluate"], **questions, "ranked": 2},
        "attack": {**attack, "allow_broken": True},
    }
    hospitals.run(out, "random_10-0", settings)
    return hospitals.Experiment(out, "random_10-0", settings)


def test_an_experiment_has_answers_records_and_attacks_of_every_model(experiment: hospitals.Experiment) -> None:
    models = {model.label: model for model in experiment.models}
    assert set(models) == {"target", "retrained", "NPO"}
    assert models["NPO"].run.info.config["arguments"]["beta"] == 0.2
    assert models["retrained"].distance == 0
    for model in models.values():
        assert set(model.facts["fold"]) <= {"train", "holdout"}
        assert set(model.facts_in_records["fold"]) == {"record"}
        after = suppressed.recovered([model], "relearning", "relearning.retain", "2", "ranked_first")
        assert re.match(r"\d\.\d\d", after)


def test_cells_inside_the_interval_of_the_retrained_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(value: float, low: float | None, high: float | None, seed: int = 0) -> SimpleNamespace:
        index = pd.MultiIndex.from_tuples([("forget", "train", "em")])
        return SimpleNamespace(
            seed=seed, summary=pd.DataFrame({"value": [value], "low": [low], "high": [high]}, index)
        )

    retrained = {
        "random_05": [model(0.4, 0.3, 0.5), model(0.4, None, None, 1)],
        "random_10": [model(0.2, 0.1, 0.3)],
    }
    unlearned = {"random_05": [model(0.4, 0.3, 0.5, 1), model(0.5, 0.4, 0.6)], "random_10": [model(0.31, 0.2, 0.4)]}
    monkeypatch.setattr(suppressed, "RANDOM", tuple(retrained))
    # A cell without an interval says nothing; limits belong to it.
    assert suppressed.inside(unlearned, retrained, "train", "em") == "1 of 2"
    assert suppressed.inside(retrained, retrained, "train", "em") == "2 of 2"


def test_rates_of_the_wide_model_fall_with_its_width(tmp_path: Path) -> None:
    settings = hospitals.wide(tmp_path, {"npo": {"lr": 1e-3, "beta": 0.3}})
    assert settings["train"]["lr"] == pytest.approx(hospitals.RATE * 192 / 512, rel=1e-2)
    assert settings["unlearn"]["npo.lr"] == pytest.approx(1e-3 * 192 / 512, rel=1e-2)
    assert settings["unlearn"]["npo.beta"] == 0.3


def test_values_capped_as_wholes_keep_the_tuned_settings(tmp_path: Path) -> None:
    tuned = {"npo": {"beta": 0.3}, "counterfactual": {"gamma": 9.0}}
    settings = hospitals.whole(hospitals.settings_of(tmp_path, "random_10", 0, tuned))
    own = {"counterfactual.gamma": 9.0, "counterfactual.whole_values": True}
    assert settings["unlearn"] == {"methods": ["counterfactual"], **own}


def test_what_relearning_brings_back_is_read_after_its_last_step() -> None:
    rows = [("5", 0.1), ("20", 0.3), ("10", 0.2)]
    table = pd.DataFrame(
        {"strength": [step for step, _ in rows], "value": [value for _, value in rows], "low": 0.0, "high": 0.5}
    ).assign(attack="relearning.retain", side="forget", kind="all", measure="ranked_first")
    assert ablation.after(table, "relearning.retain") == "0.30 (0.00–0.50)"
    assert ablation.after(table, "relearning.forget_half") == "–"


def test_tables_of_levels_hold_every_model_once() -> None:
    splits = [{"split": "institution_50", "level": "institution"}, {"split": "flat_50", "level": "flat"}]
    models = [("target", ""), ("unlearned", "NPO")]
    rows = [
        {
            "split": "institution_50",
            "role": role,
            "method": method,
            "group": group,
            "measure": task,
            "value": 0.5,
        }
        for role, method in models
        for group in ("forget", "rephrase", "retain", "gap")
        for task in ("rouge_l", "cloze")
    ]
    control = {"kind": "cloze", "true": 0.9, "difference": 0.4, "low": 0.1, "high": None}
    other = [control | {"image": image, "low": low} for image, low in (("swapped", 0.1), ("blank", None))]
    other[0]["high"] = 0.6
    report = {
        "splits": splits,
        "methods": ["NPO"],
        "numbers": rows,
        "private": [],
        "image_control": [{**row, "split": "institution_50", "role": "target", "method": ""} for row in other],
    }
    shown = list(medforget_tables.level_rows(report))
    assert [row["model"] for row in shown] == ["target", "NPO"]
    assert [shown[0][head] for head in ("forget", "private, forget")] == ["50 / – / 50", "–"]
    (images,) = medforget_tables.image_rows(report)
    assert (images["true image"], images["minus swapped"], images["minus blank"]) == (
        "90",
        "+40 (+10 to +60)",
        "+40",
    )
