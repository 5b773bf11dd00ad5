"""Numbers, splits and differences of the report, on scores whose means are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from sweep_folders import MakeSweep, Model

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.papers.medforget.sweep import LevelModels, LevelResults, flat
from medunlearn.papers.medforget.tables import attack_table, identity_table, retrained_table, table_3, table_5
from medunlearn.papers.sweeps.models import RETRAINED_MODEL, TARGET_MODEL, unlearned
from medunlearn.reports.blocks import Cell, Table
from medunlearn.results.evaluated import Evaluated

from .conftest import LevelFolder

SPLIT = "institution_25"
Gather = Callable[..., LevelResults]


class ByHand(LevelFolder):
    """The target knows everything; the unlearned model one patient's answers of five, and half of every text."""

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        first = sorted(set(meta.loc[meta["side"] == "forget", "subject"]))[0]
        rows = []
        for row in meta.itertuples():
            knows = model.role == "target" or row.side == "retain" or row.subject == first
            rows.append((row.question_id, "rouge_l_f", 1.0 if model.role == "target" else 0.5))
            if row.kind == "classification":
                rows.append((row.question_id, "option_accuracy", float(knows)))
            if row.kind in ("cloze", "identity"):
                rows.append((row.question_id, "exact_match", float(knows)))
            if self.judged:
                rows.append((row.question_id, "factuality", 0.2 if row.subject == first else None))
                rows.append((row.question_id, "gen_score", 27.5 if row.subject == first else None))
        return pd.DataFrame(rows, columns=["question_id", "metric", "value"])


def two_models(folder: Path, wards: Benchmark, gather: Gather, *, judged: bool = False) -> LevelResults:
    sweep = ByHand(folder, wards, judged=judged, attacked=False)
    models = [sweep.model("target", SPLIT), sweep.model("unlearned", SPLIT, method="GradDiff")]
    return gather(models, 50)


def columns_of(table: Table | None) -> tuple[Cell, ...]:
    assert table is not None
    return table.columns


def column(table: Table | None, title: str, note: str) -> list[str]:
    assert table is not None
    place = next(n for n, cell in enumerate(table.columns) if (cell.text, cell.note) == (title, note))
    return [row[place].text for row in table.rows]


def test_numbers_worked_by_hand(wards: Benchmark, gather: Gather, tmp_path: Path) -> None:
    results = two_models(tmp_path, wards, gather)
    # One of five patients of as many questions: a fifth of them.
    for measure in ("classification", "cloze", "institution name"):
        found = results.number(SPLIT, unlearned("GradDiff"), "forget", measure)
        assert found is not None
        assert found.value == pytest.approx(0.2)
        assert found.n_subjects == 5
    table = table_3(results)
    assert column(table, "Forget set ↓", "Cloze Acc") == ["100.0", "20.0"]
    assert column(table, "Retain set ↑", "Class. Acc") == ["100.0", "100.0"]
    assert column(table, "Forget rephrase set ↓", "ROUGE-L") == ["100.0", "50.0"]
    assert column(table, "General med set ↑", "ROUGE-L") == ["–", "–"]
    dropped = results.contrast("forgotten", SPLIT, "GradDiff", "forget", "cloze")
    assert dropped.value == pytest.approx(0.8)
    assert dropped.low is not None
    assert 0.0 < dropped.low <= 0.8
    assert results.contrast("lost", SPLIT, "GradDiff", "retain", "cloze").value == pytest.approx(0.0)


def test_gen_score_is_shown_with_its_parts_and_only_where_judges_rated(
    wards: Benchmark, gather: Gather, tmp_path: Path
) -> None:
    plain, judged = (two_models(tmp_path / name, wards, gather, judged=name == "b") for name in ("a", "b"))
    assert plain.tasks[0].title == "ROUGE-L"
    assert [cell.note for cell in columns_of(table_5(plain))[2:]] == ["ROUGE-L"] * 4
    assert any("no Gen Score" in caveat for caveat in plain.facts.caveats)
    assert judged.tasks[0].title == "Gen Score"
    table = table_5(judged)
    assert [cell.note for cell in columns_of(table)[2:5]] == ["ROUGE-L", "Factuality", "Gen Score"]
    # 0.75 x 20 + 0.25 x 50 = 27.5, of the one patient whose answers were rated; the rest is unscored, not 0.
    assert column(table, "Forget set ↓", "Gen Score") == ["27.5", "27.5"]
    assert table is not None
    assert "8 unscored" in table.rows[1][4].note
    assert not any("no Gen Score" in caveat for caveat in judged.facts.caveats)


def test_splits_and_their_flat_partner(results: LevelResults) -> None:
    found = [(scope.split, scope.level, scope.forget, scope.sections, scope.partner) for scope in results.scopes]
    assert found == [
        ("institution_25", "institution", 1, 10, "flat_25"),
        ("patient_25", "patient", 5, 10, "flat_25"),
        ("study_25", "study", 5, 10, "flat_25"),
        ("section_25", "section", 10, 10, "flat_25"),
        ("flat_25", "flat", 25, 10, None),
    ]
    # 10 sections of 3 questions; a study's name goes from its level on, a patient's and an institution's likewise.
    assert [scope.questions for scope in results.scopes] == [45, 40, 35, 30, 45]


def test_every_table_has_the_references(results: LevelResults) -> None:
    for table in (table_3(results), attack_table(results)):
        assert table is not None
        assert {"target", "retrained", "GradDiff", "MANU"} == {row[0].text for row in table.rows}
    over = retrained_table(results)
    assert over is not None
    assert {row[0].text for row in over.rows} == {"GradDiff", "MANU"}
    left = identity_table(results)
    assert left is not None
    assert "GradDiff, unlearned on flat_25" in {row[1].text for row in left.rows}
    assert results.has(SPLIT, flat("MANU"))


def test_numbers_of_fewer_than_five_patients_have_no_interval(
    wards: Benchmark, gather: Gather, tmp_path: Path
) -> None:
    nodes = [r.groups["patient"] for r in wards.records if "patient" in r.groups]
    split = f"subject={nodes[0]}"
    sweep = ByHand(tmp_path, wards, attacked=False)
    found = gather([sweep.model("target", split)], 50)
    name = found.scopes[0].split
    number = found.number(name, TARGET_MODEL, "forget", "cloze")
    assert number is not None
    assert (number.value, number.low) == (1.0, None)
    assert any("no interval" in caveat for caveat in found.facts.caveats)
    assert found.levels == []
    assert nodes[0] not in repr(found.scopes)


def test_attacked_questions_are_read_beside_the_others(results: LevelResults) -> None:
    steps = [results.attack("section_25", unlearned("MANU"), step, "cloze") for step in ("none", "institution")]
    assert all(one is not None and one.value is not None for one in steps)
    low, high = (one.value for one in steps if one is not None)
    assert low == pytest.approx(0.95 * 0.7, abs=0.03)
    assert high == pytest.approx(0.95 * 0.7 * 1.3, abs=0.03)
    assert results.number("section_25", RETRAINED_MODEL, "forget", "cloze") is not None


def test_what_does_not_belong_is_refused(make_sweep: MakeSweep, models: list[Evaluated], wards: Benchmark) -> None:
    again = make_sweep().model("target", SPLIT)
    with pytest.raises(InputError, match="are both the target"):
        LevelModels([*models, again], wards)
    other = make_sweep().model("retrained", SPLIT, about="section_25")
    with pytest.raises(InputError, match="retrained model of split"):
        LevelModels([other], wards)
    with pytest.raises(InputError, match="nothing to report"):
        LevelModels([], wards)
