"""Digests of models and notes, and a case's software and public settings; none contains a path or a patient."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

import medunlearn
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
from medunlearn.request.case.evidence import FileDigest, ModelDigest, NotesDigest, Software
from medunlearn.results.machine import code, packages

WITHHELD = "withheld"
_NAMING = frozenset({
    "model", "out", "benchmark", "split", "without", "against", "reference", "patient", "patients", "subject",
    "nodes", "label", "notes", "corpus", "llm", "identifiers", "prompt", "template",
})  # fmt: skip
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-")


def digest_model(where: Path | str) -> ModelDigest:
    """Hash every file that affects a model's answers; for a delta or an adapter also those of its base.

    Raises:
        ModelError: no model folder, or one with a missing base.
    """
    folder = Path(model_folder(where))
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a model folder. Name a run or a Hugging Face folder.")
    refuse_irregular(folder)
    if is_adapter(folder):
        base_name = adapter_base(folder)
        on_disk = Path(base_name).is_dir()
        return ModelDigest(
            fingerprint=fingerprint(folder),
            form="adapter",
            files=_digests([folder / ADAPTER, folder / ADAPTER_TENSORS]),
            base=digest_model(base_name) if on_disk else None,
            hub_base=None if on_disk else base_name,
        )
    files = telling_files(folder)
    if not any(path.suffix == ".safetensors" for path in files):
        raise ModelError(f"{folder} holds no weights (*.safetensors). Name a run or a Hugging Face folder.")
    base = digest_model(folder / read_manifest(folder).base) if is_delta(folder) else None
    return ModelDigest(
        fingerprint=fingerprint(folder),
        form="full" if base is None else "delta",
        files=_digests(files),
        base=base,
    )


def _digests(paths: list[Path]) -> dict[str, FileDigest]:
    return {path.name: FileDigest(sha256=sha256_of(path), bytes=path.stat().st_size) for path in paths}


def weights_by_name(model: ModelDigest, prefix: str = "") -> dict[str, FileDigest]:
    """Name -> digest of every file of a model; those of a base are under ``base/``."""
    own = {prefix + name: digest for name, digest in model.files.items()}
    return own if model.base is None else own | weights_by_name(model.base, f"{prefix}base/")


def digest_notes(benchmark: Benchmark, forget: frozenset[str], earlier: int = 0) -> NotesDigest:
    """The notes of a benchmark, with its records' table.

    Args:
        forget: ids of the records of this request's patients.
        earlier: number of records of earlier requests' patients.
    """
    level = benchmark.subject_level
    rows = [[record.record_id, record.text, record.groups.get(level)] for record in benchmark.records]
    table = None if benchmark.folder is None else benchmark.folder / "records.parquet"
    # Patients whom no model saw, invented ones among them, are none of the owner's notes.
    trained = [record for record in benchmark.records if record.fold == "train"]
    return NotesDigest(
        sha256=sha256_of_json(rows) if table is None else sha256_of(table),
        records=len(trained),
        patients=len({record.groups.get(level) for record in trained}),
        forget_records=len(forget),
        earlier_records=earlier,
    )


def software() -> Software:
    """Versions of medunlearn, its commit, and the packages that numbers depend on."""
    now = code()
    return Software(version=medunlearn.__version__, commit=now["commit"], changed=now["dirty"], packages=packages())


def public_settings(settings: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Settings without values that may name a path or a patient: numbers, switches and single words stay.

    A hash would not protect them: a patient number can be guessed from it in seconds.
    """
    return {key: WITHHELD if key in _NAMING else _public(value) for key, value in settings.items()}


def _public(value: Any) -> JsonValue:
    if isinstance(value, Mapping):
        return dict(public_settings({str(key): inner for key, inner in value.items()}))
    if isinstance(value, list | tuple):
        return [_public(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if 0 < len(text) <= 40 and _PLAIN.issuperset(text) else WITHHELD
