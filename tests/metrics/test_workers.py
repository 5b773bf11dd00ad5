"""Scoring in several processes: the same table, the same errors, nothing left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from medunlearn.errors import InputError, MedunlearnError
from medunlearn.metrics import Item, Measure, Score, Tools, get_metric
from medunlearn.metrics import item_scoring as scoring
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.workers import in_processes

ELSEWHERE = """
import os, time
from medunlearn.errors import InputError
from medunlearn.metrics import Measure, Score

def whose(items, tools):
    print("a metric may print")
    return [Score(float(os.getpid())) for item in items]

def refuse(items, tools):
    raise InputError("the metric does not like this")

def wait(items, tools):
    if items[0].question_id != "0":
        open(os.environ["PIDS"], "a").write(f"{os.getpid()}\\n")
        time.sleep(600)
    return [Score(0.0) for item in items]

def refuse_two(part):
    if part == 2:
        raise InputError("it does not like this")

def die_at_two(part):
    if part == 2:
        os._exit(9)

def make(function):
    return Measure(function.__name__, "Mine", ("response",), "0-1", "here", function, item_by_item=True)

WHOSE, REFUSE, WAIT = make(whose), make(refuse), make(wait)
"""
INTERRUPTED = """
import signal
# A shell that starts the tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
from medunlearn.metrics import Item, get_metric, item_scoring as scoring
scoring._TRIAL = 1
items = [Item(str(n), "forget", "?", "a", response="a") for n in range(7)]
scoring.score(items, [get_metric("elsewhere:WAIT")], processes=2)
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's module of metrics, which is on the path of this process only."""
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
    return tmp_path


def items(count: int) -> list[Item]:
    draw = random.Random(count)
    words = ["lungs", "are", "clear", "heart", "enlarged", "no", "effusion", "naïve", ""]
    texts = [" ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(2 * count)]
    return [
        Item(f"q{n}", "forget", "?", texts[n], texts[-n - 1] if n % 7 else None, [len(w) for w in texts[n].split()])
        for n in range(count)
    ]


def test_any_number_of_processes_gives_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_TRIAL", 5)
    metrics = [get_metric(name) for name in ("rouge_l", "te", "em", "cs", "token_f1")]
    alone = score(items(40), metrics, processes=1)
    assert alone["value"].notna().any()
    assert alone["reason"].notna().any()
    pd.testing.assert_frame_equal(score(items(40), metrics, processes=2), alone)


def test_an_error_in_another_process_is_the_users_error(elsewhere: Path) -> None:
    import elsewhere as mine

    with pytest.raises(InputError, match="does not like this"):
        in_processes(mine.refuse_two, [1, 2])
    many = [Item(str(n), "forget", "?", "a", response="a") for n in range(2000)]
    with pytest.raises(InputError, match="does not like this"):
        score(many, [mine.REFUSE], processes=2)


def test_a_process_that_dies_is_an_error_that_names_the_fix(elsewhere: Path) -> None:
    import elsewhere as mine

    with pytest.raises(MedunlearnError, match="processes=1"):
        in_processes(mine.die_at_two, [1, 2])


def test_more_parts_than_processes_keep_their_order() -> None:
    assert in_processes(abs, [*range(-7, 0)], 2) == [7, 6, 5, 4, 3, 2, 1]


def test_the_script_that_was_started_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from medunlearn.metrics.workers import in_processes\n"
        "print('started')\nprint(in_processes(abs, [-1, -2]))\n"
    )
    process = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert process.stdout.split("\n")[:2] == ["started", "[1, 2]"]
    assert not process.stderr


def test_what_cannot_be_sent_or_depends_on_other_items_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_TRIAL", 1)

    def place(ready: Sequence[Item], tools: Tools) -> list[Score]:
        return [Score(float(number)) for number in range(len(ready))]

    many = [Item(str(n), "forget", "?", "a", response="a") for n in range(6)]
    for item_by_item in (False, True):
        mine = Measure("mine", "Mine", ("response",), "0-1", "here", place, item_by_item)
        assert score(many, [mine], processes=2)["value"].tolist() == [0, 1, 2, 3, 4, 5]


def test_small_work_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object, **named: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("medunlearn.metrics.workers.ProcessPoolExecutor", never)
    assert len(score(items(1500), [get_metric("rouge_l"), get_metric("te")])) == 3000
    assert len(score(items(500), [get_metric("rouge_l")], processes=8)) == 500


def test_long_work_takes_more_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    part_counts: list[int] = []

    def counted(function: Callable[[list[Item]], object], parts: list[list[Item]], processes: int) -> list[object]:
        part_counts.append(processes)
        return [function(part) for part in parts]

    monkeypatch.setattr(scoring, "in_processes", counted)
    monkeypatch.setattr(scoring, "usable_cores", lambda: 4)
    monkeypatch.setattr(scoring, "_SECONDS_TO_SHARE", 1e-9)
    assert len(score(items(1500), [get_metric("rouge_l")])) == 1500
    assert part_counts == [4]


def test_an_import_at_the_first_item_is_not_taken_for_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = [1.0]

    def slow_at_first(ready: Sequence[Item], tools: Tools) -> list[Score]:
        time.sleep(pauses.pop() if pauses else 0)
        return [Score(0.0) for _ in ready]

    part_counts: list[int] = []

    def counted(function: Callable[[list[Item]], object], parts: list[list[Item]], processes: int) -> list[object]:
        part_counts.append(processes)
        return [function(part) for part in parts]

    monkeypatch.setattr(scoring, "in_processes", counted)
    monkeypatch.setattr(scoring, "usable_cores", lambda: 4)
    monkeypatch.setattr(scoring, "_TRIAL", 4)
    monkeypatch.setattr(scoring, "_may_be_shared_out", lambda metric: True)
    mine = Measure("mine", "Mine", ("response",), "0-1", "here", slow_at_first, True)
    many = [Item(str(n), "forget", "?", "a", response="a") for n in range(100)]
    assert len(score(many, [mine])) == 100
    assert part_counts == [1]


@pytest.mark.parametrize("processes", [0, -1])
def test_less_than_one_process_is_refused(processes: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        score(items(1), [get_metric("rouge_l")], processes=processes)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are other things on Windows")
def test_ctrl_c_leaves_no_process_behind(elsewhere: Path) -> None:
    pids = elsewhere / "pids"
    paths = os.pathsep.join([str(elsewhere), *sys.path])
    started = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "PYTHONPATH": paths, "PIDS": str(pids)},
        stderr=subprocess.PIPE,
    )
    with started:
        _until(lambda: pids.exists() and pids.read_text().count("\n") == 2)
        started.send_signal(signal.SIGINT)
        try:
            _, stderr = started.communicate(timeout=30)
        finally:
            started.kill()
    assert b"KeyboardInterrupt" in stderr
    children = [int(line) for line in pids.read_text().split() if int(line) != started.pid]
    assert len(children) == 1
    _until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("not done in 30 seconds")
