"""Rescore the stored responses of an audit, without asking its model. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.measures import GIVEN, LIKELIHOODS
from medunlearn.audit.stored_items import StoredItems
from medunlearn.data.folder_lock import lock_folder
from medunlearn.errors import ConfigError
from medunlearn.metrics import distinct_metrics, get_metric, named_measures, own_measures, requested_measures
from medunlearn.metrics.item_scoring import scores_by_measure
from medunlearn.metrics.needs import need_problems
from medunlearn.metrics.unscored import refuse_unscored
from medunlearn.models.health import refuse_broken
from medunlearn.results.scores import read_outcomes, replace_scores


def score_audit(folder: Path, requested: Sequence[str] = (), *, allow_broken: bool = False) -> Audit:
    """Rescore the stored responses of an audit, and of the baselines inside its folder.

    Rows of these measures are replaced, others stay.

    Args:
        requested: names of measures; none for those of the audit that need no further model.

    Raises:
        InputError: the folder holds no complete audit.
        UnknownNameError: no such measure.
        ConfigError: a measure that needs what stored responses do not give.
        ModelError: a broken model, unless ``allow_broken``.
        MedunlearnError: a requested measure scored nothing.
    """
    result = Audit.open(folder)
    info = result.run.info
    recorded = [str(name) for name in info.inputs["measures"]]
    names = list(distinct_metrics(named_measures(requested, recorded, info.own_measures)).values())
    given = GIVEN | LIKELIHOODS
    if problems := need_problems(map(get_metric, names), given, given, {}, "scoring an audit again"):
        raise ConfigError([f"measures: {problem}" for problem in problems])
    for audit in (result, *result.baselines):
        if audit.run.folder.is_relative_to(result.run.folder):
            _score(audit, names)
    result = Audit.open(folder)
    refuse_broken(result.problems, allowed=allow_broken)
    table = read_outcomes(folder)
    scored = table[table["measure"].isin([*distinct_metrics(names)])]
    refuse_unscored({info.label: scored}, requested_measures(requested, names))
    return result


def _score(audit: Audit, names: Sequence[str]) -> None:
    folder, info = audit.run.folder, audit.run.info
    with lock_folder(folder, "score"):
        stored = StoredItems.read(folder)
        scores = scores_by_measure(stored.items, [get_metric(name) for name in names])
        replace_scores(folder, stored.rows(scores), measure=list(scores))
        info.results["own_measures"] = {**info.own_measures, **own_measures(names)}
        info.with_tables(folder).write(folder)
