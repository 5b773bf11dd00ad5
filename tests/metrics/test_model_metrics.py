"""Cosine and entailment with fake models that record what they were asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medunlearn.errors import MedunlearnError
from medunlearn.metrics import Item, Tools, get_metric

CS, ES = get_metric("cs"), get_metric("es")


class Vectors:
    """An encoder that knows its texts' vectors."""

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.known = vectors
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> list[Sequence[float]]:
        self.calls.append(list(texts))
        return [self.known[text] for text in texts]


class Labels:
    """An entailment model that says yes to some pairs."""

    def __init__(self, *entailed: tuple[str, str]) -> None:
        self.entailed = set(entailed)
        self.calls: list[list[tuple[str, str]]] = []

    def entails(self, premises: Sequence[str], hypotheses: Sequence[str]) -> list[bool]:
        pairs = list(zip(premises, hypotheses, strict=True))
        self.calls.append(pairs)
        return [pair in self.entailed for pair in pairs]


def forget(response: str, reference: str) -> Item:
    return Item(f"{response}|{reference}", "forget", "?", reference, response=response)


def retain(response: str, reference: str) -> Item:
    return Item(f"{response}|{reference}", "retain", "?", reference, response=response)


def values(scores: list) -> list[float | None]:  # type: ignore[type-arg]
    return [score.value for score in scores]


def test_cosine_by_hand_and_floored_at_zero() -> None:
    # (1,0)·(0.6,0.8) = 0.6; opposite vectors floor at 0; (2,0) is not of unit length and still 1.
    encoder = Vectors({"east": (1, 0), "north-east": (0.6, 0.8), "west": (-1, 0), "far east": (2, 0)})
    items = [forget("east", "north-east"), retain("east", "west"), forget("far east", "east")]
    assert values(CS.score(items, Tools(encoder=encoder))) == [pytest.approx(0.6), 0.0, 1.0]


def test_cosine_encodes_each_different_text_once() -> None:
    encoder = Vectors({"x": (1, 0), "y": (0, 1)})
    CS.score([forget("x", "y"), forget("x", "x"), retain("y", "x")], Tools(encoder=encoder))
    assert [sorted(call) for call in encoder.calls] == [["x", "y"]]


@pytest.mark.parametrize("vector", [(0.0, 0.0), (float("nan"), 1.0)])
def test_cosine_without_a_direction_is_unscored(vector: tuple[float, float]) -> None:
    encoder = Vectors({"x": (1, 0), "nothing": vector})
    (unscored,) = CS.score([forget("nothing", "x")], Tools(encoder=encoder))
    assert unscored.value is None
    assert "embedding" in str(unscored.reason)


def test_encoder_that_loses_a_text_is_an_error() -> None:
    class Lossy(Vectors):
        def encode(self, texts: Sequence[str]) -> list[Sequence[float]]:
            return super().encode(texts)[1:]

    with pytest.raises(MedunlearnError, match="1 vectors for 2 texts"):
        CS.score([forget("x", "y")], Tools(encoder=Lossy({"x": (1, 0), "y": (0, 1)})))


def test_entailment_asks_by_side() -> None:
    nli = Labels(("he has flu", "flu"), ("has flu", "flu"))
    items = [
        forget("he has flu", "flu"),
        forget("flu", "he has flu"),
        retain("he has flu", "flu"),
        retain("flu", "has flu"),
    ]
    # Forget asks response -> reference, retain reference -> response.
    assert values(ES.score(items, Tools(nli=nli))) == [1.0, 0.0, 0.0, 1.0]
    (pairs,) = nli.calls
    assert set(pairs) == {("he has flu", "flu"), ("flu", "he has flu"), ("has flu", "flu")}


def test_entailment_below_the_least_overlap_is_zero_and_never_asked() -> None:
    # 1 of 10 reference words is a recall of 0.1: asked. 1 of 11 is below: not asked, whatever it would say.
    ten = "one two three four five six seven eight nine ten"
    eleven = ten + " eleven"
    nli = Labels(("one", ten), ("one", eleven), ("", ten))
    items = [forget("one", ten), forget("one", eleven), forget("", ten)]
    assert values(ES.score(items, Tools(nli=nli))) == [1.0, 0.0, 0.0]
    assert nli.calls == [[("one", ten)]]


def test_entailment_of_a_reference_without_words_is_unscored() -> None:
    (unscored,) = ES.score([forget("心臓", "心臓")], Tools(nli=Labels()))
    assert unscored.value is None


def test_entailment_model_that_loses_a_pair_is_an_error() -> None:
    class Lossy(Labels):
        def entails(self, premises: Sequence[str], hypotheses: Sequence[str]) -> list[bool]:
            return []

    with pytest.raises(MedunlearnError, match="0 labels for 1 pairs"):
        ES.score([forget("flu", "flu")], Tools(nli=Lossy()))


@pytest.mark.parametrize("metric", [CS, ES])
def test_called_past_the_runner_without_a_model_it_says_what_to_pass(metric) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(MedunlearnError, match="pass Tools"):
        metric.score([forget("flu", "flu")], Tools())
