"""The commands and the Python of docs/audit.md on identifiers run; mistakes are refused."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from pages import Page
from row_files import read_csv, write_csv

from medunlearn.data.benchmark import Benchmark

PAGE = Page.read("identifiers.md", "Identifiers")
FIND = ("audit", "identifiers", "find", "said.jsonl", "--records", "bench", "--out", "out")
Run = Callable[..., Any]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    out = tmp_path_factory.mktemp("identifiers") / "bench"
    run("build", "amnesia", "--synthetic", 12, "--out", out, "--quiet")
    return out


@pytest.fixture
def workplace(bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Responses that say the second part of their own note, every third one that of the note before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("medunlearn.audit.identifiers.search.INVENTED", 20)
    (tmp_path / "bench").symlink_to(bench)
    records = Benchmark.load(bench).records
    with (tmp_path / "said.jsonl").open("w") as file:
        for place, record in enumerate(records):
            source = records[place - 1] if place % 3 == 2 else record
            row = {"record_id": record.record_id, "prefix": record.text[:20], "response": source.text[20:200]}
            file.write(json.dumps(row) + "\n")
    spans = [{"start": 15, "end": 25, "kind": "date"}]
    label = {"text": "Ada Vane, born 1961-04-03.", "spans": spans, "subject": "a"}
    (tmp_path / "labelled.jsonl").write_text(json.dumps(label) + "\n")
    return tmp_path


def test_commands_and_python_of_the_page_run(workplace: Path, run: Run) -> None:
    lines = PAGE.commands
    assert len(lines) == 9
    with FakeServer(answer=lambda body: '{"pieces": []}') as server:
        for line in lines:
            words = shlex.split(line.replace("http://127.0.0.1:8000/v1", server.base_url))
            assert words[0] == "medunlearn"
            if "corrected" in words:
                confirm_all(workplace / "sheet" / "review.csv")
            run(*words[1:])
        assert server.seen
    for code in PAGE.blocks("python"):
        exec(code, {})


def confirm_all(sheet: Path) -> None:
    write_csv(sheet, [{**row, "label": "" if row["response"] else "yes"} for row in read_csv(sheet)])


def test_counts_are_exact_and_no_value_is_shown(workplace: Path, run: Run) -> None:
    words = (*FIND, "--detectors=[]", "--replicates=50", "--fuzzy=none")
    output = run(*words, "--json").stdout
    counts = json.loads(output)
    records = Benchmark.load(workplace / "bench").records
    own, cross = 0, 0
    for place, record in enumerate(records):
        other = records[place - 1] if place % 3 == 2 else record
        values = {
            (identifier.type, identifier.value)
            for identifier in other.identifiers
            if identifier.value in other.text[20:200]
        }
        if other is record:
            own += sum(value not in record.text[:20] for _, value in values)
        else:
            cross += sum("date" not in kind for kind, _ in values)
    assert sum(row["frequency"] for row in counts["table9"]) == own > 0
    assert counts["cross_leaks"] == cross > 0
    assert counts["detectors"] == {}
    output += run(*words).stdout
    assert all(identifier.value not in output for record in records for identifier in record.identifiers)
    assert any(
        identifier.value in run(*words, "--show-text", "--json").stdout for identifier in records[0].identifiers
    )


def test_a_detectors_recall_is_beside_the_counts(workplace: Path, run: Run) -> None:
    recall = json.loads(run(*FIND, "--json").stdout)["detectors"]["patterns"]
    assert set(recall) == {"fresh notes in eight styles", "invented notes", "these records"}
    assert 0 < recall["invented notes"][-1]["recall"] < 1


def test_several_detectors_show_their_union_and_overlap(workplace: Path, run: Run) -> None:
    words = ("audit", "identifiers", "recall", "--detector", "patterns,presidio")
    answer = json.loads(run(*words, "--synthetic=20", "--json").stdout)
    assert list(answer["detectors"]) == ["patterns", "presidio", "patterns+presidio"]
    labels = {name: rows[-1]["found"] for name, rows in answer["detectors"].items()}
    assert labels["patterns+presidio"] >= max(labels["patterns"], labels["presidio"])
    assert sum(row["labelled"] for row in answer["overlap"]) == answer["detectors"]["patterns"][-1]["labelled"]
    # The detector presidio holds the rules of patterns.
    assert "patterns" not in {row["found_by"] for row in answer["overlap"]}
    counts = json.loads(run(*FIND, "--detectors=patterns,presidio", "--json").stdout)
    assert list(counts["detectors"]) == ["patterns", "presidio", "patterns+presidio"]
    assert {row["found_by"] for row in counts["overlap"]} <= {"patterns", "presidio", "patterns+presidio"}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("find said.jsonl --records bench", "--out"),
        ("find bench --out x", "Name the benchmark"),
        ("find said.jsonl --out x fuzy=all", "fuzzy"),
        ("find none.csv --out x", "no file"),
        ("find said.jsonl --records bench --out x --detectors=tagger:nowhere", "no model folder"),
        ("review bench --out x", "holds no findings"),
        ("corrected bench", "review.json"),
        ("recall --detector rules", "There is no detector"),
    ],
)
def test_mistakes_are_refused_with_exit_code_2(workplace: Path, run: Run, command: str, why: str) -> None:
    assert why in " ".join(run("audit", "identifiers", *command.split(), code=2).stderr.split())
