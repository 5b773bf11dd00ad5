"""Rows of the page "what brings it back" of a recovery attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from medunlearn.attacks.attacked import Attacked, Attacks
from medunlearn.attacks.recovery.recovery_interface import RecoveryInterface
from medunlearn.attacks.recovery.recovery_results import (
    compare_strengths,
    reading_of,
    summarize_strengths,
    unless_silent,
)
from medunlearn.attacks.recovery.worst_states import WORST, worst_of
from medunlearn.results.matrix import ALL_KINDS

_GAP = {"difference": "difference", "low": "difference_low", "high": "difference_high", "p": "p"}


def recovered_rows(attack: type[RecoveryInterface], attacks: Attacks) -> pd.DataFrame:
    """Rows of :meth:`~medunlearn.attacks.attack_protocol.AttackFamily.recovered` of a recovery attack."""
    models = attacks.measured_models
    labels = dict.fromkeys(label for model in models for label in model.scores["attack"].astype(str))
    rows = [row for label in labels for row in _rows_of_part(attack, attacks, label)]
    return pd.DataFrame(rows)


def _rows_of_part(attack: type[RecoveryInterface], attacks: Attacks, label: str) -> list[dict[str, Any]]:
    how: dict[str, Any] = {"replicates": attacks.replicates, "seed": attacks.seed}
    models = [model for model in attacks.measured_models if label in set(model.scores["attack"].astype(str))]
    own = {model.run.label: model.scores[model.scores["attack"] == label] for model in models}
    scored = [name for name in attack.headline if all(_has(table, name, attack.side) for table in own.values())]
    states = _shared_states(attack, models, own)
    if not scored or not states:
        return []
    measure = scored[0]
    worst = {name: worst_of(scores, measure, states, attack.before) for name, scores in own.items()}
    references = [model for model in models if model.run.role == "retrained" and not _is_broken(attacks, model)]
    gaps = {
        model.run.label: _gaps(worst, model, references, how) for model in models if model.run.role != "retrained"
    }
    of_target = next((gaps[model.run.label] for model in models if model.run.role == "target"), None)
    rows = []
    for model in models:
        name = model.run.label
        summary = summarize_strengths(worst[name], attack.before, **how)
        line, before = (_line(summary, strength, attack.side) for strength in (WORST, attack.before))
        if line is None:
            continue
        gap = _worst_gap(gaps.get(name, pd.DataFrame()), attack.side)
        may_read = model.run.role == "unlearned" and not _is_broken(attacks, model) and not attacks.undecided
        may_read &= attack.has_readings and not (references and attacks.is_reference_refused)
        word = reading_of(line, gaps[name], attack.before, of_target) if may_read else None
        rows.append(
            {
                "attack": label,
                "title": _title(attack, label),
                "measure": measure,
                "states": len(states),
                "side": attack.side,
                "model": name,
                "role": model.run.role,
                "before": None if before is None else before["value"],
                **{key: line[key] for key in ("value", "low", "high", "n_subjects")},
                "against": None if gap is None else gap["against"],
                **{column: None if gap is None else gap[key] for key, column in _GAP.items()},
                "reading": unless_silent(word, model.facts),
                "reason": None,
            }
        )
    return rows


def _shared_states(
    attack: type[RecoveryInterface], models: Sequence[Attacked], own: dict[str, pd.DataFrame]
) -> list[str]:
    """Labels of the states that every model was measured in; a state in which one answers nothing is left out."""
    measured = [set(own[model.run.label]["strength"].astype(str)) for model in models]
    for model, strengths in zip(models, measured, strict=True):
        label = str(own[model.run.label]["attack"].iloc[0])
        strengths -= {state for state in strengths if f"{label} {state}" in model.facts.get("problems", {})}
    order = list(dict.fromkeys(label for model in models for label in own[model.run.label]["strength"].astype(str)))
    common = set.intersection(*measured) - {attack.before}
    # An attack of one state has no other number than that of the model as it is.
    return [label for label in order if label in common] or ([attack.before] if _only(measured, attack) else [])


def _only(measured: Sequence[set[str]], attack: type[RecoveryInterface]) -> bool:
    return all(strengths == {attack.before} for strengths in measured)


def _gaps(
    worst: dict[str, pd.DataFrame], model: Attacked, references: Sequence[Attacked], how: dict[str, Any]
) -> pd.DataFrame:
    """Differences of a model from each retrained one, before and in the worst state."""
    tables = [
        compare_strengths(worst[model.run.label], worst[other.run.label], **how).assign(against=other.run.label)
        for other in references
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _worst_gap(gaps: pd.DataFrame, side: str) -> dict[str, Any] | None:
    """The difference in the worst state from the retrained model against which the model looks worst."""
    if gaps.empty:
        return None
    worst = gaps[(gaps["strength"] == WORST) & (gaps["kind"] == ALL_KINDS) & (gaps["side"] == side)]
    own = worst.dropna(subset=["difference"])
    rows = own.sort_values("difference").to_dict("records")
    return {str(key): value for key, value in rows[-1].items()} if rows else None


def _line(summary: pd.DataFrame, strength: str, side: str) -> dict[str, Any] | None:
    whole = summary[(summary["kind"] == ALL_KINDS) & (summary["side"] == side)]
    rows = whole[whole["strength"] == strength].to_dict("records")
    return {str(key): value for key, value in rows[0].items()} if rows else None


def _has(scores: pd.DataFrame, measure: str, side: str) -> bool:
    own = scores[(scores["measure"] == measure) & (scores["side"] == side)]
    return bool(own["value"].notna().any())


def _is_broken(attacks: Attacks, model: Attacked) -> bool:
    return bool(attacks.problems[model.run.label])


def _title(attack: type[RecoveryInterface], label: str) -> str:
    part = label.removeprefix(attack.name).removeprefix(".").replace("_", " ")
    return f"{attack.title}, {attack.variant_words} {part}".replace(",  ", ", ") if part else attack.title
