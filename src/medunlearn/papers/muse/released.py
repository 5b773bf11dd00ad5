"""MUSE as its authors released it (``muse-bench/MUSE-News``, ``muse-bench/MUSE-Books``).

Folders ``raw`` (forget, retain1, retain2, holdout: text), ``verbmem`` (forget: prompt, gt), ``knowmem`` (forget_qa,
retain_qa: question, answer) and ``privleak`` (forget, retain, holdout: text).

Source: Shi et al. 2024 (arXiv 2407.06460), Sections 3 and 4, and the data sets' cards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from medunlearn.data.records import Side
from medunlearn.errors import SourceError
from medunlearn.sources.released import find_table, read_table

REPOSITORIES = {"news": "muse-bench/MUSE-News", "books": "muse-bench/MUSE-Books"}

Pair = tuple[str, str]


@dataclass(frozen=True)
class MuseFiles:
    """Everything read.

    Attributes:
        forget, retain, holdout: documents: seen and to be forgotten, seen and to be kept, never seen.
        verbatim: (prompt, continuation) of documents to forget.
        knowledge: side -> (question, answer).
    """

    forget: tuple[str, ...] = field(repr=False)
    retain: tuple[str, ...] = field(repr=False)
    holdout: tuple[str, ...] = field(repr=False)
    verbatim: tuple[Pair, ...] = field(repr=False)
    knowledge: dict[Side, tuple[Pair, ...]] = field(repr=False)


def read_muse(folder: Path) -> MuseFiles:
    """Read the released files. The retain set is ``retain2``, which the target model saw; ``retain1`` without it.

    Raises:
        SourceError: a table is missing or broken.
    """
    retain = next((name for name in ("retain2", "retain1", "retain") if find_table(folder / "raw", name)), None)
    if retain is None:
        raise SourceError(f"{folder / 'raw'} holds no retain2 (nor retain1): documents that are to be kept.")
    holdout = next((folder / part for part in ("raw", "privleak") if find_table(folder / part, "holdout")), None)
    sides: tuple[Side, ...] = ("forget", "retain")
    return MuseFiles(
        forget=_texts(folder / "raw", "forget"),
        retain=_texts(folder / "raw", retain),
        holdout=_texts(holdout, "holdout") if holdout is not None else (),
        verbatim=tuple((row.text("prompt"), row.text("gt")) for row in read_table(folder / "verbmem", "forget")),
        knowledge={
            side: tuple(
                (row.text("question"), row.text("answer")) for row in read_table(folder / "knowmem", f"{side}_qa")
            )
            for side in sides
        },
    )


def _texts(folder: Path, name: str) -> tuple[str, ...]:
    return tuple(row.text("text") for row in read_table(folder, name))
