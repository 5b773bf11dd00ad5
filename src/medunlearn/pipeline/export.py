"""A run's model as a Hugging Face folder that stands alone, and on a hub if asked for."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from medunlearn.errors import HubError, InputError
from medunlearn.models.folders import fingerprint, is_delta, model_folder, stored_weights
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.results.runs import FILE, Run


def export(source: Path | str, out: Path, *, push: str | None = None, private: bool = False) -> Path:
    """Write model and tokenizer as a full folder that transformers loads without medunlearn.

    A delta is put together with its base; a LoRA adapter (a folder that PEFT wrote) is merged into its base. The
    weights keep their type; where an adapter was merged they have its base's, fp32 if that is on a hub. A folder
    that holds the same model already is left as it is.

    Args:
        source: a run, or a model folder.
        out: the new folder; a run or another model there is refused.
        push: hub id ``org/name`` to send it to as well; the hub's login is used.
        private: make that repository private, if the push makes it.

    Raises:
        InputError: no model there, a folder that cannot be used, or no hub id.
        ModelError: the model cannot be loaded, as of :func:`medunlearn.models.load.load_model`.
        StorageError: the disk refused; nothing is left half written.
        HubError: the hub refused; the folder is whole.
    """
    _check(source, out, push, private)
    folder = Path(model_folder(source))
    # A folder without weights has no type; loading it says what is missing.
    language_model = load_model(folder, device="cpu", weights=stored_weights(folder))
    # Written beside its place and moved there whole, so that a full disk or a kill leaves no half of a model.
    scratch = out.absolute().with_name(f".{out.absolute().name}.{os.getpid()}.part")
    try:
        language_model.save(scratch)
        if out.exists() and any(out.iterdir()):
            if fingerprint(out) != fingerprint(scratch):
                raise InputError(f"{out} holds another model. Choose another --out, or remove it.")
        else:
            scratch.replace(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if push is not None:
        _push(language_model, out, push, private)
    return out


def _check(source: Path | str, out: Path, push: str | None, private: bool) -> None:
    """Refuse before a model is loaded what can be refused then."""
    folder = Path(source)
    if not folder.is_dir():
        raise InputError(f"There is no run or model folder {source}.")
    if (folder / FILE).exists():
        Run.open(folder)
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file, not a folder. Choose another --out.")
    if out.is_dir() and any(out.iterdir()) and (is_delta(out) or not (out / "config.json").exists()):
        raise InputError(f"{out} is not empty and holds no exported model. Choose another --out.")
    if push is not None and not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", push):
        raise InputError(f"--push {push!r} is no hub id. Write it as org/name.")
    if private and push is None:
        raise InputError("--private is for the repository that --push makes: give --push org/name too.")


def _push(language_model: LanguageModel, out: Path, name: str, private: bool) -> None:
    try:
        pictures = language_model.pictures
        parts = [language_model.model, language_model.tokenizer, *([pictures.processor] if pictures else [])]
        for part in parts:
            part.push_to_hub(name, private=private or None)
    except Exception as error:  # the hub's client raises errors of many libraries
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise HubError(
            f"{out} is written, but {name} was not pushed: {reason} Check the network, and log in with "
            "`hf auth login` or HF_TOKEN; then give the command again."
        ) from error
