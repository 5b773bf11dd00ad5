"""Near-duplicates: overlap worked out by hand, and nothing missed against the plain way."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest

from medunlearn.data.duplicates import ALIKE, Duplicate, DuplicateIndex, overlap, shingles
from medunlearn.seeds import generator


def near_duplicates(texts: Mapping[str, str], alike: float = ALIKE) -> list[Duplicate]:
    index = DuplicateIndex(alike)
    return [duplicate for name, text in texts.items() if (duplicate := index.add(name, text))]


def test_overlap_by_hand() -> None:
    # abc bcd cde against abc bcd cdx: two of four triples are shared.
    assert overlap("a b c d e", "A, b c d x!") == pytest.approx(2 / 4)
    assert overlap("a b c d", "a b c d") == 1.0
    assert overlap("a b c d", "d c b a") == 0.0
    assert shingles("one two") == {"one two"}
    assert overlap("", "") == 1.0


def test_every_close_pair_is_found() -> None:
    """Against all pairs compared one by one."""
    draw = generator("duplicates test")
    texts = {f"t{n}": " ".join(draw.choice(list("abcdef"), size=12)) for n in range(60)}
    distinct: list[str] = []
    expected = set()
    for name, text in texts.items():
        if any(overlap(text, texts[other]) >= 0.2 for other in distinct):
            expected.add(name)
        else:
            distinct.append(name)
    assert {duplicate.name for duplicate in near_duplicates(texts, 0.2)} == expected
    assert 0 < len(expected) < len(texts)
    assert all(overlap(texts[first], texts[second]) < 0.2 for first, second in combinations(distinct, 2))


def test_a_copy_with_every_tenth_word_changed_is_one() -> None:
    words = [f"w{n}" for n in range(150)]
    changed = ["other" if place % 10 == 0 else word for place, word in enumerate(words)]
    (duplicate,) = near_duplicates({"a": " ".join(words), "b": "x y z", "c": " ".join(changed)})
    assert (duplicate.name, duplicate.like) == ("c", "a")
    # 148 triples each; a changed word spoils three, at the front fewer: 105 are shared.
    assert duplicate.overlap == pytest.approx(overlap(" ".join(words), " ".join(changed)))
    assert duplicate.overlap > ALIKE


def test_texts_that_share_their_wording_are_not_all_compared() -> None:
    """Templates of 30 words with 40 words of their own: nobody's rarest triples are those of the template."""
    template, index = " ".join(f"t{n}" for n in range(30)), DuplicateIndex()
    for number in range(300):
        assert index.add(str(number), f"{template} {' '.join(f'w{number}x{n}' for n in range(40))}") is None
    assert max(map(len, index._holders.values())) == 1, "common wording is not listed"
    copy = f"{template} {' '.join(f'w7x{n}' for n in range(38))}"
    known = sorted((index._numbers[shingle] for shingle in shingles(copy)), reverse=True)
    assert index._comparable(known, len(known)) == [7], "of 300 texts one is compared"
    assert index.add("copy", copy) == Duplicate("copy", "7", 66 / 68)


def test_what_was_left_out_hides_nothing() -> None:
    index = DuplicateIndex(0.5)
    assert index.add("a", "p q r s t") is None
    assert index.add("b", "p q r s u") is not None
    assert index.add("c", "x q r s u") is None, "like b, which is not there"
