"""Lineage of a base model: evidence that it was made without some records."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from medunlearn.config import TINIES, TrainSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import forget_records
from medunlearn.data.lineage import read_lineage
from medunlearn.errors import InputError
from medunlearn.models.folders import is_model, record_folder
from medunlearn.models.model_files import RULE
from medunlearn.results.runs import Run, RunRecord

BaseLineage = Literal["made in memory", "recorded", "stated"]


def base_lineage(
    run: Run, settings: TrainSettings, benchmark: Benchmark, forget: frozenset[str], *, stated: bool
) -> BaseLineage:
    """Reason why a base model is known never to have seen some records.

    Raises:
        InputError: it saw them; this is unknown; the base is missing or has changed.
    """
    base = settings.model
    if base in TINIES:
        return "made in memory"
    if not Path(base).is_dir() and run.info.inputs["model"] != base:  # a hub id stands for itself
        raise InputError(
            f"The base of {run.folder} is not at {base}. Move it back, or run the command in the folder where the "
            "training was started."
        )
    if not is_model(base, run.info.inputs["model"], 1 if run.info.digest is None else RULE):
        raise InputError(
            f"The base {base} has changed since {run.folder} was trained from it. Restore the original."
        )
    if _never_saw(base, benchmark, forget, frozenset()):
        return "recorded"
    if not stated:
        raise InputError(
            f"The training data of the base {base} is not recorded, so it may have seen the patients. If you know "
            "that it has not (it was made before their notes, or without them), declare it: --base-unseen "
            "(base_unseen=True). The case says that you did."
        )
    return "stated"


def _never_saw(base: str, benchmark: Benchmark, records: Collection[str], above: frozenset[Path]) -> bool:
    """True if a base model's lineage shows that it was made without some records; False if nothing is recorded.

    It is recorded for a tiny model made in memory, for a run trained without these records over such a base, and
    for a model adopted as retrained without them.

    Args:
        base: run, model folder or hub id.
        records: ids, of the benchmark's records.
        above: folders visited so far, to stop at cycles.

    Raises:
        InputError: the record shows that it, or a model it was made from, saw them; a record is broken.
    """
    if base in TINIES:
        return True
    folder = record_folder(Path(base).resolve())
    if not folder.is_dir() or folder in above:
        return False
    lineage = read_lineage(folder)
    bases = [_never_saw(origin, benchmark, records, above | {folder}) for origin in lineage.ancestors]
    if lineage.kind != "run":
        return False
    run = Run(folder, RunRecord.read(folder))
    if not run.saw(benchmark.texts_fingerprint, benchmark.fingerprint):
        return False
    retrained = run.info.verb == "adopt" and run.role == "retrained"
    if not (retrained or run.info.verb == "train") or not left_out_of(run, benchmark).issuperset(records):
        raise InputError(
            f"The base {folder} was itself trained on the patients of this request, so no training over it is "
            "without them. Train over a base that never saw them, or unlearn with a method (`medunlearn list "
            "methods`)."
        )
    if retrained:
        return True
    if run.info.config["model"] in TINIES:
        refuse_fitted_tokenizer(run)
    return bool(bases) and all(bases)


def left_out_of(run: Run, benchmark: Benchmark) -> frozenset[str]:
    """Ids of the records that a run's training excluded by its split.

    Raises:
        InputError: its split is another benchmark's.
    """
    without = run.info.config.get("without")
    if without is None:
        return frozenset()
    if "=" not in without and run.info.benchmark != benchmark.fingerprint:
        raise InputError(
            f"{run.folder} was trained without the split {without!r} of another benchmark of these texts. Name the "
            "benchmark that it was trained on."
        )
    return forget_records(benchmark, without)


def refuse_fitted_tokenizer(run: Run) -> None:
    """Refuse a tiny model whose tokenizer is fitted on texts excluded from its training.

    With ``common`` no token belongs to one patient, but a word shared by only two is in it because of both.

    Raises:
        InputError: its ``tiny_tokenizer`` is not ``own``.
    """
    kind = run.info.config.get("tiny_tokenizer", "shared")
    if kind != "own":
        raise InputError(
            f"The tokenizer of the tiny model in {run.folder} is fitted on the patients' texts too "
            f"(tiny_tokenizer: {kind}), and would be in a model retrained without them. Train with "
            "--tiny-tokenizer own, then try again."
        )
