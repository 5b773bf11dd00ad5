"""Files named by a user: only regular ones (a FIFO blocks, a device never ends), read as text or YAML."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from medunlearn.errors import InputError

LONGEST_TEXT = 64 * 2**20
"""Bytes of a text that is read as a whole: settings, prompts, records of runs."""
DEEPEST, LARGEST = 50, 1_000_000
"""Levels of a YAML file, and its values once every alias is written out."""
_SPECIAL = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def regular_file(path: Path, error: type[InputError] = InputError) -> Path:
    """Return the path, unless it (or its link target) exists and is not a regular file.

    Raises:
        InputError: a folder, FIFO, socket or device, or a link to nothing; of the type ``error``.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        if path.is_symlink():
            raise error(f"{path} is a link to {path.readlink()}, which is not there.") from None
        return path
    except ValueError as reason:  # a zero byte in the name
        raise error(f"{str(path)!r} is not a file name: {reason}.") from None
    except OSError as reason:
        raise error(f"{path} cannot be read: {reason.strerror or reason}.") from None
    if kind == stat.S_IFREG:
        return path
    raise error(f"{path} cannot be read: it is {_SPECIAL.get(kind, 'something else')}, not a file.")


def refuse_open_secret(path: Path) -> None:
    """Refuse the file of a key or a secret that others than its owner can read, or write to.

    Raises:
        InputError: names its mode.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(
            f"{path} is open to others than its owner (mode {mode:03o}); whoever has it takes the owner's place. "
            f"Close it: chmod 600 {path}. If others may have read it, make a new one."
        )


def path_text(path: Path) -> str:
    """A path as text that tables and JSON can hold: bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def path_inside(folder: Path, name: str, source: object, error: type[InputError] = InputError) -> Path:
    """The path of a file in a folder, or below it, that another file names. Links are followed.

    In a cache of the hub the files of a snapshot are links to blobs beside it.

    Args:
        source: the file that has the name, for the message.

    Raises:
        InputError: the name is absolute or leads out of the folder; of the type ``error``.
    """
    path, root = folder / name, folder.resolve()
    roots = (root, root.parents[1] / "blobs") if root.parent.name == "snapshots" else (root,)
    is_relative = not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name
    if not is_relative or not any(path.resolve().is_relative_to(allowed) for allowed in roots):
        raise error(
            f"{source} names {name!r}, which is not in {folder}: a file outside can change unnoticed. Put the file "
            "into the folder, and write its name there."
        )
    return path


@contextmanager
def told_unreadable(path: Path, error: type[InputError]) -> Iterator[None]:
    """Raise an error during reading of a file as one that a user understands."""
    try:
        yield
    except FileNotFoundError:
        raise error(f"There is no file {path}.") from None
    except UnicodeDecodeError as reason:
        raise error(
            f"{path} is not UTF-8 text ({reason.reason} at byte {reason.start}). Save it as UTF-8 and try again."
        ) from None
    except OSError as reason:
        raise error(f"{path} cannot be read: {reason.strerror or reason}.") from None


def read_text(path: Path, error: type[InputError] = InputError, *, most: int = LONGEST_TEXT) -> str:
    """A file's text, in UTF-8 with or without a byte order mark.

    Raises:
        InputError: no such file, not a regular one, larger than ``most`` bytes, or not UTF-8 text.
    """
    with told_unreadable(path, error):
        size = regular_file(path, error).stat().st_size
        if size > most:
            raise error(f"{path} has {size:,} bytes; at most {most:,} are read. Is it the right file?")
        text = path.read_text(encoding="utf-8-sig")
    if "\0" in text:
        raise error(f"{path} is not text: it contains a zero byte (character {text.index(chr(0)) + 1}).")
    return text


class _Loader(yaml.SafeLoader):
    """YAML loader that reads 1e-4 as a number (text in YAML 1.1) and an id such as 007 as text (octal in YAML
    1.1).
    """

    def construct_yaml_int(self, node: yaml.ScalarNode) -> Any:
        """A whole number."""
        return str(node.value) if re.fullmatch(r"0\d+", node.value) else super().construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def parse_yaml(text: str) -> Any:
    """Parse a YAML value.

    Raises:
        ValueError: not YAML, a duplicate key, too many values or levels.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {})
        return loader.construct_document(node)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels") from None
    except (yaml.YAMLError, LookupError, TypeError) as error:  # `!!bool x` is a KeyError, `!!int ""` an IndexError
        raise ValueError(str(error)) from error


def _measure(node: yaml.Node, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Count values and levels of a node with every alias expanded; ``sizes`` caches nodes seen before.

    Raises:
        ValueError: too many values or levels, a node that contains itself, a duplicate key.
    """
    inside = list(_inside(node))
    sizes[id(node)] = (LARGEST, DEEPEST)  # until it is known: what holds itself is too large
    size, levels = 1, 0
    for inner in inside:
        more, below = sizes.get(id(inner)) or _measure(inner, sizes)
        size, levels = size + more, max(levels, below)
        if levels >= DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST} levels")
        if size > LARGEST:
            raise ValueError(f"it contains more than {LARGEST:,} values")
    sizes[id(node)] = (size, levels + 1)
    return sizes[id(node)]


def _inside(node: yaml.Node) -> Iterator[yaml.Node]:
    """Child nodes: the items of a list, the keys and values of a mapping."""
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name and name in keys:
                raise ValueError(f"the key {name!r} occurs twice (line {key.start_mark.line + 1})")
            keys.add(name or "")
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def yaml_content(path: Path, error: type[InputError] = InputError) -> Any:
    """Content of a YAML file; keys must be unique at every level.

    Raises:
        InputError: missing, not a regular file, or not YAML.
    """
    text = read_text(path, error)
    try:
        return parse_yaml(text)
    except ValueError as reason:
        raise error(f"{path} cannot be read as YAML: {reason}.") from reason
