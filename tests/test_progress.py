"""Progress of long work where nobody looks at a terminal."""

from __future__ import annotations

import pytest

from medunlearn import progress as module
from medunlearn.progress import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the test sets."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module._Lines, "last", 0.0)
    return now


def test_a_line_a_minute_without_a_terminal(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress("fine-tuning", 300) as advance:
        for _ in range(30):
            clock[0] += 10.0
            advance(10, note="loss 1.2")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "> fine-tuning: 20% (60 of 300), 4 minutes left, loss 1.2"
    assert len(lines) == 4  # the fifth minute is the end


def test_nested_work_shares_the_minute(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress("stages", 3) as outer, progress("answers", 100) as inner:
        for _ in range(12):
            clock[0] += 10.0
            inner(1)
            outer(0)
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_short_and_quiet_work_says_nothing(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress("short", 10) as advance:
        clock[0] += 59.0
        advance(5)
    with progress("quiet", 10, quiet=True) as advance:
        clock[0] += 600.0
        advance(5)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1.0, "1 minute"), (100.0, "2 minutes"), (5300.0, "88 minutes"), (5400.0, "2 hours"), (86400.0, "24 hours")],
)
def test_durations(seconds: float, words: str) -> None:
    assert module._duration(seconds) == words
