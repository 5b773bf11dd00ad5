"""``medunlearn demo forget``: an invented hospital, a tiny model of it, and one deletion request from start to
case.
"""

from __future__ import annotations

from pathlib import Path

from medunlearn.config import ForgetSettings, check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.config.reading import check_at_least
from medunlearn.data.storage import make_folder
from medunlearn.notes.note_benchmark import build
from medunlearn.request.case.signing_keys import make_key
from medunlearn.request.forget_request import Say
from medunlearn.request.forget_stages import Forgotten
from medunlearn.request.graph import forget
from medunlearn.study.benchmark_builds import save_new
from medunlearn.study.export import export
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train
from medunlearn.synthetic.note_table import write_note_table

PROMPT = "Write the {note_type} of {name}."
PATIENTS, UNSEEN, EPOCHS = 12, 8, 30
"""Patients of the hospital and of another one, and passes over the notes: memorized in a minute or two."""
TRAINING = {
    "model": "tiny",
    "tiny_width": 96,
    "tiny_layers": 2,
    "lr": 4e-3,
    "template": "chat",
    "tiny_tokenizer": "common",  # as in a real model, no token is one patient's alone
}
REQUEST_SIZE = {"others": 6, "facts": 8, "budget": 2, "build": {"data_use": "open"}}
"""Of `forget`: four minutes on two cores."""


def run_demo(
    out: Path,
    *,
    synthetic: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    quiet: bool = False,
    say: Say = lambda line: None,
) -> Forgotten:
    """Invent a hospital, train its model, and carry out one patient's request. Resumes.

    | in ``out`` | content |
    |---|---|
    | ``hospital/`` | notes.csv, model/: what a model owner has; unseen.csv: patients of another hospital |
    | ``hospital-training/`` | the run that trained the model; not needed by its owner |
    | ``owner/`` | the key and the secret |
    | ``case/``, ``case-model/``, ``case-work/`` | results |

    Args:
        synthetic: number of patients of the hospital; None: :data:`PATIENTS`.
        epochs: training epochs; None: :data:`EPOCHS`.

    Raises:
        ConfigError: too few patients or epochs.
    """
    check_at_least({"--synthetic": (synthetic, 6), "--epochs": (epochs, 1)})
    patients, epochs = synthetic or PATIENTS, epochs or EPOCHS
    hospital, training, owner = out / "hospital", out / "hospital-training", out / "owner" / "signing.key"
    make_folder(hospital)
    say(f"1/3 hospital: {patients} invented patients, and {UNSEEN} of another one, whom the model never sees")
    notes = write_note_table(hospital / "notes.csv", patients, seed=seed)
    unseen = write_note_table(hospital / "unseen.csv", UNSEEN, seed=seed + 1)
    if not owner.exists():
        make_key(owner)
    say(f"2/3 model: a tiny chat model is trained on their notes, {epochs} times over")
    notes_settings = check(NotesSettings, {"notes": notes, "prompt": [PROMPT], "data_use": "open"})
    benchmark = save_new(build(notes_settings, quiet=quiet), training / "bench")
    training_settings = train_settings({**TRAINING, "epochs": epochs, "seed": seed})
    run = train(benchmark, training_settings, training / "run", device=device, quiet=quiet)
    export(run.folder, hospital / "model")
    patient = f"{seed + 1}{3:05d}"
    say(
        f"3/3 request: medunlearn forget {hospital / 'model'} {notes} --patient {patient} --holdout {unseen} "
        f"--prompt '{PROMPT}' --key {owner} --out {out / 'case'}"
    )
    request = {"patient": patient, "key": owner, "holdout": unseen, "prompt": [PROMPT], "seed": seed}
    settings = check(ForgetSettings, {**request, **REQUEST_SIZE})
    return forget(hospital / "model", notes, settings, out / "case", device=device, quiet=quiet, say=say)
