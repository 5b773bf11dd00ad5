"""Each attack on tokens worked out by hand; what cannot be scored has a reason."""

from __future__ import annotations

import math
import zlib

import numpy as np
import pytest

from medunlearn.attacks import ATTACKS, KINDS, attack_class, expand, make_attack
from medunlearn.attacks.membership.min_k import mean_of_lowest
from medunlearn.attacks.protocol import Passage, lacking
from medunlearn.errors import ConfigError, InputError, UnknownNameError

HALF, TENTH, FIFTH, LIKELY = math.log(0.5), math.log(0.1), math.log(0.2), math.log(0.9)
TOKENS = np.array([HALF, TENTH, LIKELY, FIFTH, HALF])


def passage(**more: object) -> Passage:
    return Passage("aaaaaaaaaaaaaaaaaaaaaaaa", TOKENS, **more)  # type: ignore[arg-type]


def score(name: str, seen: Passage, **arguments: float) -> float:
    value = make_attack(name, arguments).score(seen).value
    assert value is not None
    return float(value)


def test_loss_is_the_mean_log_probability() -> None:
    assert score("loss", passage()) == pytest.approx(math.log(0.5 * 0.1 * 0.9 * 0.2 * 0.5) / 5)


def test_zlib_divides_by_the_compressed_length() -> None:
    short = len(zlib.compress(b"a" * 24))
    assert short < 24
    assert score("zlib", passage()) == pytest.approx(score("loss", passage()) / short)
    # The same loss on a text that says more counts as more of a member.
    varied = Passage("sphinx of black quartz, judge my vow", TOKENS)
    assert score("zlib", varied) > score("zlib", passage())


@pytest.mark.parametrize(
    ("k", "lowest"),
    [(0.2, [TENTH]), (0.4, [TENTH, FIFTH]), (0.59, [TENTH, FIFTH]), (0.6, [TENTH, FIFTH, HALF]), (0.01, [TENTH])],
)
def test_min_k_is_the_mean_of_the_least_likely(k: float, lowest: list[float]) -> None:
    assert score("min_k", passage(), k=k) == pytest.approx(sum(lowest) / len(lowest))


def test_min_k_of_all_tokens_is_the_loss() -> None:
    assert score("min_k", passage(), k=1.0) == pytest.approx(score("loss", passage()))


@pytest.mark.parametrize(("share", "n", "count"), [(0.2, 15, 3), (0.29, 100, 29), (0.3, 10, 3), (0.1, 5, 1)])
def test_shares_are_counted_without_rounding_errors(share: float, n: int, count: int) -> None:
    values = np.arange(n, dtype=float)
    assert mean_of_lowest(values, share) == pytest.approx((count - 1) / 2)


def test_min_k_pp_by_hand() -> None:
    """Two places. In the first the model draws from (1/2, 1/2): no spread, and its token is as expected: 0. In the
    second from (0.8, 0.2): mean 0.8 log 0.8 + 0.2 log 0.2, and the token of 0.2 lies two deviations below it.
    """
    mean = 0.8 * math.log(0.8) + 0.2 * math.log(0.2)
    variance = 0.8 * (math.log(0.8) - mean) ** 2 + 0.2 * (math.log(0.2) - mean) ** 2
    expected = (math.log(0.2) - mean) / math.sqrt(variance)
    assert expected == pytest.approx(-2.0)
    seen = Passage("x", np.array([HALF, math.log(0.2)]), np.array([HALF, mean]), np.array([0.0, variance]))
    assert score("min_k_pp", seen, k=0.5) == pytest.approx(-2.0)
    assert score("min_k_pp", seen, k=1.0) == pytest.approx(-1.0)


def test_reference_is_the_difference_of_losses() -> None:
    """The reference gives each token a tenth: the text is 5 log 0.1 likely to it."""
    seen = passage(reference=5 * TENTH)
    assert score("reference", seen) == pytest.approx(TOKENS.mean() - TENTH)


def test_gradient_norm_is_smaller_for_members() -> None:
    assert score("gradient_norm", passage(gradient_norm=2.5)) == -2.5


def test_what_is_lacking_is_said() -> None:
    assert "--reference FOLDER" in str(lacking(make_attack("reference", {}), passage()))
    assert "gradient" in str(lacking(make_attack("gradient_norm", {}), passage()))
    assert "distributions" in str(lacking(make_attack("min_k_pp", {}), passage()))
    assert lacking(make_attack("loss", {}), passage()) is None
    assert "single token" in str(lacking(make_attack("loss", {}), Passage("x", np.array([]))))
    assert "NaN" in str(lacking(make_attack("loss", {}), Passage("x", np.array([HALF, np.nan]))))


def test_attacks_are_found_by_name_and_kind() -> None:
    assert expand(["membership"]) == tuple(name for name in ATTACKS if attack_class(name).kind == "membership")
    assert {*expand(["membership"]), *expand(["reconstruction"])} == {*ATTACKS}
    assert expand(["min_k", "loss", "min_k"]) == ("min_k", "loss")
    for name in ATTACKS:
        cls = attack_class(name)
        assert cls.kind in KINDS
        assert cls.source
        assert "Source:" in (cls.__doc__ or "")
    with pytest.raises(UnknownNameError, match="Did you mean 'membership'"):
        expand(["membershp"])
    with pytest.raises(InputError, match="class attribute kind"):
        expand(["os:path"])


@pytest.mark.parametrize("k", [0.0, -0.1, 1.5])
@pytest.mark.parametrize("name", ["min_k", "min_k_pp"])
def test_a_share_is_a_share(name: str, k: float) -> None:
    with pytest.raises(InputError, match=r"20% is 0\.2"):
        make_attack(name, {"k": k})


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="no min_k setting 'q'"):
        make_attack("min_k", {"q": 1})


def test_an_attack_from_outside_the_tree(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside_attack.py").write_text(  # type: ignore[operator]
        "from dataclasses import dataclass\n"
        "from medunlearn.metrics.base import Score\n"
        "@dataclass(frozen=True)\n"
        "class Longest:\n"
        "    kind = 'membership'\n"
        "    title = 'Longest'\n"
        "    source = 'nobody'\n"
        "    needs = ()\n"
        "    def score(self, passage):\n"
        "        return Score(float(len(passage.text)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert score("outside_attack:Longest", passage()) == 24.0
