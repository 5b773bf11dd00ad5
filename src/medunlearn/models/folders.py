"""Model folders on disk, read without loading the model: their content, their bases, their fingerprints.

A model folder is *full* (a Hugging Face folder) or a *delta*: the tensors in which a model differs from its base,
and where that base is. A base may itself be a delta; at the root of every chain is a full folder. An *adapter* is
only read, never written: LoRA's matrices in PEFT's format, with the name of their base.

| file of a delta | content |
|---|---|
| ``delta.safetensors`` | the changed tensors, under the names that the model gives them; or a LoRA adapter
(:mod:`medunlearn.models.low_rank`) | | ``delta.json`` | format, base, base_fingerprint, weights (type of the saved
model), changed (names) |

A *reference* is a delta without tensors: it refers to a model in another folder. Its ``delta.json`` also has
``base_files``, so that changed files of the base can be named, and unchanged ones need not be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError, safe_open

from medunlearn.data.moved_folders import find_moved
from medunlearn.data.storage import read_json, sha256_of, sha256_of_json
from medunlearn.errors import InputError, ModelError
from medunlearn.input_files import path_inside, regular_file
from medunlearn.models.limits import refuse_oversized
from medunlearn.models.loading import cached_file
from medunlearn.models.model_files import RULE, RULE_1, covered_files, is_weights_or_code
from medunlearn.models.packaged import PACKAGED, packaged_folder

Weights = Literal["fp32", "bf16", "fp16"]
MANIFEST = "delta.json"
TENSORS = "delta.safetensors"
ADAPTER, ADAPTER_TENSORS = "adapter_config.json", "adapter_model.safetensors"
FORMAT = 1
LOW_RANK = "::"
"""In the name of a tensor in a delta: a matrix of an adapter, which is no tensor of the model."""
DTYPES: Mapping[Weights, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
RECORD, MODEL = "run.json", "model"
"""A run's record, and its model's folder beside it."""
BASE, COPY = "base", "weights"
"""Of the run of an adopted adapter: what it stands on, and the copy of that, where there is one."""
_NARROW: dict[frozenset[str], Weights] = {frozenset({"BF16"}): "bf16", frozenset({"F16"}): "fp16"}

FileFacts = Mapping[str, Mapping[str, Any]]
"""Name of a file relative to its folder -> ``sha256``, ``size`` and ``mtime_ns``."""


@dataclass(frozen=True)
class Manifest:
    """The content of ``delta.json``.

    Attributes:
        base: folder of the delta's base: absolute, or relative to the delta's own folder.
        weights: type of the whole model when it was saved.
        changed: names of the tensors in ``delta.safetensors``, sorted.
        base_files: for a reference: the files of its base (:func:`file_facts`).
        base_rule: rule of the base's fingerprint (:mod:`medunlearn.models.model_files`).
    """

    base: str
    base_fingerprint: str
    weights: Weights
    changed: list[str]
    format: int = FORMAT
    base_files: FileFacts | None = None
    base_rule: int = 1

    def facts(self) -> dict[str, Any]:
        """The content of ``delta.json``."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def is_delta(folder: Path) -> bool:
    return (folder / MANIFEST).exists()


def is_reference(folder: Path) -> bool:
    """True if a folder refers to a model in another folder. Raises ModelError if its ``delta.json`` is broken."""
    return is_delta(folder) and read_manifest(folder).base_files is not None


def is_adapter(folder: Path) -> bool:
    """True if a folder contains a LoRA adapter in PEFT's format, which needs its base."""
    return (folder / ADAPTER).exists()


def adapter_base(folder: Path) -> str:
    """The base of an adapter: a hub id or a folder, possibly relative to the adapter's own folder.

    Raises:
        ModelError: the adapter names no base, or has no weights as safetensors.
    """
    facts = read_json(folder / ADAPTER)
    base_name = facts.get("base_model_name_or_path") if isinstance(facts, dict) else None
    if not isinstance(base_name, str) or not base_name:
        raise ModelError(
            f'{folder / ADAPTER} names no base. Write its folder or hub id: "base_model_name_or_path".'
        )
    if not (folder / ADAPTER_TENSORS).exists():
        raise ModelError(f"{folder} has no {ADAPTER_TENSORS}. Save the adapter with save_pretrained of PEFT.")
    return str(folder / base_name) if (folder / base_name).is_dir() else base_name


def read_manifest(folder: Path) -> Manifest:
    """The ``delta.json`` of a folder.

    Raises:
        ModelError: its format is invalid.
    """
    again = "Copy the folder again, or repeat the run that made it."
    try:
        manifest = Manifest(**read_json(folder / MANIFEST))
    except (InputError, TypeError) as error:
        raise ModelError(f"{folder / MANIFEST} is broken: {error} {again}") from error
    if manifest.format != FORMAT:
        raise ModelError(
            f"{folder / MANIFEST} has format {manifest.format}; this medunlearn reads format {FORMAT}. Load it "
            "with the version that wrote it."
        )
    texts = (manifest.base, manifest.base_fingerprint, manifest.weights)
    if not (all(isinstance(text, str) for text in texts) and isinstance(manifest.changed, list)):
        raise ModelError(f"{folder / MANIFEST} is broken: a value has another type. {again}")
    if manifest.weights not in ("fp32", "bf16", "fp16"):
        raise ModelError(f"{folder / MANIFEST} is broken: weights is {manifest.weights!r}. {again}")
    if manifest.base_rule not in (1, RULE):
        raise ModelError(f"{folder / MANIFEST} is broken: base_rule is {manifest.base_rule!r}. {again}")
    if not _are_facts(manifest.base_files):
        raise ModelError(f"{folder / MANIFEST} is broken: base_files has an unknown format. {again}")
    if not (folder / TENSORS).exists():
        raise ModelError(f"{folder} is a delta without its tensors: {TENSORS} is missing. {again}")
    return manifest


def _are_facts(files: Any) -> bool:
    if files is None:
        return True
    return isinstance(files, Mapping) and all(
        isinstance(facts, Mapping) and isinstance(facts.get("sha256"), str) for facts in files.values()
    )


def chain(folder: Path, *, check: bool = True, reread: bool = False, oldest_rule: int = 1) -> list[Path]:
    """The folders that a model consists of: the full one at the root first, ``folder`` itself last.

    Args:
        check: compare each base with the fingerprint that its delta recorded; this reads the whole root.
        reread: also read files whose size and time match a reference's record.
        oldest_rule: oldest rule by which the base of ``folder`` itself may be known, whatever it says.

    Raises:
        ModelError: a base is missing or changed, or the chain is circular.
    """
    folders = [folder]
    refuse_irregular(folder)
    while is_delta(folders[0]):
        delta = folders[0]
        manifest, base = read_manifest(delta), base_place(delta)
        if not base.is_dir():
            raise ModelError(
                f"{delta} contains only changed tensors, and its base is not at {base}. Move the base back, or "
                "write "
                f'its folder under "base" in {delta / MANIFEST} (absolute, or relative to {delta}).'
            )
        if any(base.resolve() == other.resolve() for other in folders):
            raise ModelError(f'{delta} is its own base. Correct "base" in {delta / MANIFEST}.')
        recorded_facts = {} if reread else manifest.base_files
        rule = max(manifest.base_rule, oldest_rule if delta == folder else 1)
        if check and not has_fingerprint(base, manifest.base_fingerprint, recorded_facts, rule):
            if manifest.base_files is not None:
                raise ModelError(_changed_base(folder, base, manifest.base_files))
            now = fingerprint(base, recorded_facts)
            raise ModelError(
                f"{delta} was made from a base with fingerprint {manifest.base_fingerprint}, but {base} has "
                f"{now}: it is another model, or was changed. Restore that base, or write the folder of the "
                f'right one under "base" in {delta / MANIFEST}.'
            )
        refuse_irregular(base)
        folders.insert(0, base)
    return folders


# Moved bases that were found, since a fingerprint reads all weights.
_MOVED: dict[tuple[str, str, str], Path] = {}


def base_place(delta: Path) -> Path:
    """Folder of a delta's base: at its recorded path, or beside a moved delta if it has the recorded fingerprint.

    The recorded path if the base is nowhere.
    """
    manifest = read_manifest(delta)
    base = delta / manifest.base
    if base.is_dir():
        return base
    key = (str(delta), manifest.base, manifest.base_fingerprint)
    if key not in _MOVED or not _MOVED[key].is_dir():
        moved = find_model(manifest.base, delta, manifest.base_fingerprint)
        if moved is None:
            return base
        _MOVED[key] = moved
    return _MOVED[key]


def find_model(recorded: str, near: Path, identity: str) -> Path | None:
    """The model folder that a record names, known by its fingerprint: at its path, or beside a moved record.

    Args:
        recorded: path in the record.
        near: folder of the record.
        identity: its recorded fingerprint.

    Returns:
        None if it is not there.
    """

    def is_same(folder: Path) -> bool:
        with suppress(InputError, OSError):
            return folder.is_dir() and has_fingerprint(folder, identity, {})
        return False

    return find_moved(recorded, near, is_same)


def _changed_base(folder: Path, base: Path, recorded: FileFacts) -> str:
    """The error for a reference whose base is no longer the adopted model; names the changed files."""
    now = covered_files(base)
    missing = [f"{name} is missing" for name in recorded if name not in now]
    new = [f"{name} is new" for name in now if name not in recorded]
    other = [
        f"{name} has another SHA-256"
        for name, facts in recorded.items()
        if name in now and sha256_of(now[name]) != facts["sha256"]
    ]
    changes = [*other, *missing, *new]
    run = folder.parent.resolve() if ".." in folder.parts else folder.parent
    more = f", ... ({len(changes)} files in all)" if len(changes) > 3 else ""
    return (
        f"The model in {base} has changed since {run} adopted it: {', '.join(changes[:3])}{more}. Put "
        "the files back, or adopt the model as it is now with another --out (--copy-weights keeps a copy)."
    )


def refuse_irregular(folder: Path) -> None:
    """Refuse a model folder with files that cannot be read completely, before a library opens one.

    Raises:
        ModelError: a file that its fingerprint covers is a FIFO, a device, a link to a folder or a broken link, or
            a file that libraries open by name is a folder; an index names weights outside of the folder; or a size
            is beyond :mod:`medunlearn.models.limits`.
    """
    named = (folder / name for name in (*RULE_1, MANIFEST))
    for path in (*named, *folder.glob("*.safetensors"), *covered_files(folder).values()):
        regular_file(path, ModelError)
    for index in folder.glob("*.index.json"):
        content = read_json(index)
        shards = content.get("weight_map") if isinstance(content, dict) else None
        for name in {*shards.values()} if isinstance(shards, dict) else ():
            path_inside(folder, str(name), index, ModelError)
    refuse_oversized(folder)


def where(folder: Path) -> dict[str, Path]:
    """Tensor name -> the safetensors file with its value, through all deltas.

    An adapter's contribution to a tensor is not in that file (:class:`medunlearn.models.delta.StoredTensors`).

    Raises:
        ModelError: a file cannot be read, or a base is missing.
    """
    files: dict[str, Path] = {}
    for part in chain(folder, check=False):
        for file in sorted([part / TENSORS] if is_delta(part) else part.glob("*.safetensors")):
            files |= dict.fromkeys((name for name in _types(file) if LOW_RANK not in name), file)
    return files


def _types(file: Path) -> dict[str, str]:
    """Tensor name -> its type, from the head of a safetensors file."""
    try:
        with safe_open(file, framework="numpy") as opened:
            return {name: opened.get_slice(name).get_dtype() for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file} is broken ({error}). Copy it again, or repeat the run that made it.") from error


def stored_weights(folder: Path) -> Weights:
    """The type that stores a folder's weights without rounding; for an adapter, its base's (fp32 for a hub id).

    Raises:
        ModelError: a file cannot be read, or an adapter is incomplete.
    """
    if is_adapter(folder):
        base = Path(adapter_base(folder))
        return stored_weights(base) if base.is_dir() else "fp32"
    if is_delta(folder):
        return read_manifest(folder).weights
    kinds = {kind for file in folder.glob("*.safetensors") for kind in _types(file).values()}
    return _NARROW.get(frozenset(kinds), "fp32")


def fingerprint(folder: Path, recorded_facts: FileFacts | None = None, *, rule: int = RULE) -> str:
    """SHA-256 over everything that affects a model's answers: equal fingerprints mean equal models.

    It covers all files of the folder but a few (:mod:`medunlearn.models.model_files`). For a delta: also its base's
    recorded fingerprint, so it is computed without the base, and does not change when the base is moved; loading
    checks that the base still has that fingerprint. For an adapter: also its base's fingerprint, or the base's name
    if it is not a folder. A file with the size and time recorded by its run is not read again.

    Args:
        recorded_facts: facts on a full folder's files to use instead of those recorded by its run.
        rule: 1 for the fingerprint that older versions made.
    """
    recorded = recorded_files(folder) if recorded_facts is None else recorded_facts
    digests = {name: _known_sha256(name, path, recorded) for name, path in fingerprinted(folder, rule).items()}
    if is_adapter(folder):
        base = adapter_base(folder)
        under = fingerprint(Path(base), rule=rule) if Path(base).is_dir() else base
        own = [sha256_of(folder / name) for name in (ADAPTER, ADAPTER_TENSORS)]
        return _fingerprint_of("adapter", under, own, digests, (ADAPTER, ADAPTER_TENSORS))
    if is_delta(folder):
        own = [digests[TENSORS]]
        return _fingerprint_of("delta", read_manifest(folder).base_fingerprint, own, digests, (TENSORS,))
    return sha256_of_json([*digests.items()])


def _fingerprint_of(
    form: str, base: str, own: Sequence[str], digests: Mapping[str, str], names: Collection[str]
) -> str:
    """Fingerprint of a delta or an adapter: of its base, its own files, and others that lie beside them."""
    others = [item for item in digests.items() if item[0] not in names]
    return sha256_of_json([form, base, *own, *([others] if others else [])])


def fingerprinted(folder: Path, rule: int = RULE) -> dict[str, Path]:
    """Relative name -> path of the files that a fingerprint covers, by name; without those of a base."""
    if rule == RULE:
        return covered_files(folder)
    names = (ADAPTER, ADAPTER_TENSORS)
    paths = [folder / name for name in names] if is_adapter(folder) else telling_files(folder)
    return {path.name: path for path in paths}


def has_fingerprint(
    folder: Path, expected: str, recorded_facts: FileFacts | None = None, oldest_rule: int = 1
) -> bool:
    """True if a folder has a fingerprint, by today's rule or by that of older versions.

    An older one says nothing about files that rule 1 did not cover; with weights or code among them it is refused.

    Args:
        oldest_rule: 2 for a fingerprint that is known to be of today's rule.
    """
    if fingerprint(folder, recorded_facts) == expected:
        return True
    if oldest_rule == RULE:
        return False
    uncovered = covered_files(folder).keys() - fingerprinted(folder, 1).keys()
    is_older = bool(uncovered) and not any(map(is_weights_or_code, uncovered))
    return is_older and fingerprint(folder, recorded_facts, rule=1) == expected


def vocabulary_fingerprint(folder: Path) -> str | None:
    """SHA-256 over a tokenizer's tokens and their ids; None without a readable tokenizer."""
    try:
        content = read_json(chain(folder, check=False)[0] / "tokenizer.json")
        return sha256_of_json([content["model"]["vocab"], [token["content"] for token in content["added_tokens"]]])
    except (InputError, ModelError, KeyError, TypeError):
        return None


def telling_files(folder: Path) -> list[Path]:
    """Files of a full folder, a delta or an adapter that this software computes with, by name."""
    if is_delta(folder):
        return [folder / TENSORS]
    return sorted(path for path in folder.iterdir() if path.suffix == ".safetensors" or path.name in RULE_1)


def file_facts(folder: Path, advance: Callable[[int], None] = lambda size: None) -> dict[str, dict[str, Any]]:
    """For each file that the fingerprint covers: SHA-256, size, and time of the last change.

    Args:
        advance: called with the size of each file when it is done.
    """
    facts = {}
    for name, path in covered_files(folder).items():
        state = path.stat()
        facts[name] = {"sha256": sha256_of(path), "size": state.st_size, "mtime_ns": state.st_mtime_ns}
        advance(state.st_size)
    return facts


def recorded_files(folder: Path) -> FileFacts:
    """The files recorded in a model's run; empty for a model without a run, or of an older run."""
    path = folder.parent / RECORD
    if folder.name != MODEL or not path.exists():
        return {}
    try:
        files = read_json(path).get("model_files")
    except (InputError, AttributeError):
        return {}
    return files if isinstance(files, Mapping) else {}


def _is_untouched(path: Path, facts: Mapping[str, Any]) -> bool:
    state = path.stat()
    return (state.st_size, state.st_mtime_ns) == (facts.get("size"), facts.get("mtime_ns"))


def _known_sha256(name: str, path: Path, recorded: FileFacts) -> str:
    facts = recorded.get(name)
    return str(facts["sha256"]) if facts and _is_untouched(path, facts) else sha256_of(path)


def check_weights(folder: Path) -> None:
    """Refuse weights that differ from those of their run; files with the recorded size and time are not read.

    Raises:
        ModelError: a hash differs, or a file is missing.
    """
    for name, facts in recorded_files(folder).items():
        path = folder / name
        if path.suffix != ".safetensors":
            continue
        if not path.exists():
            raise ModelError(f"{path} of the run is missing. Copy the whole run again, or repeat it.")
        if not _is_untouched(path, facts) and sha256_of(path) != facts["sha256"]:
            raise ModelError(
                f"The weights in {path} were changed after the run: their SHA-256 differs from "
                f"{folder.parent / RECORD}. Copy the run again, or repeat it with another --out. `medunlearn "
                f"verify {folder.parent}` says what else has changed."
            )


def model_folder(where: str | Path) -> str:
    """The model of a run folder, a model folder, a packaged model (:mod:`.packaged`) or a hub id.

    Raises:
        InputError: the package of a packaged model is not installed.
    """
    if str(where) in PACKAGED:
        return str(packaged_folder(str(where)))
    folder = Path(where)
    return str(folder / MODEL) if (folder / RECORD).exists() else str(where)


def local_folder(model: str | Path) -> Path | None:
    """Folder of a model on this machine: of a run, of a model, or of a hub id in the cache; None for no such."""
    source = model_folder(model)
    if Path(source).is_dir():
        return Path(source)
    config = cached_file(source, "config.json")
    return None if config is None else config.parent


def record_folder(folder: Path) -> Path:
    """The run of a model folder inside a run; any other folder itself."""
    return folder.parent if folder.name == MODEL and (folder.parent / RECORD).exists() else folder


def is_model(model: str, identity: str, oldest_rule: int = 1) -> bool:
    """True if a model has a recorded identity (:func:`model_identity`), also one that an older version recorded."""
    folder = Path(model_folder(model))
    return has_fingerprint(folder, identity, oldest_rule=oldest_rule) if folder.is_dir() else model == identity


def model_identity(model: str) -> str:
    """Fingerprint of a model on disk, or the hub id itself."""
    folder = Path(model_folder(model))
    return fingerprint(folder) if folder.is_dir() else model
