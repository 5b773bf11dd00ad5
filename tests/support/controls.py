"""The two control tests of every paper's claims (DESIGN, section 3).

A paper gives its claims on results in which every unlearned model equals the target, and on results in which every
unlearned model equals the retrained one::

    def test_controls() -> None:
        check_controls(nothing=claims(unlearned=target), everything=claims(unlearned=retrained), ...)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from medunlearn.reports.claims import HOLDS, Case, Finding


def of_method(findings: Iterable[Finding], method: str) -> dict[str, Finding]:
    """The findings with the cases of one method alone, by name."""

    def is_own(case: Case) -> bool:
        return case.labels["method"] == method

    return {f.name: replace(f, cases=tuple(filter(is_own, f.cases))) for f in findings}


def check_controls(
    *,
    nothing: Iterable[Finding],
    everything: Iterable[Finding],
    premises: Collection[str] = (),
    success: Collection[str] = (),
) -> None:
    """Fail where a claim holds of a model that did nothing, or a claim about success not of one that did all.

    Args:
        nothing: findings where the unlearned models are the target.
        everything: findings where the unlearned models are the retrained one.
        premises: names of claims about the target alone, which unlearning cannot change.
        success: names of claims that say that unlearning works.
    """
    idle = {finding.name: finding.verdict for finding in nothing}
    perfect = {finding.name: finding.verdict for finding in everything}
    assert set(premises) | set(success) <= set(idle) == set(perfect), "a name that is no finding's"
    forced = {name for name, verdict in idle.items() if verdict == HOLDS and name not in premises}
    assert not forced, f"hold of a model that did nothing: {sorted(forced)}"
    missed = {name for name in success if perfect[name] != HOLDS}
    assert not missed, f"do not hold of a model that forgot everything: {sorted(missed)}"
