"""A hospital of eight invented patients whose notes a small model knows, and eight patients whom it never saw."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import medunlearn as mu
from medunlearn import api
from medunlearn.config import ForgetSettings, check
from medunlearn.request.case.signing_keys import make_key
from medunlearn.request.forget_request import ForgetRequest
from medunlearn.request.forget_stages import Forgotten
from medunlearn.results.runs import Run
from medunlearn.synthetic.note_table import write_note_table

SMALL: dict[str, Any] = {
    "model": "tiny", "tiny_width": 64, "tiny_layers": 1, "precision": "fp32", "pretrain_epochs": 0,
    "epochs": 80, "batch_size": 4, "lr": 4e-3,
}  # fmt: skip
QUICK: dict[str, Any] = {
    "method": "counterfactual", "unlearn": {"epochs": 20, "lr": 8e-3, "precision": "fp32"}, "battery": (),
    "facts": 4, "others": 6, "margin": 0.4, "build": {"prefixes": "16", "clozes": 0},
    "evaluate": {"max_new_tokens": 8, "alternatives": 19},
}  # fmt: skip
"""Settings of a request that takes seconds."""
EXACT_TRAINING: dict[str, Any] = {
    "model": "tiny", "tiny_width": 32, "tiny_layers": 1, "tiny_tokenizer": "own", "precision": "fp32",
    "epochs": 1, "train_on": "records",
}  # fmt: skip
"""Settings of a run whose training can be repeated exactly."""


@dataclass(frozen=True)
class Hospital:
    """What the owner of a model has.

    Attributes:
        model: a Hugging Face folder.
        run: of `train`, that the model is of.
        patients: ids.
    """

    folder: Path
    notes: Path
    unseen: Path
    key: Path
    run: Run
    model: Path
    patients: tuple[str, ...]

    def forget(self, out: Path, patient: str, model: Path | None = None, **settings: Any) -> Forgotten:
        """A request, with quick settings."""
        values = {"holdout": self.unseen, **QUICK, **settings}
        return api.forget(
            model or self.model, self.notes, out=out, patient=patient, key=self.key, quiet=True, **values
        )

    def request(self, out: Path, patient: str, model: Path | None = None, **settings: Any) -> ForgetRequest:
        """A request before its first stage, with quick settings."""
        values = {"holdout": self.unseen, **QUICK, **settings, "patient": patient, "key": self.key}
        checked = check(ForgetSettings, values)
        return ForgetRequest.open(model or self.model, self.notes, checked, out, device="cpu", quiet=True)

    def words(self, out: Path, patient: str, model: Path | None = None) -> list[object]:
        """The same request as words of the command line."""
        return [
            "forget", model or self.model, self.notes, "--patient", patient, "--key", self.key, "--out", out,
            "--holdout", self.unseen, "--method", QUICK["method"], "--unlearn.epochs=20",
            "--unlearn.precision=fp32", "--facts=8", "--others=8", "--quiet",
        ]  # fmt: skip


def open_hospital(folder: Path) -> Hospital:
    """Write the notes, make a key, and train the model."""
    notes = write_note_table(folder / "notes.csv", 8, seed=0, studies=0)
    unseen = write_note_table(folder / "unseen.csv", 8, seed=1, studies=0)
    key = folder / "owner" / "signing.key"
    make_key(key)
    bench = mu.build.notes(notes, out=folder / "bench", quiet=True)
    run = api.train(bench, train_on="records", out=folder / "target", quiet=True, **SMALL)
    patients = tuple(sorted(pd.read_csv(notes, dtype=str)["patient_id"].unique()))
    model = api.export(run, folder / "model")
    return Hospital(folder, notes, unseen, key, run, model, patients)


def request_copy(done: Forgotten, folder: Path) -> tuple[Path, Path, Path]:
    """Copies of case, model and work."""
    places = done.case.folder, done.model, done.work
    for place in places:
        shutil.copytree(place, folder / place.name, symlinks=True)
    case, model, work = (folder / place.name for place in places)
    return case, model, work


def other_model(folder: Path) -> Path:
    """A model that was trained on notes of other patients alone."""
    notes = write_note_table(folder / "other.csv", 6, seed=2, studies=0)
    bench = mu.build.notes(notes, out=folder / "other-bench", quiet=True)
    settings = {**SMALL, "epochs": 30}
    run = api.train(bench, train_on="records", out=folder / "other", quiet=True, **settings)
    return api.export(run, folder / "model")
