"""Find a complete model on this machine: a Hugging Face folder, a hub id, or a LoRA adapter on a base.

All checks that need no loaded weights are made here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.data.storage import as_storage_error, atomic_file, make_folder, read_json, sha256_of_json
from medunlearn.errors import HubError, InputError, ModelError, first_few, first_line
from medunlearn.hub_offline import go_offline_if_unreachable
from medunlearn.models.folders import (
    ADAPTER,
    ADAPTER_TENSORS,
    RECORD,
    adapter_base,
    is_adapter,
    is_delta,
    model_folder,
    record_folder,
    refuse_irregular,
)
from medunlearn.models.loading import is_hub_id
from medunlearn.models.packaged import PACKAGED, packaged_folder
from medunlearn.models.pretrained import check_model_folder
from medunlearn.progress import progress

INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"
BENCHMARK = "benchmark.yaml"
FETCHED = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken")
"""Files of a hub's repository that a model may need; weights that are pickled are not fetched."""
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json")
TOKENIZER_FILES = (
    *VOCABULARIES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "chat_template.jinja",
)


MORE_TEMPLATES = "additional_chat_templates"
"""Folder of the chat templates besides the default one, which transformers reads."""


@dataclass(frozen=True)
class ModelSource:
    """One model on this machine.

    Attributes:
        name: folder or hub id as given by the user or by an adapter.
        folder: a full model, a delta, or an adapter.
        base: base of an adapter; None for a full model.
        commit: commit of a hub repository; None for a folder.
    """

    name: str
    folder: Path
    base: ModelSource | None = None
    commit: str | None = None

    @property
    def lineage(self) -> list[str]:
        """Hub ids and absolute folders that the model consists of, the base first."""
        own = self.name if self.commit else str(self.folder.resolve())
        return [*(self.base.lineage if self.base else []), own]


def is_model_folder(where: Path) -> bool:
    """True if a folder contains a model, even an incomplete one: a configuration, an adapter, or weights."""
    return where.is_dir() and ((where / "config.json").exists() or is_adapter(where) or any(_weights(where)))


def find_model(source: str | Path, *, base: str | Path | None = None, revision: str | None = None) -> ModelSource:
    """The model in a folder or behind a hub id, which is downloaded; an adapter with its base.

    Args:
        base: folder or hub id of an adapter's base, instead of the one that the adapter names.
        revision: branch, tag or commit of a hub id.

    Raises:
        InputError: a run, a benchmark, or a delta; a base given without an adapter.
        ModelError: no such folder, two models in it, or a part is missing.
        HubError: the hub cannot be reached, or refuses.
    """
    folder, commit = _locate(source, revision)
    _refuse_ours(folder)
    _refuse_several(folder)
    refuse_irregular(folder)
    if not is_adapter(folder):
        if base is not None:
            raise InputError(f"--base is for a LoRA adapter, and {source} has no {ADAPTER}. Leave --base out.")
        _check_full(folder)
        return ModelSource(str(source), folder, commit=commit)
    if not (folder / ADAPTER_TENSORS).exists():
        raise ModelError(f"{folder} has no {ADAPTER_TENSORS}. Save the adapter with save_pretrained of PEFT.")
    if base is None:
        try:
            base = adapter_base(folder)
        except ModelError as error:
            raise ModelError(f"{error} Or give it: --base FOLDER.") from error
    return ModelSource(str(source), folder, _base(str(base), source), commit)


def with_tokenizer(source: str | Path, tokenizer: str, where: Path, *, revision: str | None = None) -> ModelSource:
    """A full model combined with another tokenizer, in a folder below ``where`` that links to the files of both.

    Raises:
        InputError, ModelError, HubError: as :func:`find_model`; the second is not a tokenizer.
    """
    folder, commit = _locate(source, revision)
    words, _ = _locate(tokenizer, None)
    _refuse_ours(folder)
    _refuse_several(folder)
    refuse_irregular(folder)
    if is_adapter(folder):
        raise InputError(f"--tokenizer is for a full model, and {source} is an adapter. Give it to the base.")
    if not any((words / name).exists() for name in VOCABULARIES):
        raise ModelError(f"{tokenizer} has no tokenizer ({', '.join(VOCABULARIES)}).")
    own = {path.name: path for path in folder.iterdir() if path.is_file() and path.name not in TOKENIZER_FILES}
    files = own | {path.relative_to(words).as_posix(): path for path in tokenizer_files(words)}
    plain = re.sub(r"[^\w.-]+", "_", str(source if commit else folder.resolve().name))
    whole = where / f"{plain}-{sha256_of_json([str(folder.resolve()), str(words.resolve())])[:8]}"
    make_folder(whole)
    for name, path in files.items():
        try:
            (whole / name).parent.mkdir(exist_ok=True)
            (whole / name).unlink(missing_ok=True)
            (whole / name).symlink_to(path.resolve())
        except OSError as error:
            raise as_storage_error(error, whole) or error from error
    _check_full(whole)
    return ModelSource(f"{source} with the tokenizer of {tokenizer}", whole, commit=commit)


def _base(named: str, adapter: str | Path) -> ModelSource:
    """The base of an adapter; for one of our runs, its model."""
    try:
        folder, commit = _locate(model_folder(named), None)
    except ModelError as error:
        raise ModelError(
            f"{adapter} is a LoRA adapter, and its base is not there: {error} --base names the base."
        ) from error
    if is_adapter(folder):
        raise ModelError(
            f"The base of {adapter}, {named}, is an adapter itself. Merge it into its base first: "
            f"`medunlearn export {named} --out merged/`, then --base merged/."
        )
    _refuse_several(folder)
    refuse_irregular(folder)
    if not is_delta(folder):
        _check_full(folder)
    return ModelSource(named, folder, commit=commit)


def _locate(source: str | Path, revision: str | None) -> tuple[Path, str | None]:
    """The folder of a model, and the commit if it was downloaded."""
    folder = packaged_folder(str(source)) if str(source) in PACKAGED else Path(source)
    if folder.is_dir():
        if revision is not None:
            raise InputError(f"--revision is for a hub id, and {source} is a folder. Leave it out.")
        return folder, None
    # A path that is not there is no hub id only because it has one slash: nothing is asked of a hub for it.
    if folder.exists() or not is_hub_id(str(source)) or folder.parent.exists():
        raise ModelError(f"There is no model folder {source}. Give a folder, or a hub id (org/name).")
    fetched = _fetch(str(source), revision)
    return fetched, fetched.name


def base_folder(model: str) -> Path:
    """The folder of a model given as a folder or a hub id; cached files are not downloaded again.

    Raises:
        ModelError, HubError: there is no such model.
    """
    return _locate(model, None)[0]


def _fetch(name: str, revision: str | None) -> Path:
    """Download a hub repository; cached files are not downloaded again.

    Raises:
        HubError: the hub refused, or cannot be reached.
    """
    from huggingface_hub import snapshot_download

    go_offline_if_unreachable()
    try:
        return Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=[*FETCHED, f"{MORE_TEMPLATES}/*.jinja"],
                # Every folder below but that one; patterns know no exceptions.
                ignore_patterns=["[!a]*/*", "a[!d]*/*", "ad[!d]*/*"],
            )
        )
    except Exception as error:  # the hub's client raises errors of many libraries
        raise HubError(
            f"There is no folder {name}, and as a hub id it could not be fetched: {first_line(error)} Check the "
            "path; of a hub's model network and name (a closed one needs `hf auth login` or HF_TOKEN), or download "
            "it elsewhere and give its folder."
        ) from error


def _refuse_ours(folder: Path) -> None:
    """Refuse runs, benchmarks and deltas, and explain what to do with them."""
    run = record_folder(folder)
    if (run / RECORD).exists():
        raise InputError(
            f"{run} is a run of medunlearn already, which needs no adoption: use it directly, `medunlearn unlearn "
            f"{run} ...`. To adopt its model as another run, `medunlearn export {run} --out hf/` first."
        )
    if (folder / BENCHMARK).exists():
        raise InputError(f"{folder} is a benchmark. The model comes first: `medunlearn adopt MODEL {folder} ...`.")
    if is_delta(folder):
        raise InputError(
            f"{folder} contains only the changed tensors of another model. `medunlearn export {folder} --out hf/` "
            "makes a full model; then adopt hf/."
        )


def _weights(folder: Path) -> Iterator[Path]:
    """Files of a full model's weights."""
    for path in sorted(folder.iterdir()):
        if path.name in (WHOLE, INDEX) or (path.suffix == ".safetensors" and path.name.startswith("model-")):
            yield path


def _refuse_several(folder: Path) -> None:
    """Refuse a folder with more than one model, since it is ambiguous.

    Raises:
        ModelError: names them.
    """
    full = [path.name for path in _weights(folder)]
    if is_adapter(folder) and full:
        raise ModelError(
            f"{folder} holds two models: an adapter ({ADAPTER}) and full weights ({full[0]}). Move one of them "
            "into a folder of its own, and give that."
        )
    if WHOLE in full and INDEX in full:
        raise ModelError(
            f"{folder} holds two models: {WHOLE}, and the shards of {INDEX}. Remove the one that is out of date."
        )
    below = [path for path in sorted(folder.iterdir()) if path.is_dir() and is_model_folder(path)]
    if not below:
        return
    names = first_few([path.name for path in below])
    if is_model_folder(folder):
        raise ModelError(
            f"{folder} holds several models: its own, and below it {names}. Give one of them ({below[0]}), or move "
            "what is below out of the folder to take its own."
        )
    raise ModelError(f"{folder} holds no model itself, but below it {names}. Give one of them, such as {below[0]}.")


def _check_full(folder: Path) -> None:
    """Refuse a folder with an incomplete model.

    Raises:
        ModelError: no configuration, tokenizer or weights; shards of the index that are missing.
    """
    check_model_folder(folder)
    if not (folder / INDEX).exists():
        return
    index: Any = read_json(folder / INDEX)
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise ModelError(f"{folder / INDEX} is broken: it has no weight_map. Copy the whole model again.")
    files = sorted(set(shards.values()))
    missing = [name for name in files if not (folder / name).exists()]
    if missing:
        raise ModelError(
            f"{folder} lacks {len(missing)} of its {len(files)} files of weights: {first_few(missing)}. Copy the "
            "whole model again."
        )


def tokenizer_files(folder: Path) -> list[Path]:
    """Files of a folder's tokenizer, with its further chat templates."""
    files = [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]
    return [*files, *sorted((folder / MORE_TEMPLATES).glob("*.jinja"))]


def files_needed(folder: Path) -> list[Path]:
    """Files in a model's folder that a model may need, by name."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and any(map(path.match, FETCHED))]
    return [*files, *sorted((folder / MORE_TEMPLATES).glob("*.jinja"))]


def copy_model_files(paths: Collection[Path], copy: Path, *, quiet: bool = True) -> None:
    """Copy files into a folder, each atomically, readable only by their owner."""
    with progress("copy the model's files", sum(path.stat().st_size for path in paths), quiet=quiet) as advance:
        for path in paths:
            below = MORE_TEMPLATES if path.parent.name == MORE_TEMPLATES else ""
            make_folder(copy / below)
            with atomic_file(copy / below / path.name) as part:
                shutil.copyfile(path, part)
            advance(path.stat().st_size)
