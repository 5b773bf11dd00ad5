"""Which tokens of a response a finding is, counted by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from medunlearn.audit.identifiers.findings import Output, ResponseTokens
from medunlearn.audit.identifiers.search import find_identifiers
from medunlearn.audit.units import Encoded, WordsUnit
from medunlearn.data.records import Identifier, Record

RECORDS = [Record("r1", "Seen: Ada Vane, born 1961-04-03.", {}, (Identifier("name", "Ada Vane"),))]
SAID = Output("r1", "p1", "s1", "greedy", 0, "Seen:", " It was Ada Vane, again Ada Vane.")


class Letters:
    """ResponseTokens of two characters each: 'ab', 'cd', ...; the last may be one."""

    name, noun, fingerprint = "pairs of characters", "tokens", "pairs/1"

    def encode(self, texts: list[str]) -> list[Encoded]:
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> Encoded:
        starts = range(0, len(text), 2)
        ids = np.array([sum(map(ord, text[at : at + 2])) for at in starts], dtype=np.uint32)
        return Encoded(ids, np.array([min(at + 2, len(text)) for at in starts], dtype=np.int64))


def found(tokens: ResponseTokens | None, output: Output = SAID) -> pd.DataFrame:
    from medunlearn.config.identifiers import IdentifierSettings

    settings = IdentifierSettings(detectors=(), fuzzy="none")
    return find_identifiers([output], RECORDS, settings, tokens=tokens, quiet=True)


def test_places_in_words() -> None:
    table = found(ResponseTokens(WordsUnit()))
    # It was Ada Vane , again Ada Vane .
    assert table["value"].tolist() == ["Ada Vane", "Ada Vane"]
    assert table[["token", "token_end"]].to_numpy().tolist() == [[2, 4], [6, 8]]


def test_a_token_that_holds_a_part_of_it_counts() -> None:
    output = Output("r1", "p1", "s1", "greedy", 0, "Seen", "x Ada Vane y")
    # x_ Ad a_ Va ne _y
    assert found(ResponseTokens(Letters()), output)[["token", "token_end"]].to_numpy().tolist() == [[1, 5]]
    output = Output("r1", "p1", "s1", "greedy", 0, "Seen", "xy Ada Vane y")
    # xy _A da _V an e_ y
    assert found(ResponseTokens(Letters()), output)[["token", "token_end"]].to_numpy().tolist() == [[1, 6]]


def test_where_the_model_said_other_tokens_nothing_is_claimed() -> None:
    output = Output("r1", "p1", "s1", "greedy", 0, "Seen", "x Ada Vane, Ada Vane")
    cut = Letters()._one(output.response).ids.tolist()
    key = ("p1", "greedy", 0)
    same = found(ResponseTokens(Letters(), {key: cut}), output)
    assert same["token"].tolist() == [1, 6]
    other = [*cut[:6], 1, *cut[7:]]
    half = found(ResponseTokens(Letters(), {key: other}), output)
    assert half["token"].iloc[0] == 1
    assert pd.isna(half["token"].iloc[1])
    short = found(ResponseTokens(Letters(), {key: cut[:3]}), output)
    assert short["token"].isna().all()


@pytest.mark.parametrize("tokens", [None, ResponseTokens(WordsUnit())])
def test_tables_keep_their_columns(tokens: ResponseTokens | None) -> None:
    table = found(tokens)
    assert str(table["token"].dtype) == "Int32"
    assert table["token"].isna().all() == (tokens is None)
