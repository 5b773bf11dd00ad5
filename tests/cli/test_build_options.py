"""``build options`` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from row_files import write_lines

from medunlearn.data.benchmark import Benchmark


def test_it_builds_and_says_what_it_built(medunlearn: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    rows = [{"question": f"Is it {n}?", "options": ["yes", "no"], "answer": "no"} for n in range(8)]
    write_lines(file, rows)
    result = medunlearn(
        "build", "options", file, "--out", tmp_path / "b", "--json", "--nonmembers=3", "--seed", "1"
    )
    assert json.loads(result.stdout)["counts"]["questions_train"] == 5
    assert Benchmark.load(tmp_path / "b").seed == 1
    file.write_text(file.read_text() + "{\n" + '{"question": "Q", "options": ["a"]}\n')
    result = medunlearn("build", "options", file, "--out", tmp_path / "c", code=2)
    assert "q.jsonl:9: no JSON" in result.text
    assert "skip_bad_rows=true" in result.text
    result = medunlearn("build", "options", file, "--out", tmp_path / "c", "--skip-bad-rows")
    assert "2 rows were left out" in result.text
    result = medunlearn("build", "options", tmp_path / "none.csv", "--out", tmp_path / "d", code=2)
    assert "There is no file" in result.text


def test_its_help_has_an_example(medunlearn: Callable[..., Any]) -> None:
    result = medunlearn("build", "options", "--help").stdout
    assert "medunlearn build options" in result.partition("Example")[2]
