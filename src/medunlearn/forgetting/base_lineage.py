"""Lineage of a base model: what tells that it was made without some records."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from medunlearn.config import TINIES, TrainSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import forget_records
from medunlearn.errors import InputError
from medunlearn.models.ancestry import origins
from medunlearn.models.folders import MODEL, RECORD, model_identity
from medunlearn.results.runs import Run, RunRecord

BaseLineage = Literal["made in memory", "recorded", "stated"]


def base_lineage(
    run: Run, settings: TrainSettings, benchmark: Benchmark, forget: frozenset[str], *, stated: bool
) -> BaseLineage:
    """The reason for which the base is known never to have seen some records.

    Raises:
        InputError: it saw them; nobody knows; it is missing, or another model than it was.
    """
    base = settings.model
    if base in TINIES:
        return "made in memory"
    if not Path(base).is_dir() and run.info.inputs["model"] != base:  # a hub id stands for itself
        raise InputError(
            f"The base of {run.folder} is not at {base}. Move it back, or give the command in the folder that the "
            "training was started in."
        )
    if model_identity(base) != run.info.inputs["model"]:
        raise InputError(
            f"The base {base} is not the model any more that {run.folder} was trained from. Put that one back."
        )
    if _never_saw(base, benchmark, forget, frozenset()):
        return "recorded"
    if not stated:
        raise InputError(
            f"Nobody recorded what the base {base} was trained on, so it may have seen the patients itself. If you "
            "know that it has not (it was made before their notes, or without them), state it: --base-unseen "
            "(base_unseen=True). The case says that you did."
        )
    return "stated"


def _never_saw(base: str, benchmark: Benchmark, records: Collection[str], above: frozenset[Path]) -> bool:
    """Read from its lineage that a base model was made without some records; False if nobody recorded it.

    It is recorded of a tiny model made in memory, of a run that was trained on the benchmark without these records
    over such a base, and of a model that was adopted as retrained without them.

    Args:
        base: run, model folder or hub id.
        records: ids, of the benchmark's records.
        above: folders on the way to it, so that a circle ends.

    Raises:
        InputError: it is recorded that it saw them, or that a model did which it was made from.
    """
    if base in TINIES:
        return True
    folder = Path(base).resolve()
    folder = folder.parent if folder.name == MODEL and (folder.parent / RECORD).exists() else folder
    if not folder.is_dir() or folder in above:
        return False
    bases = [_never_saw(str(origin), benchmark, records, above | {folder}) for origin in origins(folder)]
    if not (folder / RECORD).exists():
        return False
    run = Run(folder, RunRecord.read(folder))
    if not run.saw(benchmark.texts_fingerprint, benchmark.fingerprint):
        return False
    retrained = run.info.verb == "adopt" and run.role == "retrained"
    if run.info.verb not in ("train", "adopt") or (run.info.verb == "adopt" and not retrained):
        raise InputError(_saw(folder))
    left_out = left_out_of(run, benchmark)
    if not left_out.issuperset(records):
        raise InputError(_saw(folder))
    if retrained:
        return True
    if run.info.config["model"] in TINIES:
        refuse_fitted_tokenizer(run)
    return bool(bases) and all(bases)


def _saw(folder: Path) -> str:
    return (
        f"The base {folder} was itself trained on the patients of this request, so no training over it is without "
        "them. Train over a base that never saw them, or unlearn with a method (`medunlearn list methods`)."
    )


def left_out_of(run: Run, benchmark: Benchmark) -> frozenset[str]:
    """Ids of the records that a run's training left out by its split.

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
    """Refuse a tiny model whose tokenizer is fitted on texts that its training leaves out.

    With ``common`` no token is one patient's alone, but a word that only two have is in it because of both.

    Raises:
        InputError: its ``tiny_tokenizer`` is not ``own``.
    """
    kind = run.info.config.get("tiny_tokenizer", "shared")
    if kind != "own":
        raise InputError(
            f"The tokenizer of the tiny model in {run.folder} is fitted on the patients' texts too "
            f"(tiny_tokenizer: {kind}), and would be in a training without them. Train with --tiny-tokenizer own, "
            "then ask again."
        )
