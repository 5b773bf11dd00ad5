"""Digests of what goes into a case and comes out: models, notes, software; none names a path."""

from __future__ import annotations

from pathlib import Path

import medunlearn
from medunlearn.cases.evidence import FileDigest, ModelDigest, NotesDigest, Software
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import sha256_of, sha256_of_json
from medunlearn.errors import ModelError
from medunlearn.models.folders import (
    ADAPTER,
    ADAPTER_TENSORS,
    adapter_base,
    fingerprint,
    is_adapter,
    is_delta,
    model_folder,
    read_manifest,
    refuse_irregular,
    telling_files,
)
from medunlearn.results.machine import code, packages


def digest_model(where: Path | str) -> ModelDigest:
    """Every file that decides over a model's answers, hashed anew; of a delta or an adapter its base's too.

    Raises:
        ModelError: no model folder, or one with a missing base.
    """
    folder = Path(model_folder(where))
    if not folder.is_dir():
        raise ModelError(f"{folder} is no folder with a model. Name a run or a Hugging Face folder.")
    refuse_irregular(folder)
    if is_adapter(folder):
        base = adapter_base(folder)
        own, on_disk = [folder / ADAPTER, folder / ADAPTER_TENSORS], Path(base).is_dir()
        under = digest_model(base) if on_disk else None
        return ModelDigest(
            fingerprint=fingerprint(folder),
            form="adapter",
            files=_digests(own),
            base=under,
            hub_base=None if on_disk else base,
        )
    files = telling_files(folder)
    if not any(path.suffix == ".safetensors" for path in files):
        raise ModelError(f"{folder} holds no weights (*.safetensors). Name a run or a Hugging Face folder.")
    under = digest_model(folder / read_manifest(folder).base) if is_delta(folder) else None
    return ModelDigest(
        fingerprint=fingerprint(folder),
        form="full" if under is None else "delta",
        files=_digests(files),
        base=under,
    )


def _digests(paths: list[Path]) -> dict[str, FileDigest]:
    return {path.name: FileDigest(sha256=sha256_of(path), bytes=path.stat().st_size) for path in paths}


def weights_by_name(model: ModelDigest, prefix: str = "") -> dict[str, FileDigest]:
    """Name -> digest of every file of a model; those of a base stand under ``base/``."""
    own = {prefix + name: digest for name, digest in model.files.items()}
    return own if model.base is None else own | weights_by_name(model.base, f"{prefix}base/")


def digest_notes(benchmark: Benchmark, forget: frozenset[str], earlier: int = 0) -> NotesDigest:
    """The notes of a benchmark, with its records' table.

    Args:
        forget: ids of the records of this request's patients.
        earlier: number of records of earlier requests' patients.
    """
    level = benchmark.subject_level
    rows = [[one.record_id, one.text, one.groups.get(level)] for one in benchmark.records]
    table = None if benchmark.folder is None else benchmark.folder / "records.parquet"
    return NotesDigest(
        sha256=sha256_of_json(rows) if table is None else sha256_of(table),
        records=len(benchmark.records),
        patients=len({one.groups.get(level) for one in benchmark.records}),
        forget_records=len(forget),
        earlier_records=earlier,
    )


def software() -> Software:
    """This medunlearn, its commit, and the packages that numbers depend on."""
    now = code()
    return Software(version=medunlearn.__version__, commit=now["commit"], changed=now["dirty"], packages=packages())
