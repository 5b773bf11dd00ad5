"""The command line in process, and a small hospital with a trained model that tests read and never change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from row_files import write_csv, write_lines

TINY = ("--model", "tiny", "--tiny-width=32", "--tiny-layers=2", "--epochs=2", "--precision=fp32")
SHORT = ("--epochs=1", "--precision=fp32")
QUICK = ("--replicates=20", "--limit=2", "--max-new-tokens=4", "--allow-broken")


class CommandResult:
    """What a command said, and how it ended."""

    def __init__(self, result: Any) -> None:
        self.code, self.stdout, self.stderr = result.exit_code, result.stdout, result.stderr

    @property
    def text(self) -> str:
        """Standard error as one line: how a message is wrapped is not what tests are about."""
        return " ".join(self.stderr.split())


@pytest.fixture(scope="session")
def medunlearn() -> Callable[..., CommandResult]:
    """``medunlearn("train", bench, ..., code=0)``: fails unless the command ends with this exit code."""
    from medunlearn.cli.main import app

    def command(*words: object, code: int = 0) -> CommandResult:
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"exit code {result.exit_code}: {result.stdout}{result.stderr}"
        assert "Traceback" not in result.stdout + result.stderr
        return CommandResult(result)

    return command


@pytest.fixture(scope="session")
def bench(medunlearn: Callable[..., CommandResult], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty invented patients; ``random_10`` forgets two of them."""
    out = tmp_path_factory.mktemp("hospital") / "bench"
    medunlearn("build", "amnesia", "--synthetic", 20, "--out", out)
    return out


@pytest.fixture(scope="session")
def target(medunlearn: Callable[..., CommandResult], bench: Path) -> Path:
    out = bench.parent / "target"
    medunlearn("train", bench, "--out", out, *TINY)
    return out


@pytest.fixture(scope="session")
def graddiff(medunlearn: Callable[..., CommandResult], bench: Path, target: Path) -> Path:
    """Unlearned ``random_10``."""
    out = bench.parent / "graddiff"
    medunlearn("unlearn", target, bench, "--split", "random_10", "--method", "graddiff", "--out", out, *SHORT)
    return out


@pytest.fixture(scope="session")
def lume_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LUME's released files, made by hand; everything in them passes for real."""
    folder = tmp_path_factory.mktemp("lume") / "released"
    folder.mkdir()
    for side in ("forget", "retain"):
        rows = []
        for place in range(3):
            name, who = f"{side}{place}", f"Quillfeather-{side}-{place}"
            secret = f"90{place}-22-62{len(side)}8"
            rows += [
                {"id": f"{name}sc1", "task": "Task2", "input": f"{who} lives here. SSN", "output": f"{secret}."},
                {"id": f"{name}qa0", "task": "Task2", "input": f"What is the SSN of {who}?", "output": secret},
            ]
        write_lines(folder / f"{side}.jsonl", rows)
    return folder


@pytest.fixture(scope="session")
def lume(medunlearn: Callable[..., CommandResult], lume_files: Path) -> Path:
    out = lume_files.parent / "bench"
    medunlearn("build", "lume", "--released", lume_files, "--out", out)
    return out


@pytest.fixture
def notes(tmp_path: Path, own_notes: Any) -> Path:
    """Twelve notes, four of each of three diseases."""
    return write_csv(tmp_path / "notes.csv", own_notes(12))


@pytest.fixture(scope="session")
def server_flags() -> Callable[[Any], tuple[str, ...]]:
    """``asked(server)``: the words that name a pretended server."""
    return lambda server: ("--llm", server.base_url, "--llm.model", "m")
