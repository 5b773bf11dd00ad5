"""Text of files and attachments: UTF-8, UTF-16 with a byte order mark, or Windows-1252, packed by gzip or not.

A file that is not UTF-8 is taken for Windows-1252 if no word of it has three such letters in a row: Western words
have one or two, and Cyrillic, Greek, Chinese or Japanese read as Windows-1252 has many.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TextIO, cast

WESTERN = "cp1252"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NOT_WESTERN = re.compile(r"[^\W\d_a-zA-Z]{3}")
_CHUNK = 2**20


def ending_of(path: Path | str) -> str:
    """The ending that says what a file is: ``.csv`` of ``notes.csv``, and of ``notes.csv.gz``."""
    return Path(Path(path).name.lower().removesuffix(".gz")).suffix


def open_bytes(path: Path) -> BinaryIO:
    """A file's content, unpacked if its name ends in ``.gz``."""
    return cast(BinaryIO, gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb"))


def open_text(path: Path, newline: str | None = None, *, western: bool = True) -> TextIO:
    """A text file in its encoding. Raises UnicodeDecodeError like :func:`encoding_of`."""
    encoding = encoding_of_file(path, western=western)  # before the file is opened for good: it may be refused
    return io.TextIOWrapper(open_bytes(path), encoding, newline=newline)


def encoding_of_file(path: Path, *, western: bool = True) -> str:
    """Encoding of a text file, like :func:`encoding_of`."""
    with open_bytes(path) as file:
        return encoding_of(iter(lambda: file.read(_CHUNK), b""), western=western)


def decode_text(content: bytes) -> str:
    """Bytes as text. Raises UnicodeDecodeError like :func:`encoding_of`."""
    return content.decode(encoding_of([content]))


def encoding_of(chunks: Iterable[bytes], *, western: bool = True) -> str:
    """Encoding of a content that comes in chunks: ``utf-8-sig``, ``utf-16`` or :data:`WESTERN`.

    Args:
        western: the content may be in :data:`WESTERN`; JSON may not (RFC 8259, Section 8.1).

    Raises:
        UnicodeDecodeError: none of them; gives the first byte that is not UTF-8.
    """
    stream = iter(chunks)
    first = next(stream, b"")
    if first.startswith(_UTF16):
        _refuse_broken(chain([first], stream), "utf-16")
        return "utf-16"
    seen: list[bytes] = []

    def remembered() -> Iterator[bytes]:
        for chunk in chain([first], stream):
            seen[:] = [chunk]
            yield chunk

    try:
        _refuse_broken(remembered(), "utf-8")
    except UnicodeDecodeError:
        if not western or not all(map(_is_western, chain(seen, stream))):
            raise
        return WESTERN
    return "utf-8-sig"


def _refuse_broken(chunks: Iterable[bytes], encoding: str) -> None:
    decoder, place = codecs.getincrementaldecoder(encoding)(), 0
    for chunk in chain(chunks, [None]):
        waiting = len(decoder.getstate()[0])
        try:
            decoder.decode(chunk or b"", final=chunk is None)
        except UnicodeDecodeError as error:
            error.start += place - waiting
            raise
        place += len(chunk or b"")


def _is_western(chunk: bytes) -> bool:
    try:
        return not _NOT_WESTERN.search(chunk.decode(WESTERN))
    except UnicodeDecodeError:
        return False
