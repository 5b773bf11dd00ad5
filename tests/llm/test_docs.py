"""Commands and code of docs/servers.md on the client, run as they stand against a server at its address."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from pages import Page, run_line
from row_files import write_csv

from medunlearn.data.benchmark import Benchmark
from medunlearn.judging.writing import task_targets

PAGE = Page.read("servers.md", "Rehearse without a model", "A benchmark from notes of your own", "The client")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = PAGE.blocks("python")
    command = "python -m medunlearn.judging.rehearsal --port 8000"
    assert f"`{command}`" in PAGE.text
    words = [sys.executable, *shlex.split(command)[1:-1], "0"]  # any free port instead of 8000
    monkeypatch.chdir(tmp_path)
    run_line(PAGE.commands[0])
    assert Benchmark.load(tmp_path / "rehearsed").undecided
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        exec(code.replace("http://127.0.0.1:8000/v1", address), {})
    finally:
        server.terminate()
        server.communicate()
    printed = capsys.readouterr().out
    assert "2 requests to send" in printed
    assert printed.count("answered {'label':") == 2


def test_the_commands_on_notes_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canned: Any, own_notes: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "notes.csv", own_notes(6))
    with FakeServer(answer=canned) as server:
        for line in PAGE.commands[1:]:
            run_line(line.replace("http://127.0.0.1:8000/v1", server.base_url))
    assert len(Benchmark.load(tmp_path / "bench").questions) == 48


def test_every_task_is_in_the_reference() -> None:
    reference = Page.read("reference/papers.md").text
    assert not [name for name in task_targets() if f"| `{name}` |" not in reference]
