"""A sweep whose retrained models never learned the retain set decides nothing against them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sweep_folders import MakeSweep

from medunlearn.papers.amnesia.report import report_of
from medunlearn.papers.amnesia.sweep import SizeResults
from medunlearn.reports.claims import FAILS, HOLDS

from .conftest import SEEDS

AGAINST = {"random forgetting", "questions, not notes"}


def destroyed(retain_of_retrained: float) -> Callable[..., float]:
    """A target that knows 0.93, a method that destroys everything, and this of the retrained model on retain."""

    def share(role: str, method: str, side: str, *place: object) -> float:
        if role == "unlearned":
            return 0.04
        if role == "target":
            return 0.93
        return 0.25 if side == "forget" else retain_of_retrained

    return share


@pytest.mark.parametrize(("retain", "decided"), [(0.93, True), (0.38, False)])
def test_findings_against_the_retrained_model(
    make_sweep: MakeSweep, gather: Callable[..., SizeResults], retain: float, decided: bool
) -> None:
    results = gather(make_sweep(shares=destroyed(retain)).all(("random_25",), ("kl_min",), seeds=SEEDS))
    report = report_of(results)
    settled = {
        finding.name
        for finding in report.findings
        if any(case.verdict in (HOLDS, FAILS) for case in finding.cases) and finding.name in AGAINST
    }
    assert bool(settled) == decided
    assert any("retain set" in caveat for caveat in results.caveats) != decided
