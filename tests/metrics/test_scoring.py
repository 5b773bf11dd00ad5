"""The runner: each value stays with its question, and what has none says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.errors import InputError, MedunlearnError, UnknownNameError
from medunlearn.metrics import Item, Measure, Score, Tools, get_metric, item_scoring, metric_targets
from medunlearn.metrics.item_scoring import score
from medunlearn.metrics.score_store import ScoreStore

Scorer = Callable[[Sequence[Item], Tools], list[Score]]


def metric(scorer: Scorer, *needs: str, name: str = "mine") -> Measure:
    return Measure(name, "Mine", needs or ("response",), "0-1", "here", scorer)  # type: ignore[arg-type]


def item(question_id: str, response: str | None = "yes", reference: str = "yes") -> Item:
    return Item(question_id, "forget", "?", reference, response=response)


def test_table_has_its_columns_and_types() -> None:
    table = score([item("q1"), item("q2", "no")], [get_metric("exact_match"), get_metric("rouge_l")])
    assert table.columns.tolist() == ["question_id", "metric", "value", "reason"]
    assert table["value"].dtype == "Float64"
    assert list(table.itertuples(index=False, name=None)) == [
        ("q1", "exact_match", 1.0, None),
        ("q2", "exact_match", 0.0, None),
        ("q1", "rouge_l", 1.0, None),
        ("q2", "rouge_l", 0.0, None),
    ]


@given(st.lists(st.none() | st.integers(0, 99), max_size=20))
def test_a_value_never_leaves_its_question(numbers: list[int | None]) -> None:
    # The metric sees only the items that have a response, and says their number back.
    items = [item(f"q{place}", None if n is None else str(n)) for place, n in enumerate(numbers)]
    echo = metric(lambda ready, tools: [Score(float(row.response or "nan")) for row in ready])
    table = score(items, [echo])
    assert table["question_id"].tolist() == [f"q{place}" for place in range(len(numbers))]
    assert [
        None if value is None else value
        for value in table["value"].astype(object).where(table["value"].notna(), None)
    ] == numbers


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rouge_l", "no response"),
        ("te", "response tokens"),
        ("em", "arg-max hits"),
        ("answer_probability", "log-probabilities"),
        ("cs", "no sentence encoder was given: pass encoder=..."),
        ("es", "no entailment model was given: pass nli=..."),
    ],
)
def test_what_an_item_lacks_is_named(name: str, words: str) -> None:
    table = score([item("q1", response=None)], [get_metric(name)])
    assert table["value"].isna().all()
    assert words in table["reason"].iloc[0]


def test_a_metric_that_nothing_is_ready_for_is_not_called() -> None:
    def never(ready: Sequence[Item], tools: Tools) -> list[Score]:
        raise AssertionError("called")

    assert score([item("q1", response=None)], [metric(never)])["value"].isna().all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_not_a_number_is_unscored_with_a_reason(value: float) -> None:
    table = score([item("q1")], [metric(lambda ready, tools: [Score(value)])])
    assert table["value"].isna().all()
    assert "no number to average" in table["reason"].iloc[0]


def test_unscored_keeps_its_reason_and_scored_has_none() -> None:
    scores = [Score.unscored("too short"), Score(None), Score(0.5, "ignored")]
    table = score([item("a"), item("b"), item("c")], [metric(lambda ready, tools: scores)])
    assert table["reason"].tolist() == ["too short", "the metric gave no value and no reason", None]
    assert table["value"].isna().tolist() == [True, True, False]


@pytest.mark.parametrize("scores", [[], [Score(1.0)], [Score(1.0)] * 3])
def test_a_wrong_number_of_scores_is_an_error(scores: list[Score]) -> None:
    with pytest.raises(MedunlearnError, match=rf"{len(scores)} scores for 2 items"):
        score([item("a"), item("b")], [metric(lambda ready, tools: scores)])


def test_a_bare_number_is_an_error() -> None:
    with pytest.raises(MedunlearnError, match="gave a float instead of a Score"):
        score([item("a")], [metric(lambda ready, tools: [1.0])])  # type: ignore[list-item]


def test_an_unknown_need_is_an_error() -> None:
    with pytest.raises(InputError, match="needs 'respnse'"):
        score([item("a")], [metric(lambda ready, tools: [Score(1.0)], "respnse")])


def test_a_question_or_a_metric_twice_is_an_error() -> None:
    with pytest.raises(InputError, match="question 'a' occurs more than once"):
        score([item("a"), item("a")], [get_metric("rouge_l")])
    with pytest.raises(InputError, match="measure 'rouge_l' occurs more than once"):
        score([item("a")], [get_metric("rouge_l")] * 2)


def test_names_lead_to_metrics() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'rouge_l'"):
        get_metric("rouge-l")
    with pytest.raises(InputError, match=r"must be a medunlearn\.metrics\.Measure"):
        get_metric("medunlearn.metrics.text:rouge_l_recall")
    assert get_metric("medunlearn.metrics.text:ROUGE_L").name == "rouge_l"


def test_an_item_for_which_the_measure_raises_is_unscored_and_the_others_are_not() -> None:
    """Also where the items are scored together: those that do not raise alone are scored once more, together."""

    def share(ready: Sequence[Item], tools: Tools) -> list[Score]:
        lengths = [10 / len(row.response or "") for row in ready]
        return [Score(length / sum(lengths)) for length in lengths]

    table = score([item("a", "xx"), item("b", ""), item("c", "xx"), item("d", None)], [metric(share)])
    assert table["value"].tolist()[::2] == [0.5, 0.5]
    assert table["value"].isna().tolist() == [False, True, False, True]
    reason = table["reason"][1]
    assert reason.startswith("the measure raised ZeroDivisionError (test_scoring.py, line ")


def test_a_measure_that_raises_for_all_leaves_the_others_scores() -> None:
    def broken(ready: Sequence[Item], tools: Tools) -> list[Score]:
        raise KeyError(ready[0].reference)

    table = score([item("a"), item("b")], [metric(broken), get_metric("exact_match")])
    assert table["value"].isna().tolist() == [True, True, False, False]
    assert "yes" not in table["reason"][0]  # the error's text may be that of a record
    with pytest.raises(MemoryError):
        score([item("a")], [metric(lambda ready, tools: (_ for _ in ()).throw(MemoryError()))])


def test_every_measure_says_its_range_and_direction() -> None:
    for name in metric_targets():
        measure = get_metric(name)
        assert measure.range is not None
        assert measure.range[0] < measure.range[1]
        assert measure.direction is not None
        assert measure.meaning
        assert measure.source
        assert bool(measure.variant) == (name.partition(".")[2] != "")


def test_scoring_by_a_model_goes_on_where_it_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished chunks are scored again only by another model, or of other texts."""
    monkeypatch.setattr(item_scoring, "_CHUNK", 2)
    items, asked = [item(f"q{n}", f"yes {n}") for n in range(5)], list[str]()

    class Flat:
        dies_at = ""

        def encode(self, texts: Sequence[str]) -> list[list[float]]:
            asked.extend(text for text in texts if text != "yes")
            if self.dies_at and self.dies_at in texts:
                raise KeyboardInterrupt
            return [[1.0, float(len(text))] for text in texts]

    store, flat = ScoreStore(tmp_path / "scoring", {"encoder": "flat"}), Flat()
    whole = score(items, [get_metric("cs")], Tools(encoder=flat))
    flat.dies_at = "yes 3"
    with pytest.raises(KeyboardInterrupt):
        score(items, [get_metric("cs")], Tools(encoder=flat), store=store)
    flat.dies_at = ""
    asked.clear()
    pd.testing.assert_frame_equal(score(items, [get_metric("cs")], Tools(encoder=flat), store=store), whole)
    assert asked == ["yes 2", "yes 3", "yes 4"]
    score(items, [get_metric("cs")], Tools(encoder=flat), store=replace(store, models={"encoder": "other"}))
    score([replace(items[0], response="no"), items[1]], [get_metric("cs")], Tools(encoder=flat), store=store)
    assert asked[3:] == [*(f"yes {n}" for n in range(5)), "no", "yes 1"]
    store.remove()
    assert not store.folder.exists()
