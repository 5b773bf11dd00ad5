"""What docs/benchmarks.md shows of notes runs, small; its example files are the invented hospital."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, Page, run_line

from medunlearn.data.benchmark import Benchmark
from medunlearn.notes.note_columns import USUAL
from medunlearn.synthetic.note_table import write_note_table

PAGE = Page.read("benchmarks.md", "Clinical notes of your own")
SMALL = {
    "medunlearn train": ("--epochs=1", "--tiny-width=32", "--tiny-layers=2"),
    "medunlearn unlearn": ("--epochs=1",),
    "medunlearn evaluate": ("--max-new-tokens=2", "--limit=2", "--replicates=20", "--allow-broken"),
    "medunlearn attack": ("--attacks=loss", "--replicates=20"),
}


def test_the_page_runs_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    lines = PAGE.commands
    assert len(lines) == 11
    for line in lines:
        extra = next((more for start, more in SMALL.items() if line.startswith(start)), ())
        run_line(line, extra)
    bench = Benchmark.load(tmp_path / "bench")
    assert bench.counts()["subjects"] == 32
    assert bench.counts()["records_holdout"] == 16
    assert Benchmark.load(tmp_path / "bench-request").splits["request"].forget == ("100003", "100007")
    chat = Benchmark.load(tmp_path / "bench-chat")
    assert len({chat.subject(question.record_id) for question in chat.questions}) == 4
    prompts = {
        q.question for q in chat.questions if q.kind == "generation" and chat.subject(q.record_id) == "100003"
    }
    assert prompts == {
        f"Write the {kind} of Liodorrik Ulvogrith." for kind in ("discharge note", "radiology report")
    }


@pytest.mark.parametrize(("name", "patients", "seed"), [("notes.csv", 24, 0), ("notes-unseen.csv", 8, 1)])
def test_the_examples_are_the_invented_hospital(tmp_path: Path, name: str, patients: int, seed: int) -> None:
    written = write_note_table(tmp_path / name, patients, seed=seed)
    assert written.read_bytes() == (ROOT / "examples" / name).read_bytes()


def test_the_page_names_what_is_found() -> None:
    assert all(f"`{name}`" in PAGE.text for name in ("disease", "institution", "ward", "department"))
    assert {"disease", "institution", "ward", "department"} <= set(USUAL)
