"""All runs that two texts share, each as long as it goes, with its places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from medunlearn.audit.tokens import Ids, Tokens, as_ids, as_text, may_share
from medunlearn.audit.verbatim import RUN_LENGTHS, Run
from medunlearn.errors import InputError

_AT_ONCE = 64


def shared_runs(
    responses: Sequence[Tokens], suffixes: Sequence[Tokens], at_least: int = RUN_LENGTHS[0]
) -> list[list[Run]]:
    """Every maximal run of at least so many tokens that a pair shares; a list a pair, in the response's order.

    Maximal: the tokens before it differ, or one of the texts begins there, and so behind it. What stands at several
    places of either text is a run for each two of them.

    Raises:
        InputError: not as many responses as suffixes, ``at_least`` below 1, something that is no token id.
    """
    if len(responses) != len(suffixes):
        raise InputError(f"{len(responses)} responses for {len(suffixes)} suffixes: give one suffix a response.")
    if at_least < 1:
        raise InputError(f"a run of {at_least} tokens is none: ask for at least 1.")
    found: list[list[Run]] = [[] for _ in responses]
    for start in range(0, len(responses), _AT_ONCE):
        said, true = (as_ids(side[start : start + _AT_ONCE]) for side in (responses, suffixes))
        for row in np.flatnonzero(may_share(said, true, at_least)).tolist():
            found[start + row] = sorted(
                _runs(said[row], true[row], at_least), key=lambda run: (run.in_response, run.in_suffix)
            )
    return found


def _runs(said: Ids, true: Ids, at_least: int) -> Iterator[Run]:
    text, other = as_text(said), as_text(true)
    starts: dict[str, list[int]] = defaultdict(list)
    for place in range(len(text) - at_least + 1):
        starts[text[place : place + at_least]].append(place)
    for in_suffix in range(len(other) - at_least + 1):
        for in_response in starts.get(other[in_suffix : in_suffix + at_least], ()):
            if in_suffix and in_response and other[in_suffix - 1] == text[in_response - 1]:
                continue
            yield Run(
                at_least + _further(said, true, in_response + at_least, in_suffix + at_least),
                in_response,
                in_suffix,
            )


def _further(said: Ids, true: Ids, in_response: int, in_suffix: int) -> int:
    """How many tokens the texts share from two places on."""
    one, other = said[in_response:], true[in_suffix:]
    length = min(len(one), len(other))
    differs = np.flatnonzero(one[:length] != other[:length])
    return int(differs[0]) if len(differs) else length
