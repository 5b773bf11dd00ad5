"""Attacks that ran alone for the terminal and as JSON: the sections that a report has of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacks, all_families
from medunlearn.attacks.brought_back import BroughtBack, meaning_of_metric
from medunlearn.errors import UnknownNameError
from medunlearn.models.health import banner
from medunlearn.reports.blocks import Block
from medunlearn.reports.content import ModelResult, ReportContent
from medunlearn.reports.view import ResultView


def attacks_view(attacks: Attacks, paper: ResultView) -> ResultView:
    """The section of each family, what brings it back, and attacks without a result.

    Args:
        paper: what only the benchmark's paper has of the attacks.
    """
    together = BroughtBack.of(attacks)

    def blocks() -> Iterator[Block | str | None]:
        for own in attacks.by_family.values():
            yield own.family.report_part(_content(own), own, ()).section
        yield from (*together.view().blocks, *paper.blocks, *attacks.caveats)

    failure = ""
    if failed := attacks.failed:
        reasons = "".join(f"\n  - {model}, {name}: {reason}" for model, name, reason in failed)
        number = "1 attack has" if len(failed) == 1 else f"{len(failed)} attacks have"
        failure = f"{number} no result; the others are kept.{reasons}"
    return ResultView(lambda: _data(attacks, together), blocks(), banner(attacks.problems), failure=failure)


def _data(attacks: Attacks, together: BroughtBack) -> dict[str, Any]:
    """Numbers of every family; empty tables of families without attacks."""
    data: dict[str, Any] = {}
    for family in all_families(model.record for model in attacks.models):
        for key, value in family.payload(attacks.of(family)).items():
            data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    failed = [{"model": model, "attack": name, "reason": reason} for model, name, reason in attacks.failed]
    data |= {"brings_back": together.table, "failed": failed}
    return {**data, "caveats": list(attacks.caveats), "health": attacks.problems}


def _content(attacks: Attacks) -> ReportContent:
    """A report's content with the attacked models alone."""
    models = tuple(
        ModelResult(
            attacked.run.label,
            attacked.run.role,
            attacked.run.info.config.get("method"),
            pd.DataFrame(),
            pd.DataFrame(),
            attacked.run.info.as_dict(),
            tuple(attacks.problems[attacked.run.label]),
        )
        for attacked in attacks.models
    )
    meanings: dict[str, tuple[str, str]] = {}
    for name in map(str, attacks.table()["measure"].unique()):
        try:
            meanings[name] = meaning_of_metric(name)
        except UnknownNameError:
            continue  # a measure of the attack's own, which its section names
    return ReportContent(
        title="Attacks",
        benchmark={},
        split={},
        context="",
        models=models,
        comparisons=pd.DataFrame(),
        examples=(),
        metrics=meanings,
        caveats=(),
        show_text=False,
        reference=attacks.reference,
    )
