"""Each attack on tokens worked out by hand; reasons of unscored passages; names and settings."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import numpy as np
import pytest

from medunlearn.attacks import ATTACKS, attack_class, expand, families, families_of, make_attack
from medunlearn.attacks.membership.likelihood_attacks import mean_of_lowest
from medunlearn.attacks.membership.passage import Passage, lacking
from medunlearn.errors import ConfigError, InputError, UnknownNameError

HALF, TENTH, FIFTH, LIKELY = math.log(0.5), math.log(0.1), math.log(0.2), math.log(0.9)
TOKENS = np.array([HALF, TENTH, LIKELY, FIFTH, HALF])
LOSS = math.log(0.5 * 0.1 * 0.9 * 0.2 * 0.5) / 5


def passage(**more: object) -> Passage:
    return Passage("a" * 24, TOKENS, **more)  # type: ignore[arg-type]


def score(name: str, seen: Passage, **arguments: float) -> float:
    value = make_attack(name, arguments).score(seen).value
    assert value is not None
    return float(value)


def test_loss_and_zlib() -> None:
    assert score("loss", passage()) == pytest.approx(LOSS)
    assert score("zlib", passage()) == pytest.approx(LOSS / len(zlib.compress(b"a" * 24)))
    # The same loss on a text that says more counts as more of a member.
    assert score("zlib", Passage("sphinx of black quartz, judge my vow", TOKENS)) > score("zlib", passage())


@pytest.mark.parametrize(
    ("k", "lowest"),
    [
        *((0.2, [TENTH]), (0.4, [TENTH, FIFTH]), (0.59, [TENTH, FIFTH]), (0.6, [TENTH, FIFTH, HALF])),
        *((0.01, [TENTH]), (1.0, TOKENS.tolist())),
    ],
)
def test_min_k_is_the_mean_of_the_least_likely(k: float, lowest: list[float]) -> None:
    assert score("min_k", passage(), k=k) == pytest.approx(sum(lowest) / len(lowest))


def test_min_k_without_eos_by_hand() -> None:
    # The last of TOKENS is the EOS. Of the other four, 40% are one token whole and 50% are two.
    assert score("min_k.muse", passage()) == pytest.approx(TENTH)
    assert score("min_k", passage(), k=0.5, eos=False) == pytest.approx((TENTH + FIFTH) / 2)
    surprised = Passage("a", np.array([HALF, TENTH, FIFTH, HALF, LIKELY, math.log(0.001)]))
    assert score("min_k", surprised, k=0.4) == pytest.approx((math.log(0.001) + TENTH) / 2)
    assert score("min_k.muse", surprised) == pytest.approx((TENTH + FIFTH) / 2)
    told = passage(means=np.zeros(5), variances=np.ones(5))
    assert score("min_k_pp", told, k=1.0, eos=False) == pytest.approx(TOKENS[:4].mean())
    assert make_attack("min_k.muse", {}).score(Passage("", TOKENS[:1])).reason == "the document is nothing but EOS"


@pytest.mark.parametrize(("share", "n", "count"), [(0.2, 15, 3), (0.29, 100, 29), (0.3, 10, 3), (0.1, 5, 1)])
def test_shares_are_counted_without_rounding_errors(share: float, n: int, count: int) -> None:
    assert mean_of_lowest(np.arange(n, dtype=float), share) == pytest.approx((count - 1) / 2)


def test_recall_by_hand() -> None:
    """Behind others the mean falls from LOSS to twice that; a document said with certainty has no mean of 0."""
    assert score("conditional_ratio", passage(conditional=2 * LOSS)) == pytest.approx(2.0)
    assert score("conditional_ratio", Passage("a", np.zeros(3), conditional=-1e-5)) == pytest.approx(10.0)
    assert lacking(make_attack("conditional_ratio", {}), passage()) is not None


def test_min_k_pp_by_hand() -> None:
    """Two places. In the first the model draws from (1/2, 1/2): no spread, and its token is as expected: 0. In the
    second from (0.8, 0.2): mean 0.8 log 0.8 + 0.2 log 0.2, and the token of 0.2 lies two deviations below it.
    """
    mean = 0.8 * math.log(0.8) + 0.2 * math.log(0.2)
    variance = 0.8 * (math.log(0.8) - mean) ** 2 + 0.2 * (math.log(0.2) - mean) ** 2
    assert (math.log(0.2) - mean) / math.sqrt(variance) == pytest.approx(-2.0)
    seen = Passage("x", np.array([HALF, math.log(0.2)]), np.array([HALF, mean]), np.array([0.0, variance]))
    assert score("min_k_pp", seen, k=0.5) == pytest.approx(-2.0)
    assert score("min_k_pp", seen, k=1.0) == pytest.approx(-1.0)


def test_reference_and_gradient_norm() -> None:
    """The reference gives each token a tenth: the text is 5 log 0.1 likely to it."""
    assert score("reference", passage(reference=5 * TENTH)) == pytest.approx(TOKENS.mean() - TENTH)
    assert score("gradient_norm", passage(gradient_norm=2.5)) == -2.5


@pytest.mark.parametrize(
    ("name", "seen", "reason"),
    [
        ("reference", passage(), "--reference FOLDER"),
        ("gradient_norm", passage(), "gradient"),
        ("min_k_pp", passage(), "distributions"),
        ("loss", Passage("x", np.array([])), "single token"),
        ("loss", Passage("x", np.array([HALF, np.nan])), "NaN"),
    ],
)
def test_a_missing_input_has_a_reason(name: str, seen: Passage, reason: str) -> None:
    assert reason in str(lacking(make_attack(name, {}), seen))
    assert lacking(make_attack("loss", {}), passage()) is None


def names_of(*requested: str) -> list[str]:
    return [family.name for family in families_of(requested)]


def test_attacks_are_found_by_name_and_family() -> None:
    members = {name for name in ATTACKS if attack_class(name).family.name == "membership"}
    own = tuple(name for name in ATTACKS if name in members and "." not in name)
    assert expand(["membership"]) == own, "published variants are named one by one"
    assert expand(["min_k.muse", "loss"]) == ("min_k.muse", "loss")
    assert attack_class("min_k.muse").variant == "MUSE's code"
    assert expand(["reconstruction"]) == ("cumulative",)
    assert expand(["min_k", "loss", "min_k"]) == ("min_k", "loss")
    assert names_of("reconstruction", "loss") == ["membership", "reconstruction"]
    recovery = [name for name in ATTACKS if name not in members and name != "cumulative"]
    assert [names_of(name) for name in recovery] == [[name] for name in recovery]
    assert list(families()) == ["membership", "reconstruction", *recovery]
    for name in ATTACKS:
        cls = attack_class(name)
        assert cls.name == name
        assert cls.title
        assert cls.question.startswith("whether ")
        assert cls.source
        assert "Source:" in (cls.__doc__ or "")
    with pytest.raises(UnknownNameError, match="Did you mean 'membership'"):
        expand(["membershp"])
    with pytest.raises(InputError, match="has no family"):
        expand(["os:path"])


@pytest.mark.parametrize(
    ("name", "arguments", "error", "words"),
    [
        *(("min_k", {"k": k}, ConfigError, r"min_k\.k must be above 0 and at most 1") for k in (0.0, -0.1, 1.5)),
        ("min_k_pp", {"k": 1.5}, ConfigError, r"min_k_pp\.k must be above 0"),
        ("min_k", {"q": 1}, ConfigError, "no min_k setting 'q'"),
        ("cumulative", {"sides": "all"}, ConfigError, "sides must be forget or retain or both"),
        ("cumulative", {"context": "open"}, ConfigError, "context"),
    ],
)
def test_wrong_settings_are_refused(name: str, arguments: dict[str, object], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        make_attack(name, arguments)


OUTSIDE = """
from dataclasses import dataclass
from medunlearn.attacks.membership.membership_attack import MembershipAttack
from medunlearn.metrics.measure import Score

@dataclass(frozen=True)
class Longest(MembershipAttack):
    name = "longest"
    title = "Longest"
    source = "nobody"

    def score(self, passage):
        return Score(float(len(passage.text)))


class Mute(MembershipAttack):
    name = "mute/../loss"
    source = "nobody"


class Loss(Longest):
    name = "loss"


class Old:
    kind = "membership"
    title = "Old"
    source = "nobody"
"""


def test_an_attack_from_outside_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside_attack.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    assert score("outside_attack:Longest", passage()) == 24.0
    assert names_of("outside_attack:Longest", "sampling") == ["membership", "sampling"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Mute", r"lacks name \(text of letters.* and title \(text.* and score\(self, passage: Passage\) -> Score"),
        ("Loss", "is named 'loss', as medunlearn's own"),
        ("Old", "has no family.*MembershipAttack"),
        ("Nobody", "cannot be imported"),
    ],
)
def test_an_object_that_is_no_attack_says_what_it_lacks(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside_parts.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=words):
        attack_class(f"outside_parts:{name}")


def test_a_module_that_raises_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raising_attack.py").write_text("raise RuntimeError('no licence\\nfound')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"cannot be imported: RuntimeError: no licence\. Is its package"):
        attack_class("raising_attack:Noise")
