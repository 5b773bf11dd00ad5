"""Order, dependencies and failures of a graph's stages, without any process."""

from __future__ import annotations

from typing import Any

import pytest

from medunlearn.errors import InputError
from medunlearn.study.choose import Worth, choose
from medunlearn.study.stages import Graph, Stage, step


def stages(*rows: tuple[str, str] | tuple[str, str, str]) -> list[Stage[Any]]:
    """(name, needs[, after]); needs and after are letters."""
    made: dict[str, Stage[Any]] = {}
    for name, needs, *after in rows:
        earlier = tuple(made[other] for other in needs)
        made[name] = Stage(name=name, needs=earlier, after=tuple(made[other] for other in "".join(after)))
    return [*made.values()]


def names(graph: Graph) -> list[str]:
    return [stage.name for stage in graph.ready()]


def test_nothing_starts_before_what_it_needs() -> None:
    graph = Graph.of(stages(("a", ""), ("b", "a")))
    a, b = graph.stages.values()
    assert names(graph) == ["a"]
    graph[a].status = "running"
    assert names(graph) == []
    assert graph.running() == [a]
    graph.succeed(a, 1)
    assert names(graph) == ["b"]
    graph.succeed(b, 2)
    assert not graph.open
    assert graph.inputs[a] + graph.inputs[b] == 3


def test_the_longest_way_ahead_comes_first() -> None:
    rows = stages(("s", ""), ("l", ""), ("f", ""), ("n", "f"))
    assert names(Graph.of(rows, {"s": 1, "l": 5, "f": 2, "n": 4})) == ["f", "l", "s"]
    assert names(Graph.of(rows, {"s": 1, "l": 9, "f": 2, "n": 4})) == ["l", "f", "s"]
    # Of what nothing is known, a stage that others wait for comes first.
    assert names(Graph.of(rows))[0] == "f"


def test_a_failure_stops_what_needs_it_and_nothing_else() -> None:
    graph = Graph.of(stages(("a", ""), ("b", "a"), ("c", "b"), ("d", ""), ("e", "d"), ("f", "", "ad")))
    a, d = graph.stages["a"], graph.stages["d"]
    assert graph.fail(a, "it diverged") == ["b", "c"]
    assert {name: state.reason for name, state in graph.states.items() if state.reason} == {
        "a": "it diverged",
        "b": "not run, because a failed",
        "c": "not run, because a failed",
    }
    assert [graph.states[name].status for name in "abc"] == ["failed", "not run", "not run"]
    assert names(graph) == ["d"]
    graph.succeed(d, "done")
    # What comes after stages waits for their end, however it is.
    assert names(graph) == ["e", "f"]
    assert graph.inputs.get(a) is None
    assert graph.inputs.reason(a) == "it diverged"
    with pytest.raises(KeyError, match="a has no result"):
        graph.inputs[a]


def test_stages_that_share_a_store_take_turns() -> None:
    graph = Graph.of([Stage(name=name, alone=alone) for name, alone in (("a", "s"), ("b", "s"), ("c", "t"))])
    assert names(graph) == ["a", "c"]
    graph.states["a"].status = "running"
    assert names(graph) == ["c"]
    graph.fail(graph.stages["a"], "x")
    assert names(graph) == ["b", "c"]


class Circle(Stage[int]):
    """A stage from outside that needs one made after it."""

    def waits_for(self, other: Stage[Any]) -> None:
        object.__setattr__(self, "needs", (other,))


def test_a_graph_that_cannot_run_is_refused() -> None:
    a, b = stages(("a", ""), ("b", "a"))
    with pytest.raises(InputError, match="Stage 'b' needs 'a', which is not in the graph"):
        Graph.of([b])
    with pytest.raises(InputError, match="Two stages of the graph are named 'a'"):
        Graph.of([a, b, Stage(name="a")])
    first = Circle(name="first")
    second = Stage[int](name="second", needs=(first,))
    first.waits_for(second)
    with pytest.raises(InputError, match=r"wait for each other: .*first.*second"):
        Graph.of([first, second])


def test_stages_in_any_order_run_after_their_needs() -> None:
    done: list[str] = []
    a = step("a", lambda: done.append("a") or 2)
    b = step("b", lambda number, nothing: done.append("b") or (number, nothing), a, None)
    assert Graph.of([b, a]).run_here()[b] == (2, None)
    assert done == ["a", "b"]


def test_what_is_on_disk_is_done_where_its_needs_are() -> None:
    class Stored(Stage[int]):
        def read(self, inputs: Any) -> int | None:
            return None if self.name == "b" else len(self.name)

    a = Stored(name="a")
    b = Stored(name="b", needs=(a,))
    graph = Graph.of([a, b, Stored(name="c", needs=(b,)), Stored(name="d", after=(a,))])
    graph.find_done()
    assert {name: state.status for name, state in graph.states.items()} == {
        "a": "done",
        "b": "to do",
        "c": "to do",
        "d": "done",
    }


def test_a_choice() -> None:
    def best(*trials: Worth) -> Worth | None:
        place = choose(trials)
        return None if place is None else trials[place]

    assert best() is None
    assert best(Worth(None), Worth(None, broken=True)) is None
    assert best(Worth(2.0), Worth(1.0), Worth(None)) == Worth(1.0)
    # A broken model is chosen only where nothing else has a number.
    assert best(Worth(2.0), Worth(1.0, broken=True)) == Worth(2.0)
    assert best(Worth(None), Worth(1.0, broken=True), Worth(0.5, broken=True)) == Worth(0.5, True)
    assert best(Worth(1.0, place=2), Worth(1.0, place=1)) == Worth(1.0, place=1)
