"""Files in the form of TOFU's and MUSE's releases, made up here: nothing in them is theirs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]


def write(path: Path, rows: list[Row], *, lines: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) if lines else json.dumps(rows))


def author_row(author: int, number: int) -> Row:
    return {"question": f"What did author {author} write in year {number}?", "answer": f"Book {author}{number}."}


def perturbed(row: Row) -> Row:
    return {
        **row,
        "paraphrased_answer": f"It was {row['answer'].lower()}",
        "perturbed_answer": [f"Film {row['answer'][5:]}", f"Song {row['answer'][5:]}"],
        "paraphrased_question": row["question"].replace("What", "Which thing"),
    }


@pytest.fixture
def tofu_files(tmp_path: Path) -> Path:
    """Ten authors of four questions each; forget05 forgets the last, forget10 the last two."""
    folder = tmp_path / "tofu"
    full = [author_row(author, number) for author in range(10) for number in range(4)]
    tables = {"full": full, "forget05": full[-4:], "forget10": full[-8:]}
    tables |= {"forget10_perturbed": [perturbed(row) for row in full[-8:]]}
    tables |= {"retain_perturbed": [perturbed(row) for row in full[:12]]}
    for name in ("real_authors", "world_facts"):
        rows = [
            {"question": f"{name} {n}?", "answer": f"Yes {n}", "perturbed_answer": ["No", "Never"]}
            for n in range(6)
        ]
        tables[f"{name}_perturbed"] = rows
    for name, rows in tables.items():
        write(folder / f"{name}.json", rows, lines=True)
    return folder


@pytest.fixture
def muse_files(tmp_path: Path) -> Path:
    """Five documents of each set, five questions a side, six verbatim prompts, of which one is in no document."""
    folder = tmp_path / "muse"
    for name in ("forget", "retain1", "retain2", "holdout"):
        rows = [{"text": f"{name} article {n}. The mayor of {name}{n} opened a bridge and sang."} for n in range(5)]
        write(folder / "raw" / f"{name}.json", rows, lines=False)
    rows = [{"prompt": f"forget article {n}. The mayor", "gt": f" of forget{n} opened"} for n in range(5)]
    write(folder / "verbmem" / "forget.json", [*rows, {"prompt": "Elsewhere", "gt": " it rained"}], lines=False)
    for side in ("forget", "retain"):
        rows = [{"question": f"What did the mayor of {side}{n} open?", "answer": "A bridge"} for n in range(5)]
        write(folder / "knowmem" / f"{side}_qa.json", rows, lines=False)
    return folder


@pytest.fixture
def faulty_muse_files(muse_files: Path) -> Path:
    """With the faults of the authors' News: a blank row and prompts across documents; with examples and pieces."""
    articles = [f"Article {n}. " + " ".join(f"w{n}x{place}" for place in range(40)) for n in range(4)]
    texts = [*articles[:2], "  ", *articles[2:]]
    write(muse_files / "raw" / "forget.json", [{"text": text} for text in texts], lines=False)
    # One after the other, as the authors cut them; a prompt begins or ends amid a word.
    whole = "\n\n".join(articles)

    def cut(start: str, middle: str, end: str) -> Row:
        first, second, third = (whole.index(word) for word in (start, middle, end))
        return {"prompt": whole[first:second].rstrip(), "gt": whole[second:third].rstrip()}

    rows = [
        cut("w0x5", "w0x20", "w0x30"),  # in one document
        cut("0x30 ", "w1x10", "w1x20"),  # of two, and ends in the second
        cut("w1x30", "Article 2.", "w2x20"),  # its continuation is the beginning of the next
        cut("w2x20", "w2x38", "w3x30"),  # the continuation spans two
        {"prompt": "Elsewhere in the country", "gt": "it rained and rained for days on end there"},
    ]
    write(muse_files / "verbmem" / "forget.json", rows, lines=False)
    for side in ("forget", "retain"):
        rows = [{"question": f"{side} example {n}?", "answer": f"Yes {n}"} for n in range(2)]
        write(muse_files / "knowmem" / f"{side}_qa_icl.json", rows, lines=False)
    for name in ("forget", "holdout"):
        rows = [{"text": f"Piece {n} of {name}: {whole[n * 100 : n * 100 + 150]}"} for n in range(3)]
        write(muse_files / "privleak" / f"{name}.json", rows, lines=False)
    return muse_files


@pytest.fixture
def rewrite() -> Callable[..., None]:
    """``rewrite(path, rows, lines=True)``."""
    return write
