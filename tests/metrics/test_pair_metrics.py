"""BERTScore and BARTScore as metrics of an evaluation: what they are given, and what has no score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from medunlearn.errors import MedunlearnError
from medunlearn.metrics import Item, Tools, get_metric
from medunlearn.metrics.item_scoring import score

ITEMS = [
    Item("q1", "forget", "?", reference="aspirin", response="heparin and aspirin"),
    Item("q2", "retain", "?", reference="iron", response=""),
    Item("q3", "retain", "?", reference="iron"),
]


@dataclass(frozen=True)
class Matches:
    f1: float


class Pairs:
    """One pair's number is the length of the one text over that of the other."""

    def score(self, first: Sequence[str], second: Sequence[str]) -> Sequence[float | None]:
        return [len(b) / len(a) if a else None for a, b in zip(first, second, strict=True)]


class Matcher:
    def score(self, responses: Sequence[str], references: Sequence[str]) -> Sequence[Matches | None]:
        return [None if value is None else Matches(value) for value in Pairs().score(responses, references)]


def test_the_response_comes_first_and_what_has_none_says_why() -> None:
    tools = Tools(bert=Matcher(), bart=Pairs())
    table = score(ITEMS, [get_metric("bert_score"), get_metric("bart_score")], tools)
    assert table["value"].tolist()[::3] == [pytest.approx(7 / 19)] * 2
    assert table["value"].isna().tolist() == [False, True, True] * 2
    assert table["reason"].tolist()[1:3] == ["the response is empty", "there is no response"]


@pytest.mark.parametrize("name", ["bert", "bart"])
def test_without_a_model(name: str) -> None:
    table = score(ITEMS[:1], [get_metric(f"{name}_score")])
    assert f"pass {name}=... in Tools" in table["reason"].iloc[0]
    with pytest.raises(MedunlearnError, match=f"Tools\\({name}="):
        get_metric(f"{name}_score").score(ITEMS[:1], Tools())
