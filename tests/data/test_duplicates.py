"""Near-duplicates: overlap worked out by hand, and nothing missed against the plain way."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest

from medunlearn.data.duplicates import ALIKE, Duplicate, Seen, overlap, shingles
from medunlearn.seeds import generator


def near_duplicates(texts: Mapping[str, str], alike: float = ALIKE) -> list[Duplicate]:
    seen = Seen(alike)
    return [duplicate for name, text in texts.items() if (duplicate := seen.take(name, text))]


def test_overlap_by_hand() -> None:
    # abc bcd cde against abc bcd cdx: two of four triples are shared.
    assert overlap("a b c d e", "A, b c d x!") == pytest.approx(2 / 4)
    assert overlap("a b c d", "a b c d") == 1.0
    assert overlap("a b c d", "d c b a") == 0.0
    assert shingles("one two") == {("one", "two")}
    assert overlap("", "") == 1.0


def test_every_close_pair_is_found() -> None:
    """Against all pairs compared one by one."""
    draw = generator("duplicates test")
    texts = {f"t{n}": " ".join(draw.choice(list("abcdef"), size=12)) for n in range(60)}
    kept: list[str] = []
    expected = set()
    for name, text in texts.items():
        if any(overlap(text, texts[other]) >= 0.2 for other in kept):
            expected.add(name)
        else:
            kept.append(name)
    assert {found.name for found in near_duplicates(texts, 0.2)} == expected
    assert 0 < len(expected) < len(texts)
    left = [text for name, text in texts.items() if name not in expected]
    assert all(overlap(one, other) < 0.2 for one, other in combinations(left, 2))


def test_a_copy_with_every_tenth_word_changed_is_one() -> None:
    words = [f"w{n}" for n in range(150)]
    changed = ["other" if place % 10 == 0 else word for place, word in enumerate(words)]
    (found,) = near_duplicates({"a": " ".join(words), "b": "x y z", "c": " ".join(changed)})
    assert (found.name, found.like) == ("c", "a")
    # 148 triples each; a changed word spoils three, at the front fewer: 105 are shared.
    assert found.overlap == pytest.approx(overlap(" ".join(words), " ".join(changed)))
    assert found.overlap > ALIKE


def test_what_was_left_out_hides_nothing() -> None:
    seen = Seen(0.5)
    assert seen.take("a", "p q r s t") is None
    assert seen.take("b", "p q r s u") is not None
    assert seen.take("c", "x q r s u") is None, "like b, which is not there"
