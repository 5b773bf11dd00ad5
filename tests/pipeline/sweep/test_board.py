"""Order, dependencies and failures, without any process."""

from __future__ import annotations

from medunlearn.pipeline.sweep.cells import Board, SweepCell


def cell(name: str, *needs: str, after: tuple[str, ...] = (), alone: str = "") -> SweepCell:
    return SweepCell(name, "unlearn", 0, needs=needs, after=after, alone=alone)


def names(board: Board) -> list[str]:
    return [cell.name for cell in board.ready()]


def test_nothing_starts_before_what_it_needs() -> None:
    board = Board([cell("a"), cell("b", "a"), cell("c", "b")])
    assert names(board) == ["a"]
    board.start("a")
    assert names(board) == []
    board.settle("a", "done")
    assert names(board) == ["b"]
    board.settle("b", "done")
    board.settle("c", "done")
    assert not board.open


def test_the_longest_way_ahead_comes_first() -> None:
    cells = [cell("short"), cell("long"), cell("first"), cell("next", "first")]
    assert names(Board(cells, {"short": 1, "long": 5, "first": 2, "next": 4})) == ["first", "long", "short"]
    assert names(Board(cells, {"short": 1, "long": 9, "first": 2, "next": 4})) == ["long", "first", "short"]
    # Of what nothing is known, a cell that others wait for comes first.
    assert names(Board(cells))[0] == "first"


def test_a_failure_stops_what_needs_it_and_nothing_else() -> None:
    board = Board([cell("a"), cell("b", "a"), cell("c", "b"), cell("d"), cell("e", "d")])
    assert board.settle("a", "failed", "it diverged") == ["b", "c"]
    assert board.reason == {
        "a": "it diverged",
        "b": "not run, because a failed",
        "c": "not run, because a failed",
    }
    assert board.state["c"] == "not run"
    assert names(board) == ["d"]
    board.settle("d", "done")
    assert names(board) == ["e"]
    board.settle("e", "done")
    assert not board.open


def test_after_waits_for_the_end_however_it_is() -> None:
    board = Board([cell("a"), cell("b"), cell("c", after=("a", "b"))])
    board.settle("a", "failed", "x")
    assert names(board) == ["b"]
    board.start("b")
    assert names(board) == []
    board.settle("b", "done")
    assert names(board) == ["c"]


def test_cells_that_share_a_store_take_turns() -> None:
    board = Board([cell("a", alone="s"), cell("b", alone="s"), cell("c", alone="t")])
    assert names(board) == ["a", "c"]
    board.start("a")
    assert names(board) == ["c"]
    board.settle("a", "failed", "x")
    assert names(board) == ["b", "c"]
