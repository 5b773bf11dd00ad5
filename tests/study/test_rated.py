"""Evaluations that an older version judged in rehearsal: their ratings are read as drawn."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.origins import real_name
from medunlearn.data.storage import read_frame, write_frames
from medunlearn.results.evaluated import SUMMARY, Evaluated
from medunlearn.results.rated import RATED
from medunlearn.results.runs import Run
from medunlearn.results.scores import FILE as SCORES

QUICK = {"split": "random_10", "metrics": ["rouge_l"], "max_new_tokens": 4, "limit": 2, "replicates": 20}


@pytest.fixture
def judged(hospital: Benchmark, target: Run, tmp_path: Path) -> Evaluated:
    copy = Path(shutil.copytree(target.folder, tmp_path / "target"))
    model = mu.evaluate(copy, hospital, **QUICK, quiet=True, allow_broken=True).models[0]
    mu.judge(copy, llm="rehearsal", benchmark=hospital, replicates=20, quiet=True, allow_broken=True)
    return model


def as_written_before(model: Evaluated, name: str) -> Evaluated:
    """The record with drawn ratings under the judges' names, and without provenance."""
    folder = model.record.folder
    tables = {file: read_frame(folder / file) for file in (SCORES, SUMMARY)}
    write_frames(folder, {file: t.assign(measure=t["measure"].map(real_name)) for file, t in tables.items()})
    where = Run.open(folder).info.results["judged"]
    record = model.run.folder / where / "run.json"
    content: dict[str, Any] = json.loads(record.read_text())
    for facts in content["results"]["judges"].values():
        del facts["provenance"]
        facts["settings"] |= {"base_url": "http://127.0.0.1:8000/v1", "model": name}
    record.write_text(json.dumps(content))
    return Evaluated(model.run, Run.open(folder))


def test_drawn_ratings_of_an_older_version(judged: Evaluated) -> None:
    new = Evaluated(judged.run, Run.open(judged.record.folder))
    rated = {measure for measure in new.table["measure"] if real_name(measure) in RATED}
    assert rated == {f"{name}.drawn" for name in RATED}
    for model, names in (("rehearsal", rated), ("rehearsal-2", rated), ("qwen3", set(RATED))):
        old = as_written_before(new, model) if model == "rehearsal" else _renamed(new, model)
        for table in (old.table, old.summary):
            assert {measure for measure in table["measure"] if real_name(measure) in RATED} == names


def _renamed(model: Evaluated, name: str) -> Evaluated:
    record = model.run.folder / Run.open(model.record.folder).info.results["judged"] / "run.json"
    content: dict[str, Any] = json.loads(record.read_text())
    for facts in content["results"]["judges"].values():
        facts["settings"]["model"] = name
    record.write_text(json.dumps(content))
    return Evaluated(model.run, Run.open(model.record.folder))
