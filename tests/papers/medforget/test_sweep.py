"""Numbers, splits and differences of the report, on scores whose means are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from sweep_folders import MakeSweep, Model, number_of, who

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.papers.medforget.build import build
from medunlearn.papers.medforget.claims import findings
from medunlearn.papers.medforget.models import LevelModels, flat
from medunlearn.papers.medforget.report import report_of
from medunlearn.papers.medforget.settings import MedforgetSettings
from medunlearn.papers.medforget.sweep import LevelResults
from medunlearn.papers.medforget.tables import (
    attack_table,
    common_table,
    identity_table,
    retrained_table,
    sequence_table,
    table_3,
    table_5,
    variants_table,
    varied_table,
)
from medunlearn.papers.sweeps.contrasts import parts
from medunlearn.papers.sweeps.models import TARGET_MODEL
from medunlearn.reports.blocks import Table
from medunlearn.reports.markdown import to_markdown
from medunlearn.results.evaluated import Evaluated

from .conftest import SEEDS, About, LevelFolder
from .test_build import pictured

SPLIT = "institution_50"
Gather = Callable[..., LevelResults]


class ByHand(LevelFolder):
    """The target knows everything; the unlearned model one patient's answers of twelve, and half of every text."""

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        first = sorted(set(meta.loc[meta["side"] == "forget", "subject"]))[0]
        rows = []
        for row in meta.itertuples():
            knows = model.role == "target" or row.side == "retain" or row.subject == first
            measures: dict[str, float | None] = {"rouge_l_f": 1.0 if model.role == "target" else 0.5}
            if row.kind == "classification":
                measures["option_accuracy"] = float(knows)
            if row.kind in ("cloze", "identity"):
                measures["exact_match"] = float(knows)
            # The generated letter is right for everybody, the words for those who know.
            measures["exact_match.rouge_l"] = 1.0 if row.kind == "classification" else float(knows)
            if self.judged:
                rated = row.subject == first
                zero = 27.5 if rated else 12.5
                measures |= {"factuality": 0.2 if rated else None, "gen_score": 27.5 if rated else None}
                measures |= {"gen_score.failed_zero": zero if row.kind != "identity" else 40.0}
            rows += [(row.question_id, measure, value) for measure, value in measures.items()]
        return pd.DataFrame(rows, columns=["question_id", "metric", "value"])


def two_models(folder: Path, wards: Benchmark, gather: Gather, *, judged: bool = False) -> LevelResults:
    sweep = ByHand(folder, wards, judged=judged, attacked=False)
    models = [sweep.model("target", SPLIT), sweep.model("unlearned", SPLIT, method="GradDiff")]
    return gather(models, 50)


def column(table: Table | None, title: str, note: str) -> list[str]:
    assert table is not None
    place = next(n for n, cell in enumerate(table.columns) if (cell.text, cell.note) == (title, note))
    return [row[place].text for row in table.rows]


def test_numbers_worked_by_hand(wards: Benchmark, gather: Gather, tmp_path: Path) -> None:
    results = two_models(tmp_path, wards, gather)
    # One of twelve patients of as many questions: a twelfth of them.
    for measure in ("classification", "cloze", "institution name", "cloze.rouge_l", "patient name.rouge_l"):
        number = number_of(results, SPLIT, who("GradDiff"), "forget", measure)
        assert (number.value, number.n_subjects) == (pytest.approx(1 / 12), 12)
    generated = number_of(results, SPLIT, who("GradDiff"), "forget", "classification.generated")
    assert generated.value == 1.0
    table = table_3(results)
    assert column(table, "Forget set ↓", "Cloze Acc") == ["100.0", "8.3"]
    assert column(table, "Retain set ↑", "Class. Acc") == ["100.0", "100.0"]
    assert column(table, "Forget rephrase set ↓", "ROUGE-L") == ["100.0", "50.0"]
    # A set that nobody was asked takes no room.
    assert table is not None
    assert not any("General" in cell.text for cell in table.columns)
    dropped = results.contrast("forgotten", SPLIT, "GradDiff", "forget", "cloze")
    assert dropped.value == pytest.approx(11 / 12)
    assert results.contrast("lost", SPLIT, "GradDiff", "retain", "cloze").value == pytest.approx(0.0)
    assert results.tasks[0].title == "ROUGE-L"
    assert {cell.note for cell in getattr(table_5(results), "columns", ())[2:]} == {"ROUGE-L"}
    assert any("no Gen Score" in caveat for caveat in results.caveats)


def test_gen_score_is_shown_with_its_parts_where_judges_rated(
    wards: Benchmark, gather: Gather, tmp_path: Path
) -> None:
    judged = two_models(tmp_path, wards, gather, judged=True)
    assert judged.tasks[0].title == "Gen Score"
    table = table_5(judged)
    assert table is not None
    assert [cell.note for cell in table.columns[2:5]] == ["ROUGE-L", "Factuality", "Gen Score"]
    # 0.75 x 20 + 0.25 x 50 = 27.5, of the one patient whose answers were rated; the rest is unscored, not 0.
    assert column(table, "Forget set ↓", "Gen Score") == ["27.5", "27.5"]
    assert "44 unscored" in table.rows[1][4].note
    assert not any("no Gen Score" in caveat for caveat in judged.caveats)
    # The published code: a failed judge counts 0, and 36 names of 40 each are in it:
    # (4 x 27.5 + 44 x 12.5 + 36 x 40) / 84 = 25. Where no name was rated, there is no mean with names in it.
    assert judged.number(SPLIT, who("GradDiff"), "forget", "gen_score.names") is not None
    number = number_of(judged, SPLIT, who("GradDiff"), "forget", "gen_score.failed_zero")
    assert number.value == pytest.approx(0.25)


def test_a_published_number_stands_beside_ours_in_its_own_variant_alone(
    wards: Benchmark, gather: Gather, tmp_path: Path
) -> None:
    results = two_models(tmp_path, wards, gather)
    forget = "Forget set ↓"
    table = variants_table(results)
    assert table is not None
    cloze, options = (
        next(n for n, cell in enumerate(table.columns) if (cell.text, cell.note) == (forget, title))
        for title in ("Cloze Acc, ROUGE-L = 1", "Class. Acc, generated, ROUGE-L = 1")
    )
    target, model = table.rows
    assert [target[cloze].text, model[cloze].text] == ["100.0", "8.3"]
    # Table 3, GradDiff at institution level: 38.64 of cloze and 57.65 of classification.
    assert [model[place].note.rpartition(", ")[2] for place in (cloze, options)] == ["paper 38.64", "paper 57.65"]
    assert target[cloze].note.endswith("paper 100.00")
    others = [table_3(results), table_5(results), identity_table(results)]
    assert not any("paper" in cell.note for other in others if other for row in other.rows for cell in row)


def test_splits_and_their_flat_partner(results: LevelResults) -> None:
    # 48 sections of 3 questions; a study's name goes from its level on, a patient's and an institution's likewise.
    assert [(s.split, s.level, s.forget, s.sections, s.questions, s.partner) for s in results.splits] == [
        ("institution_50", "institution", 2, 48, 180, "flat_50"),
        ("patient_50", "patient", 12, 48, 168, "flat_50"),
        ("study_50", "study", 12, 48, 156, "flat_50"),
        ("section_50", "section", 48, 48, 144, "flat_50"),
        ("flat_50", "flat", 84, 48, 180, None),
    ]


def test_what_level_and_flat_both_forget_is_a_set_of_its_own(results: LevelResults, wards: Benchmark) -> None:
    own, flats = (
        {q.question_id for q in wards.questions_of(wards.split(name), "forget", ("train",)) if q.kind == "cloze"}
        for name in (SPLIT, "flat_50")
    )
    assert results.splits[0].shared == len(own & flats) < len(own)
    number = number_of(results, SPLIT, who("MANU"), "shared", "cloze")
    assert number.n_scored == len(SEEDS) * len(own & flats)


def test_words_view_and_trained_paraphrases_are_sets_of_their_own(gather: Gather, tmp_path: Path) -> None:
    images = pictured(synthetic=10, sections=4)
    bench = replace(images, records=tuple(replace(record, image=None) for record in images.records))

    def shares(about: About) -> float:
        return 0.9 if about.fold == "train" else 0.5

    splits = ("patient_25", "section_25")
    results = gather(LevelFolder(tmp_path, bench, shares, attacked=False).all(splits, ["NPO"]), 30, bench)
    cells = {
        group: results.number("patient_25", who("NPO"), group, "cloze")
        for group in ("forget", "rephrase", "rephrase words", "rephrase view", "paraphrase", "common")
    }
    # Of three forgotten patients' studies of four sections, ten sections are common; two paraphrases a question.
    counts = {group: cell.n_scored for group, cell in cells.items() if cell}
    assert counts == dict.fromkeys(cells, 12) | {"paraphrase": 24, "common": 10}
    table = varied_table(results)
    assert table is not None
    assert {cell.text for cell in table.columns[2:]} == {
        "Forget rephrase set ↓",
        "Other words, same view ↓",
        "Same words, other view ↓",
        "Forget set, trained paraphrases ↓",
    }
    assert results.contrast("known", "patient_25", "", "rephrase words", "cloze").value is not None


@pytest.mark.parametrize(("text_twin", "fold"), [("asked", "rephrase"), ("trained", "train")])
def test_each_idea_has_a_label_of_its_own(gather: Gather, tmp_path: Path, text_twin: str, fold: str) -> None:
    """Folds are the benchmark's, whatever was varied, put in front of a question or forgotten by others, too."""
    images = pictured(synthetic=10, sections=4, text_twin=text_twin)
    bench = replace(images, records=tuple(replace(record, image=None) for record in images.records))
    models = LevelFolder(tmp_path, bench).all(("patient_25", "section_25"), ["NPO"], flat="flat_25")
    table = LevelModels(models, bench).table
    labels = {name: set(table[name]) for name in ("fold", "variant", "part", "given", "level")}
    assert labels == {
        "fold": {"train", "rephrase"},
        "variant": {"", "words", "view", "paraphrase", "text"},
        "part": {"whole", "shared", "common"},
        "given": {"", "none", "study", "patient", "institution"},
        "level": {"", "institution", "patient", "study"},
    }
    assert set(table.loc[table["variant"] == "text", "fold"]) == {fold}
    assert set(table.loc[table["level"] != "", "kind"]) == {"identity"}
    results = gather(models, 30, bench)
    by_name = [results.number("patient_25", who("NPO"), group, "cloze") for group in ("text", "retain text")]
    assert [number and number.n_scored for number in by_name] == [12, 28]


def test_the_gap_is_retain_minus_forget(wards: Benchmark, gather: Gather, tmp_path: Path) -> None:
    results = two_models(tmp_path, wards, gather)
    gap = number_of(results, SPLIT, who("GradDiff"), "gap", "cloze")
    assert gap.value == pytest.approx(11 / 12)
    none = number_of(results, SPLIT, TARGET_MODEL, "gap", "cloze")
    assert none.value == pytest.approx(0.0)
    assert column(table_3(results), "Retain minus forget ↑", "Cloze Acc") == ["0.0", "91.7"]


def test_unlike_amounts_are_compared_on_what_all_levels_forget(gather: Gather, tmp_path: Path) -> None:
    """One institution of two is a half, two patients of twelve a sixth: the patients' sections are common."""
    bench = build(MedforgetSettings(synthetic=12, institutions=2, studies=1, percents=(17,), text_only=True))
    splits = [f"{level}_17" for level in ("institution", "patient")]
    sweep = LevelFolder(tmp_path, bench, lambda about: 0.5)
    results = gather(sweep.all(splits, ["NPO"]), 30, bench)
    assert [scope.sections for scope in results.levels] == [24, 8]
    assert results.common == 8
    own, common, attacked = (
        results.number(splits[0], who("NPO"), group, "cloze") for group in ("forget", "common", "given patient")
    )
    assert [cell and cell.n_scored for cell in (own, common, attacked)] == [24, 8, 8]
    assert common_table(results) is not None
    assert results.contrast("forgotten more", splits[0], "NPO", "common", "cloze").n_subjects == 2


class Forgetful(LevelFolder):
    """Each step forgets its request; the last one brings half of all earlier answers back."""

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        rows = []
        for row in meta.itertuples():
            again = 0.5 if model.made_for.endswith("03") and model.other_split else 0.0
            value = 1.0 if model.role == "target" or row.side == "retain" else again
            rows += [(row.question_id, m, value) for m in ("rouge_l_f", "exact_match", "option_accuracy")]
        return pd.DataFrame(rows, columns=["question_id", "metric", "value"])


def test_requests_in_sequence(wards: Benchmark, gather: Gather, tmp_path: Path) -> None:
    results = gather(Forgetful(tmp_path, wards, attacked=False).in_sequence(["NPO"]), 50)
    labels = [scope.split for scope in results.splits]
    cloze = results.sequence.query("measure == 'cloze'").pivot(index="step", columns="set", values="value")
    assert cloze.loc[1, "earlier"] is pd.NA or pd.isna(cloze.loc[1, "earlier"])
    assert cloze[["before", "own", "kept"]].to_numpy().tolist() == [[1.0, 0.0, 1.0]] * 3
    assert cloze.loc[[2, 3], ["earlier", "came back"]].to_numpy().tolist() == [[0.0, 0.0], [0.5, 0.5]]
    # Twelve patients of two earlier requests.
    assert results.sequence.query("step == 3 and set == 'earlier'")["n_subjects"].max() == 12
    # Six patients of whom nothing came back settle no tenth; of twelve half came back, which is more.
    (finding,) = (finding for finding in findings(results) if finding.name == "sequence")
    verdicts = [(case.labels["split"], case.verdict) for case in finding.cases]
    assert verdicts == [(labels[1], "open")] * 3 + [(labels[2], "does not hold")] * 3
    assert finding.verdict == "does not hold"
    stays = [results.in_sequence["NPO", step, "cloze", "stays forgotten"].value for step in "23"]
    assert stays == pytest.approx([0.1, 0.5 - 0.9])
    # What earlier requests forgot is not counted among what is kept.
    retained = results.sequence.query("set == 'kept' and measure == 'cloze'")["n_subjects"].tolist()
    assert retained == [18, 12, 6]
    table = sequence_table(results)
    assert table is not None
    assert [row[1].text for row in table.rows] == [f"{step}: {split}" for step, split in enumerate(labels, start=1)]
    assert column(table, "Cloze Acc", "of these came back") == ["–", "+0.0", "+50.0"]
    assert "Requests in sequence" in to_markdown(report_of(results).report)
    assert "institution-0" not in repr(results.sequence)


def test_every_table_has_the_models(results: LevelResults) -> None:
    for table, names in (
        (table_3(results), {"target", "retrained", "MANU"}),
        (attack_table(results), {"target", "retrained", "MANU"}),
        (retrained_table(results), {"MANU"}),
    ):
        assert table is not None
        assert {row[0].text for row in table.rows} == names
    assert "MANU, unlearned on flat_50" in column(identity_table(results), "Model", "")
    assert results.has(SPLIT, flat("MANU"))


def test_numbers_of_fewer_than_five_patients_have_no_interval(
    wards: Benchmark, gather: Gather, tmp_path: Path
) -> None:
    node = next(r.groups["patient"] for r in wards.records if "patient" in r.groups)
    results = gather([ByHand(tmp_path, wards, attacked=False).model("target", f"subject={node}")], 50)
    number = number_of(results, results.splits[0].split, TARGET_MODEL, "forget", "cloze")
    assert (number.value, number.low) == (1.0, None)
    assert any("no interval" in caveat for caveat in results.caveats)
    assert results.levels == []
    assert node not in repr(results.splits)


@pytest.mark.parametrize(("identifiers", "share"), [("none", 0.95 * 0.7), ("institution", 0.95 * 0.7 * 1.3)])
def test_attacked_questions_are_read_beside_the_others(
    results: LevelResults, identifiers: str, share: float
) -> None:
    number = number_of(results, "section_50", who("MANU"), f"given {identifiers}", "cloze")
    assert number.value == pytest.approx(share, abs=0.03)
    assert set(results.attacked["identifiers"]) == {"none", "study", "patient", "institution"}


def test_what_does_not_belong_is_refused(make_sweep: MakeSweep, models: list[Evaluated], wards: Benchmark) -> None:
    again = make_sweep().model("target", SPLIT)
    other = make_sweep().model("retrained", SPLIT, about="section_50")
    for swept, message in (
        ([*models, again], "are both the target"),
        ([other], "retrained model of split"),
        ([], "nothing to report"),
    ):
        with pytest.raises(InputError, match=message):
            LevelModels(swept, wards)


def test_an_expression_is_a_weighted_sum() -> None:
    first, second, third = parts("0.5 m.AFE[holdout] - t.AFE@small + r.ls")
    assert (first.weight, first.model, first.name, first.where, first.split) == (0.5, "m", "AFE", "holdout", "")
    assert (second.weight, second.split, third.weight, third.name) == (-1.0, "small", 1.0, "ls")
    with pytest.raises(ValueError, match="not a weighted sum"):
        parts("m.AFE / t.AFE")
    own, other = parts("m[none] - t@fine")
    assert (own.model, own.name, own.where, other.weight, other.split) == ("m", "", "none", -1.0, "fine")
    with pytest.raises(ValueError, match="not a weighted sum"):
        parts("mt")
