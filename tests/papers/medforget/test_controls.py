"""Tables beside the paper's: private questions alone, and what is lost with other images."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from sweep_folders import Model, number_of, tables_of

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.recurring_answers import recurring_answers
from medunlearn.papers.medforget.controls import control_sections, image_controls, private_results
from medunlearn.papers.medforget.report import level_results
from medunlearn.papers.sweeps.models import TARGET_MODEL
from medunlearn.papers.sweeps.results import SweepRequest
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.image_control import FILE, control_table

from .conftest import LevelFolder

SPLIT = "patient_50"
REQUEST = SweepRequest("Wards", replicates=40)


class MarkedFolder(LevelFolder):
    """The target answers half of the private questions, and all whose answers it could have from elsewhere."""

    marked = True

    def questions(self, split: str) -> pd.DataFrame:
        meta = super().questions(split)
        recurring = recurring_answers(self.benchmark, self.benchmark.split(split))
        return meta.assign(private=~meta["question_id"].isin(recurring)) if self.marked else meta

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        private = meta["private"] if self.marked else pd.Series(True, index=meta.index)
        value = (
            private.map({True: 0.5, False: 1.0}) if model.role == "target" else private.map({True: 0.0, False: 0.5})
        )
        names = {"classification": "option_accuracy", "cloze": "exact_match", "identity": "exact_match"}
        measure = meta["kind"].map(names).fillna("rouge_l_f")
        return pd.DataFrame({"question_id": meta["question_id"], "metric": measure, "value": value})


@pytest.fixture(scope="module")
def marked(wards: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> list[Evaluated]:
    folder = MarkedFolder(tmp_path_factory.mktemp("marked"), wards, attacked=False)
    models: list[Evaluated] = folder.all([SPLIT], ["NPO"])
    for model in models:
        table = model.table
        # Names need their image; nothing else does.
        lost = table["kind"] == "identity"
        others = {name: table.assign(value=table["value"].mask(lost, 0)) for name in ("swapped", "blank")}
        control_table(table, others).to_parquet(model.record.folder / FILE)
    return models


def test_private_questions_have_tables_of_their_own(wards: Benchmark, marked: list[Evaluated]) -> None:
    everything, private = level_results(marked, wards, REQUEST), private_results(marked, wards, REQUEST)
    assert private is not None
    for measure in ("cloze", "classification"):
        whole, part = (number_of(r, SPLIT, TARGET_MODEL, "forget", measure) for r in (everything, private))
        assert part.value == 0.5 < float(whole.value or 0)
        assert 0 < part.n_scored < whole.n_scored
    (private_part,) = control_sections(everything, private, pd.DataFrame())
    assert private_part is not None
    assert private_part.title == "On private questions alone"


def test_without_marks_there_is_no_private_part(wards: Benchmark, tmp_path: Path) -> None:
    folder = MarkedFolder(tmp_path, wards, attacked=False)
    folder.marked = False
    assert private_results([folder.model("target", SPLIT)], wards, REQUEST) is None


def test_what_needs_its_image_is_told_from_what_does_not(wards: Benchmark, marked: list[Evaluated]) -> None:
    controls = image_controls(marked, wards, REQUEST)
    gaps = controls.set_index(["role", "kind", "image"])["difference"]
    assert gaps["target", "identity", "swapped"] == gaps["target", "identity", "blank"] == 0.5
    assert set(gaps.xs("cloze", level="kind")) == {0.0}
    (images,) = control_sections(level_results(marked, wards, REQUEST), None, controls)
    assert images is not None
    (table,) = tables_of([images])
    cells = dict(zip([f"{c.text} {c.note}" for c in table.columns], [c.text for c in table.rows[0]], strict=True))
    assert cells["Identity true image"] == "50.0"
    assert cells["Identity minus swapped"] == "+50.0"
    assert cells["Cloze minus blank"] == "+0.0"
    assert image_controls([], wards, REQUEST).empty
