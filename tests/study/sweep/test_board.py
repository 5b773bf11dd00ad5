"""Order, dependencies and failures of cells, without any process."""

from __future__ import annotations

from medunlearn.study.sweep.cells import Board, SweepCell


def cell(name: str, *needs: str, after: tuple[str, ...] = (), alone: str = "") -> SweepCell:
    return SweepCell(name, "unlearn", 0, needs=needs, after=after, alone=alone)


def names(board: Board) -> list[str]:
    return [cell.name for cell in board.ready()]


def test_nothing_starts_before_what_it_needs() -> None:
    board = Board([cell("a"), cell("b", "a")])
    assert names(board) == ["a"]
    board.cells["a"].status = "running"
    assert names(board) == []
    board.cells["a"].status = "done"
    assert names(board) == ["b"]
    board.cells["b"].status = "done"
    assert not board.open


def test_the_longest_way_ahead_comes_first() -> None:
    cells = [cell("short"), cell("long"), cell("first"), cell("next", "first")]
    assert names(Board(cells, {"short": 1, "long": 5, "first": 2, "next": 4})) == ["first", "long", "short"]
    assert names(Board(cells, {"short": 1, "long": 9, "first": 2, "next": 4})) == ["long", "first", "short"]
    # Of what nothing is known, a cell that others wait for comes first.
    assert names(Board(cells))[0] == "first"


def test_a_failure_stops_what_needs_it_and_nothing_else() -> None:
    board = Board(
        [cell("a"), cell("b", "a"), cell("c", "b"), cell("d"), cell("e", "d"), cell("f", after=("a", "d"))]
    )
    assert board.fail(board.cells["a"], "it diverged") == ["b", "c"]
    assert {name: cell.reason for name, cell in board.cells.items() if cell.reason} == {
        "a": "it diverged",
        "b": "not run, because a failed",
        "c": "not run, because a failed",
    }
    assert [board.cells[name].status for name in "abc"] == ["failed", "not run", "not run"]
    assert names(board) == ["d"]
    board.cells["d"].status = "done"
    # What comes after cells waits for their end, however it is.
    assert names(board) == ["e", "f"]


def test_cells_that_share_a_store_take_turns() -> None:
    board = Board([cell("a", alone="s"), cell("b", alone="s"), cell("c", alone="t")])
    assert names(board) == ["a", "c"]
    board.cells["a"].status = "running"
    assert names(board) == ["c"]
    board.fail(board.cells["a"], "x")
    assert names(board) == ["b", "c"]
