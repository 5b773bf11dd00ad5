"""Seeds are the same everywhere and differ by what they are for."""

import hashlib
import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.seeds import generator, stable_seed

parts = st.one_of(st.text(st.sampled_from("ab:\x1fstrint01"), max_size=8), st.integers(-3, 12))
purposes = st.lists(parts, max_size=4).map(tuple)


def by_hand(text: str) -> int:
    """The first 63 bits of a SHA-256."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) // 2


def test_a_seed_is_the_hash_of_its_purpose() -> None:
    assert stable_seed("splits", "patient", 0) == by_hand("str:splits\x1fstr:patient\x1fint:0")
    assert stable_seed("ü") == by_hand("str:ü")
    assert stable_seed() == by_hand("")


def test_another_process_gets_the_same() -> None:
    """Python's own hash of a string would differ."""
    code = "from medunlearn.seeds import *; print(stable_seed('a', 1), generator('a', 1).integers(10**9))"
    for hash_seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed},
        )
        assert process.stdout.split() == [str(stable_seed("a", 1)), str(generator("a", 1).integers(10**9))]


@given(purposes)
def test_a_seed_fits_any_generator(purpose: tuple[str | int, ...]) -> None:
    assert 0 <= stable_seed(*purpose) < 2**63


@given(purposes, purposes)
def test_other_purposes_have_other_seeds(first: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    assert (stable_seed(*first) == stable_seed(*other)) == (first == other)


def test_parts_are_kept_apart() -> None:
    seeds = {
        stable_seed(*purpose)
        for purpose in (
            ("ab", "c"),
            ("a", "bc"),
            ("abc",),
            ("a", "b", "c"),
            ("1",),
            (1,),
            ("a\x1fstr:b",),
            ("a", "b"),
        )
    }
    assert len(seeds) == 8


def test_a_generator_leaves_numpys_own_alone() -> None:
    state = repr(np.random.get_state())
    first = generator("x").random(4)
    assert np.array_equal(first, generator("x").random(4))
    assert not np.array_equal(first, generator("y").random(4))
    assert repr(np.random.get_state()) == state
