"""Digests of models and notes, and a case's software and public settings; none contains a path or a patient."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

import medunlearn
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import sha256_of, sha256_of_json
from medunlearn.errors import ModelError
from medunlearn.models.folders import (
    adapter_base,
    base_place,
    fingerprint,
    fingerprinted,
    is_adapter,
    is_delta,
    model_folder,
    refuse_irregular,
)
from medunlearn.models.model_files import RULE
from medunlearn.request.case.evidence import FileDigest, ModelDigest, NotesDigest, Software
from medunlearn.results.machine import code, packages

WITHHELD = "withheld"
BASE = "base/"
"""Before the names of the files of a model's base."""
_NAMING = frozenset({
    "model", "out", "benchmark", "split", "without", "against", "reference", "patient", "patients", "subject",
    "nodes", "label", "notes", "corpus", "llm", "identifiers", "prompt", "template",
})  # fmt: skip
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-")


def digest_model(where: Path | str, rule: Literal[1, 2] = RULE) -> ModelDigest:
    """Hash every file that a model's fingerprint covers; for a delta or an adapter also those of its base.

    Args:
        rule: that of the fingerprint (:mod:`medunlearn.models.model_files`).

    Raises:
        ModelError: no model folder, or one with a missing base.
    """
    folder = Path(model_folder(where))
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a model folder. Name a run or a Hugging Face folder.")
    refuse_irregular(folder)
    base = base_folder(folder)
    if base is None and not is_adapter(folder) and not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder} holds no weights (*.safetensors). Name a run or a Hugging Face folder.")
    paths = fingerprinted(folder, rule)
    if base is not None and any(name.startswith(BASE) for name in paths):
        raise ModelError(f"{folder / BASE} cannot be told from the files of the model's base. Move it elsewhere.")
    facts = {name: _facts(path) for name, path in paths.items()}
    return ModelDigest(
        rule=rule,
        fingerprint=fingerprint(folder, facts, rule=rule),
        form="adapter" if is_adapter(folder) else "delta" if is_delta(folder) else "full",
        files={name: FileDigest(sha256=its["sha256"], bytes=its["size"]) for name, its in facts.items()},
        base=None if base is None else digest_model(base, rule),
        hub_base=adapter_base(folder) if is_adapter(folder) and base is None else None,
    )


def base_folder(folder: Path) -> Path | None:
    """Folder of the base of a delta or an adapter; None for a full model, and for an adapter of a hub's model."""
    if is_adapter(folder):
        base = Path(adapter_base(folder))
        return base if base.is_dir() else None
    return base_place(folder) if is_delta(folder) else None


def _facts(path: Path) -> dict[str, Any]:
    """Hash of a file as it is now, with the size and time by which a fingerprint knows it again."""
    state = path.stat()
    return {"sha256": sha256_of(path), "size": state.st_size, "mtime_ns": state.st_mtime_ns}


def weights_by_name(model: ModelDigest, prefix: str = "") -> dict[str, FileDigest]:
    """Name -> digest of every file of a model; those of a base are under ``base/``."""
    own = {prefix + name: digest for name, digest in model.files.items()}
    return own if model.base is None else own | weights_by_name(model.base, prefix + BASE)


def digest_notes(
    benchmark: Benchmark, forget: frozenset[str], *, total: tuple[int, int] | None = None, earlier: int = 0
) -> NotesDigest:
    """The notes of a benchmark, with its records' table.

    Args:
        forget: ids of the records of this request's patients.
        total: numbers of all records and patients, of which the benchmark may have a part.
        earlier: number of records of earlier requests' patients.
    """
    level = benchmark.subject_level
    rows = [[record.record_id, record.text, record.groups.get(level)] for record in benchmark.records]
    table = None if benchmark.folder is None else benchmark.folder / "records.parquet"
    # Patients whom no model saw, invented ones among them, are none of the owner's notes.
    trained = [record for record in benchmark.records if record.fold == "train"]
    read = len(trained), len({record.groups.get(level) for record in trained})
    records, patients = total or read
    return NotesDigest(
        sha256=sha256_of_json(rows) if table is None else sha256_of(table),
        records=records,
        patients=patients,
        read=None if records == read[0] else read[0],
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
