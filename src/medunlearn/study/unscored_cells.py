"""Models of a study that a requested measure scored nothing of: they count as failed, though the rest is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from medunlearn.config import AttackSettings, EvaluateSettings
from medunlearn.metrics import distinct_metrics
from medunlearn.metrics.unscored import REMEDY, unscored_measures
from medunlearn.probes.score import DEFAULT
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.results.scores import FILE, read_outcomes


def unscored_cells(
    evaluated: Mapping[str, Evaluated],
    evaluate: EvaluateSettings,
    attacks: Iterable[Run] = (),
    attack: AttackSettings | None = None,
) -> tuple[tuple[str, str], ...]:
    """Name of each evaluation or attack and the reason, for every measure that scored nothing there.

    Args:
        evaluated: name -> evaluation.
        attacks: complete attacks.
    """
    tables = {name: read_outcomes(model.record.folder) for name, model in evaluated.items()}
    requested = distinct_metrics(name for name in evaluate.metrics if name != DEFAULT)
    broken = [name for name, model in evaluated.items() if model.record.info.problems]
    problems = unscored_measures(tables, requested, broken=broken)
    if attack is not None:
        scored = {
            f"{run.label} attacked, {run.folder.name}": run for run in attacks if (run.folder / FILE).exists()
        }
        tables = {name: read_outcomes(run.folder) for name, run in scored.items()}
        broken = [name for name, run in scored.items() if run.info.problems]
        problems += unscored_measures(tables, distinct_metrics(attack.more_measures), broken=broken)
    return tuple((name, f"{reason} {REMEDY}") for name, reason in problems)
