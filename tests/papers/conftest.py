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


def asked(author: int, number: int) -> Row:
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
    full = [asked(author, number) for author in range(10) for number in range(4)]
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
def rewrite() -> Callable[..., None]:
    """``rewrite(path, rows, lines=True)``."""
    return write
