"""The one way to a library's ``from_pretrained``: without code of the folder, after a look at its sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medunlearn.models.limits import refuse_oversized


def from_pretrained(
    kind: Any, source: str | Path | None, *args: Any, trust_remote_code: bool = False, **options: Any
) -> Any:
    """A tokenizer, configuration, processor or model of a folder or hub id, as one of a library's classes loads it.

    Code that lies in the folder is not run unless asked for, and sizes beyond :mod:`medunlearn.models.limits` are
    refused before the library builds what they say.

    Args:
        kind: the class, or its name in transformers: ``AutoTokenizer``.
        args: what the class takes before the source (PEFT: the model).
        trust_remote_code: run code that comes with the model.

    Raises:
        ModelError: a size is beyond the limits. The library raises errors of its own.
    """
    if isinstance(kind, str):
        import transformers

        kind = getattr(transformers, kind)
    if source is not None and (folder := _folder(str(source))) is not None:
        refuse_oversized(folder)
    if kind.__name__.startswith("Auto"):  # the others have no code to run
        options["trust_remote_code"] = trust_remote_code
    return kind.from_pretrained(*args, source, **options)


def _folder(source: str) -> Path | None:
    """Folder of a model on this machine, also of a hub id in the cache."""
    if Path(source).is_dir():
        return Path(source)
    config = cached_file(source, "config.json")
    return None if config is None else config.parent


def is_hub_id(source: str) -> bool:
    """True if a text has the form of a hub id, ``org/name``, and not of a path."""
    return not Path(source).is_absolute() and not source.startswith((".", "~")) and source.count("/") == 1


def cached_file(hub_id: str, name: str) -> Path | None:
    """A file of a hub model in this machine's cache; None if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    try:
        path = try_to_load_from_cache(hub_id, name) if is_hub_id(hub_id) else None
    except ValueError:  # it has not the form of an id
        return None
    return Path(path) if isinstance(path, str) else None
