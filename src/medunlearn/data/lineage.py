"""Lineage: the record of what a run, model, benchmark, search or store of responses was made from.

Each command keeps it as a section of its own file, and a model folder has ``lineage.json``; :func:`read_lineage`
opens them all, in the form of every version. A folder may come from anybody: values of another type and names that
are no path are refused.

| file | content of the lineage |
|---|---|
| ``run.json`` | command, key, fingerprints of inputs, ancestors, split, data use, template, head of the ledger |
| ``lineage.json`` | data use, fingerprints of inputs, prompt template |
| ``delta.json``, ``adapter_config.json`` | the base model |
| ``sweep.json``, ``tune.json``, ``identifiers.json``, ``settings.json``, ``benchmark.yaml`` | data use |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import InputError
from medunlearn.input_files import yaml_content

DataUse = Literal["open", "credentialed"]
Kind = Literal["run", "study", "benchmark", "search", "responses", "model"]
LINEAGE = "lineage.json"
CHANGED = "Somebody changed it. Copy the whole folder again, or give its command again with another --out."
LONGEST_NAME = 255
"""Bytes of a file's name that the usual file systems allow."""


@dataclass(frozen=True)
class Lineage:
    """Record of the things that a run, model or other thing was made from; parts that no record states are unset.

    Attributes:
        kind: None for a folder without a record.
        data_use: strictest recorded use; None: unknown.
        command, key, version: of a run; version 1 has no number.
        inputs: name (``benchmark``, ``model``, ``base``, ``reference``) -> fingerprint, or hub id.
        ancestors: folders and hub ids of models, oldest first; then the base of a delta or an adapter.
        start: model that a training, unlearning or adoption started from; its fingerprint is ``inputs["model"]``.
        benchmark, reference: folders of the benchmark, and of an unlearning method's reference model.
        split: split that a model was trained without, made to forget, or asked about.
        ledger_head: of the ledger of deletion requests so far.
        template: name of the prompt template of training.
    """

    kind: Kind | None = None
    data_use: DataUse | None = None
    command: str = ""
    key: str = ""
    version: int = 1
    inputs: Mapping[str, Any] = field(default_factory=dict)
    ancestors: tuple[str, ...] = ()
    start: str | None = None
    benchmark: str | None = None
    reference: str | None = None
    split: str | None = None
    ledger_head: str | None = None
    template: str | None = None


def tighter_record(*uses: DataUse | None) -> DataUse | None:
    """The strictest of several recorded uses of the same thing; None if none of them is known."""
    return "credentialed" if "credentialed" in uses else "open" if "open" in uses else None


def read_lineage(folder: Path, *, strict: bool = True) -> Lineage:
    """The lineage that the records in a folder state together; empty for a folder without one.

    A run also has the bases of its model, and the data use of its model if that is credentialed.

    Args:
        strict: refuse broken records. Otherwise they are skipped but for a credentialed use, and "open" in another
            record counts as unknown.

    Raises:
        InputError: a record is broken; names the file.
    """
    parts, problem = _read_parts(folder)
    if parts and parts[0].kind == "run":
        of_model, problem_of_model = _read_parts(folder / "model")
        parts += [part if part.data_use == "credentialed" else replace(part, data_use=None) for part in of_model]
        problem = problem or problem_of_model
    if problem is not None and strict:
        raise problem
    use = tighter_record(*(part.data_use for part in parts))
    return replace(
        parts[0] if parts else Lineage(),
        data_use=None if problem is not None and use == "open" else use,
        ancestors=tuple(dict.fromkeys(name for part in parts for name in part.ancestors)),
        template=next((part.template for part in parts if part.template is not None), None),
    )


def write_lineage(folder: Path, lineage: Lineage) -> None:
    """Write the ``lineage.json`` of a model folder; it contains no path and no person."""
    facts = {"data_use": lineage.data_use or "unknown", "made_from": dict(lineage.inputs)}
    write_json(folder / LINEAGE, facts | ({} if lineage.template is None else {"template": lineage.template}))


def run_lineage(facts: Mapping[str, Any]) -> Lineage:
    """The lineage in the content of ``run.json``.

    Raises:
        InputError: a value of another type, or a name that is no path.
    """
    command, config = _typed(facts, "verb", str), _typed(facts, "config", dict)
    results = _typed(facts, "results", dict)
    ancestors = tuple(_path(name, "lineage") for name in _typed(facts, "lineage", list))
    return Lineage(
        "run",
        _use(facts),
        command,
        _typed(facts, "key", str),
        _typed(facts, "schema", int) or 1,
        _typed(facts, "inputs", dict),
        ancestors,
        ancestors[-1] if ancestors and command in ("train", "unlearn", "adopt") else None,
        _path_or_none(results, "benchmark_folder"),
        _path_or_none(results, "reference_model"),
        _text_or_none(config.get("without" if command in ("train", "adopt") else "split")),
        _typed(_typed(results, "requests", dict), "head", str) or None,
        _text_or_none(_typed(results, "rendering", dict).get("template")),
    )


def _model_lineage(facts: Mapping[str, Any], folder: Path, base: str | None = None) -> Lineage:
    """The lineage in a file of a model's folder; ``base`` is the key of its base, which may be relative to it."""
    names = () if base is None else (_path(facts.get(base), base),)
    return Lineage(
        "model",
        _use(facts),
        inputs=_typed(facts, "made_from", dict),
        ancestors=tuple(str(folder / name) if (folder / name).is_dir() else name for name in names),
        template=_text_or_none(facts.get("template")),
    )


def _adapter_lineage(facts: Mapping[str, Any], folder: Path) -> Lineage:
    """The lineage in PEFT's file, which has null for an adapter on a model in memory."""
    key = "base_model_name_or_path"
    return _model_lineage(facts, folder, None if key in facts and facts[key] is None else key)


_FORMS: Mapping[str, tuple[Kind, Callable[[dict[str, Any], Path], Lineage] | None]] = {
    "run.json": ("run", lambda facts, folder: run_lineage(facts)),
    **dict.fromkeys(("sweep.json", "tune.json"), ("study", None)),
    "benchmark.yaml": ("benchmark", None),
    "identifiers.json": ("search", None),
    "settings.json": ("responses", None),
    LINEAGE: ("model", _model_lineage),
    "delta.json": ("model", partial(_model_lineage, base="base")),
    "adapter_config.json": ("model", _adapter_lineage),
}


def _read_parts(folder: Path) -> tuple[list[Lineage], InputError | None]:
    """The content of each record in a folder, and the first error; of a broken record only the use is known."""
    parts, problem = [], None
    for name, (kind, parse) in _FORMS.items():
        path, part = folder / name, Lineage(kind)
        if not os.path.lexists(path):
            continue
        try:
            facts = yaml_content(path) if path.suffix == ".yaml" else read_json(path)
            if not isinstance(facts, dict):
                raise InputError(f"it is {type(facts).__name__}, not an object")
            part = replace(part, data_use=_use(facts))
            part = part if parse is None else parse(facts, folder)
        except InputError as error:
            text = str(error)
            problem = problem or InputError(text if str(path) in text else f"{path}: {text}. {CHANGED}")
        parts.append(part)
    return parts, problem


def _typed(facts: Mapping[str, Any], name: str, kind: type) -> Any:
    """A value of that type; the type's empty one if it is not there."""
    value = kind() if facts.get(name) is None else facts[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"{name} is {type(value).__name__}, not {kind.__name__}")
    return value


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _path(value: Any, name: str) -> str:
    parts = value.encode(errors="replace").split(b"/") if isinstance(value, str) and value else [b"\0"]
    if any(len(part) > LONGEST_NAME or b"\0" in part for part in parts):
        raise InputError(f"{name} holds what is no folder")
    return str(value)


def _path_or_none(facts: Mapping[str, Any], name: str) -> str | None:
    return None if facts.get(name) is None else _path(facts[name], name)


def _use(facts: Mapping[str, Any]) -> DataUse | None:
    results = facts.get("results")
    # Audits of 0.1.0 have it among their results.
    uses = (facts.get("data_use"), results.get("data_use") if isinstance(results, dict) else None)
    for use in () if "credentialed" in uses else uses:
        if use not in (None, "open") and not str(use).startswith("unknown"):
            raise InputError(f"data_use is {use!r}, not open or credentialed")
    return tighter_record(*uses)
