"""Lineage of a base model: whether what it was trained on held some records."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from medunlearn.config import TINIES
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.models.ancestry import origins
from medunlearn.models.folders import MODEL, RECORD
from medunlearn.results.runs import Run, RunRecord


def never_saw(base: str, benchmark: Benchmark, records: Collection[str]) -> bool:
    """Read from its lineage that a base model was made without some records; False where nobody recorded it.

    It is recorded of a tiny model made in memory, of a run that was trained on the benchmark without these records
    over such a base, and of a model that was adopted as retrained without them.

    Args:
        base: run, model folder or hub id.
        records: ids, of the benchmark's records.

    Raises:
        InputError: it is recorded that it saw them, or that a model did which it was made from.
    """
    return _never_saw(base, benchmark, records, frozenset())


def _never_saw(base: str, benchmark: Benchmark, records: Collection[str], above: frozenset[Path]) -> bool:
    if base in TINIES:
        return True
    folder = Path(base).resolve()
    folder = folder.parent if folder.name == MODEL and (folder.parent / RECORD).exists() else folder
    if not folder.is_dir() or folder in above:
        return False
    its_bases = [_never_saw(str(one), benchmark, records, above | {folder}) for one in origins(folder)]
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
    return bool(its_bases) and all(its_bases)


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
    return frozenset(record.record_id for record in benchmark.records_of(benchmark.split(without), "forget"))


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
