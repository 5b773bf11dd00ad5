"""Semantic measures as rows: unscored with a reason, directions, the form of the audit's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from medunlearn.audit.semantic import NO_BART, NO_ENCODER, bart_score, bert_score
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.bart_score import BartScorer
from medunlearn.models.bert_score import BertScore, BertScorer


class Encoder:
    """Precision is the share of the response's words that the reference has, recall the same the other way."""

    def score(self, texts: Sequence[str], meant: Sequence[str], *, advance: Callable[[int], None]) -> Any:
        advance(len(texts))
        return [self._one({*a.split()}, {*b.split()}) for a, b in zip(texts, meant, strict=True)]

    def _one(self, a: set[str], b: set[str]) -> BertScore | None:
        if "?" in a:
            return None
        p, r = len(a & b) / len(a), len(a & b) / len(b)
        return BertScore(p, r, 2 * p * r / (p + r) if p + r else 0.0)


class Bart:
    """Minus the number of the target's words that the source lacks."""

    def score(self, sources: Sequence[str], targets: Sequence[str], *, advance: Callable[[int], None]) -> Any:
        advance(len(sources))
        return [-float(len({*b.split()} - {*a.split()})) for a, b in zip(sources, targets, strict=True)]


ENCODER, BART = cast(BertScorer, Encoder()), cast(BartScorer, Bart())
SAID = ["a b", "a b", None, "  ", "?", "x"]
MEANT = ["a b", "b c d e", "a", "a", "a", None]


def test_each_pair_has_a_value_or_a_reason() -> None:
    scores = bert_score(SAID, MEANT, model=ENCODER)
    assert [entry.value for entry in scores] == [1.0, pytest.approx(2 * 0.5 * 0.25 / 0.75), None, None, None, None]
    assert [entry.reason for entry in scores] == [
        *(None, None, "there is no response", "the response is empty"),
        *("a text has no token that counts", "there is no reference"),
    ]


def test_without_a_model_every_pair_is_unscored() -> None:
    assert [entry.reason for entry in bert_score(SAID, MEANT, model=None)] == [NO_ENCODER] * 6
    assert [entry.reason for entry in bart_score(SAID, MEANT, model=None)] == [NO_BART] * 6


def test_parts_and_directions() -> None:
    assert bert_score(["a b"], ["b c d e"], model=ENCODER, part="precision")[0].value == 0.5
    assert bert_score(["a b"], ["b c d e"], model=ENCODER, part="recall")[0].value == 0.25
    assert bart_score(["a b"], ["b c d e"], model=BART)[0].value == -3.0  # c, d and e are not in the response
    assert bart_score(["a b"], ["b c d e"], model=BART, direction="precision")[0].value == -1.0
    assert bart_score(["a b"], ["b c d e"], model=BART, direction="both")[0].value == -2.0
    with pytest.raises(ConfigError, match="direction='there': choose one of recall, precision, both"):
        bart_score(["a"], ["a"], model=BART, direction=cast(Any, "there"))
    with pytest.raises(ConfigError, match="part='p': choose one of f1, precision, recall"):
        bert_score(["a"], ["a"], model=ENCODER, part=cast(Any, "p"))
    for measure in (bert_score, bart_score):
        with pytest.raises(InputError, match="1 responses and 2 references"):
            measure(["a"], ["a", "b"], model=None)  # type: ignore[operator]
