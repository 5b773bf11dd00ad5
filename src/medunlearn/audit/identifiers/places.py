"""Which tokens of a response a finding is: its places in characters, counted in the tokens that the model said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from medunlearn.audit.identifiers.findings import COLUMNS, Output
from medunlearn.audit.units import Encoded, Unit, continuations

Key = tuple[str, str, int]
"""Probe, variant, sample."""


@dataclass(frozen=True)
class Tokens:
    """What is known of responses' tokens.

    Attributes:
        unit: what responses are counted in.
        said: the tokens that each response has, by its key; a response that is not there was stored as text alone,
            and has those that its text is cut into.
    """

    unit: Unit
    said: Mapping[Key, Sequence[int]] = field(default_factory=dict)


def with_tokens(findings: pd.DataFrame, outputs: Sequence[Output], tokens: Tokens) -> pd.DataFrame:
    """The findings with ``token`` and ``token_end``: from which token of the response to before which, from 0.

    A model may say a text in other tokens than it is cut into. As far as the two agree, up to the finding's end,
    places are certain; behind that they are left open (null).
    """
    by_key = {(one.probe_id, one.variant, one.sample): one for one in outputs}
    names = ("probe_id", "variant", "sample", "place", "end")
    rows = list(zip(*(findings[name].tolist() for name in names), strict=True))
    keys = list(dict.fromkeys(row[:3] for row in rows))
    asked = [by_key[key] for key in keys]
    cut = continuations(tokens.unit, [one.prefix for one in asked], [one.response for one in asked])
    encoded = dict(zip(keys, cut, strict=True))
    agreeing = {key: _agreeing(one, tokens.said.get(key)) for key, one in encoded.items()}
    found = [_tokens(encoded[row[:3]], row[3], row[4], agreeing[row[:3]]) for row in rows]
    columns = {
        name: pd.Series(
            [None if one is None else one[place] for one in found], dtype=COLUMNS[name], index=findings.index
        )
        for place, name in enumerate(("token", "token_end"))
    }
    return findings.assign(**columns)


def _agreeing(cut: Encoded, said: Sequence[int] | None) -> int:
    """How many tokens from the beginning on are those that the model said."""
    if said is None:
        return len(cut)
    many = min(len(cut), len(said))
    same = cut.ids[:many] == np.asarray(said[:many], dtype=cut.ids.dtype)
    return many if same.all() else int(np.argmin(same))


def _tokens(cut: Encoded, place: int, end: int, agreeing: int) -> tuple[int, int] | None:
    first = int(np.searchsorted(cut.ends, place, side="right"))
    last = int(np.searchsorted(cut.ends, end, side="left")) + 1
    return (first, last) if last <= agreeing else None
