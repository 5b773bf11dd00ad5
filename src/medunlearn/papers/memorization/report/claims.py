"""The memorization paper's findings as claims on the user's audits, declared in ``claims.yaml``.

A case is decided only by an interval that excludes its threshold. Claims about memorized text are decided only for
models that repeat more than their baselines, since text that a baseline repeats too was not memorized in training.
A model without a baseline gets no verdict.

Source: Memorization in Large Language Models in Medicine, Sections 4.1 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medunlearn.audit.screen_blocks import answers
from medunlearn.papers.memorization.report.content import (
    GREEDY,
    PRIMARY,
    AuditContent,
    Row,
    epoch_values,
    evidence_of,
    is_memorization,
    least_loss,
    prefix_words,
)
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.claims import (
    FAILS,
    HOLDS,
    NOT_MEASURABLE,
    OPEN,
    Case,
    Evidence,
    Finding,
    Verdict,
    settle,
    verdicts,
    without_broken,
)
from medunlearn.reports.readings import number
from medunlearn.reports.view import ResultView

HELD_OUT = ("(held out)", "(holdout)")
"""Mark of a measure on records that no model is trained on, in a table of epochs."""
LITTLE_SHARE = 0.2
"""A decoding that moves a ratio by no more than a fifth of it has little effect."""
SAME_AS_GREEDY = ("top_k_1", "top_k=1")

_NO_MORE = "repeats no more than its baseline"
_NO_BASELINE = "no baseline was named, so what it repeats cannot be called memorized"


def findings(content: AuditContent) -> tuple[Finding, ...]:
    """Every claim with its cases, in the paper's order; cases with a broken model are open."""
    special = {"decoding": decoding_cases, "before overfitting": epoch_cases}

    def broken(case: Case, context: str) -> str:
        # A case is named by one model, or by two with a sign between them.
        names = (case.labels["model"], *re.split(" [−→] ", case.labels["model"]))
        return next(
            (f"{name}: {'; '.join(content.problems[name])}" for name in names if name in content.problems), ""
        )

    every = (
        Finding(
            cases=tuple(_cases(content, claim["cases"]) if "cases" in claim else special[claim["name"]](content)),
            **{name: claim[name] for name in ("name", "claim", "rule", "published", "needs")},
        )
        for claim in paper_yaml("memorization", "claims")
    )
    return without_broken(every, broken)


def _cases(content: AuditContent, rule: Mapping[str, Any]) -> Iterator[Case]:
    """One case per row of the claim's table."""
    guard, minus = rule.get("memorizes"), rule.get("minus", 0.0)
    for row in filter(content.tells_of_training, content.rows(rule["table"], **rule["where"])):
        labels = {"model": rule["model"].format_map(row), "where": _place(row, rule.get("place"))}
        if number(row[rule["column"]]) is None:
            reason = row.get("reason")
            yield Case(labels, NOT_MEASURABLE, reason if isinstance(reason, str) else "unscored")
            continue
        evidence = evidence_of(rule["evidence"].format_map(row), row, rule["column"], minus)
        case = _case_of(labels, evidence, rule["says"], below=rule.get("below", False))
        prefix = number(row["prefix_tokens"]) if guard else None
        yield (
            _open_unless_memorizing(case, memorizes(content, row[guard], row["corpus"], prefix)) if guard else case
        )


def _case_of(labels: Mapping[str, str], evidence: Evidence, says: list[str], *, below: bool = False) -> Case:
    verdict = settle([evidence], "below" if below else "above")
    words = dict(zip((HOLDS, FAILS, OPEN), says, strict=True))
    return Case(labels, verdict, words.get(verdict, evidence.reason or "too few subjects"), (evidence,))


def _open_unless_memorizing(case: Case, memorizing: bool | None) -> Case:
    """The case, set to open if the model memorizes nothing, or if that is unknown."""
    if memorizing is None:
        return replace(case, verdict=NOT_MEASURABLE, says=_NO_BASELINE)
    return case if memorizing else replace(case, verdict=OPEN, says=_NO_MORE)


def _place(row: Row, template: str | None = None) -> str:
    if template is not None:
        return template.format_map(row)
    prefix = number(row["prefix_tokens"])
    return row["corpus"] if prefix is None else f"{row['corpus']}, {prefix_words(prefix)}"


def is_trained(content: AuditContent, label: str) -> bool:
    """True if a model is not only a baseline of others."""
    return label not in content.baselines or any(
        model.label == label and model.baselines for model in content.models
    )


def memorizes(content: AuditContent, label: str, corpus: str, prefix: float | None) -> bool | None:
    """True if a model repeats more than each of its baselines; None for a model without baselines.

    Args:
        prefix: prefix length; None: any.
    """
    place = {"model": label, "corpus": corpus, "measure": PRIMARY, "decoding": GREEDY}
    above: dict[int, list[bool | None]] = {}
    for row in content.rows("differences", relation="baseline", **place):
        if prefix in (None, row["prefix_tokens"]):
            above.setdefault(row["prefix_tokens"], []).append(evidence_of("", row, "difference").above)
    return any(map(all, above.values())) if above else None


def decoding_cases(content: AuditContent) -> Iterator[Case]:
    """One case per decoding: whether its whole difference from greedy is within a margin."""
    for row in content.rows("differences", relation="decoding", measure=PRIMARY):
        model, corpus, prefix = row["model"], row["corpus"], row["prefix_tokens"]
        if not is_trained(content, model) or not content.tells_of_training(row):
            continue
        greedy = content.ratio(model, corpus, prefix, PRIMARY)
        margin = LITTLE_SHARE * ((None if greedy is None else number(greedy["value"])) or 0.0)
        name = f"{PRIMARY}, {row['decoding']} − greedy (margin {margin:.3f})"
        evidence = evidence_of(name, row, "difference")
        labels = {"model": model, "where": f"{_place(row)}, {row['decoding']}"}
        if row["decoding"] in SAME_AS_GREEDY:
            yield Case(labels, NOT_MEASURABLE, "top-1 decoding is greedy")
        else:
            case = Case(labels, *_within(evidence, margin), (evidence,))
            yield _open_unless_memorizing(case, memorizes(content, model, corpus, prefix))


def _within(evidence: Evidence, margin: float) -> tuple[Verdict, str]:
    if not evidence.measured or evidence.low is None or evidence.high is None:
        return NOT_MEASURABLE, "no interval"
    if -margin <= evidence.low and evidence.high <= margin:
        return HOLDS, "little effect"
    if evidence.low > margin or evidence.high < -margin:
        return FAILS, "more than little"
    return OPEN, "the interval crosses the margin"


def epoch_cases(content: AuditContent) -> Iterator[Case]:
    """One case per measure of memorization: whether it has risen by the epoch of lowest validation loss.

    Measures on held-out texts are marked ``(held out)`` and are not cases: the measure on training texts must
    exceed them.
    """
    least, lines = least_loss(content), epoch_values(content)
    by_epoch = {
        name: {int(epoch): tuple(edges) for epoch, *edges in points}
        for name, points in lines.items()
        if is_memorization(name)
    }
    for measure, values in by_epoch.items() if least is not None else ():
        if measure.endswith(")"):
            continue
        first = min(values)
        labels = {"model": measure, "where": f"epochs {first} to {least}"}
        if first == least:
            yield Case(labels, OPEN, "the least loss is at the first epoch")
        elif least not in values:
            yield Case(labels, NOT_MEASURABLE, f"epoch {least} has no value")
        else:
            evidence = _apart(f"epoch {least} minus epoch {first}", values[first], values[least])
            case = _case_of(labels, evidence, ["has risen", "has fallen", "the intervals overlap"])
            held_out = [by_epoch[name][least] for name in _held_out(measure) if least in by_epoch.get(name, ())]
            yield _beyond_held_out(case, held_out, values[least])


def _held_out(measure: str) -> list[str]:
    return [f"{measure} {fold}" for fold in HELD_OUT]


def _beyond_held_out(
    case: Case, held_out: Sequence[tuple[float | None, ...]], values: tuple[float | None, ...]
) -> Case:
    """The case, set to open if held-out records are repeated as much, or if there are none."""
    if case.verdict != HOLDS:
        return case
    if not held_out:
        return replace(case, verdict=OPEN, says="has risen; no held-out records say whether that is shared wording")
    gaps = tuple(_apart("training minus held-out records", edges, values) for edges in held_out)
    case = replace(case, evidence=(*case.evidence, *gaps))
    if all(gap.above for gap in gaps):
        return case
    return replace(case, verdict=OPEN, says="has risen, but held-out records come back as much or nearly")


def _apart(name: str, before: tuple[float | None, ...], after: tuple[float | None, ...]) -> Evidence:
    """After minus before, between the outer ends of both intervals: wider than a paired interval."""
    (value, low, high), (later, later_low, later_high) = before, after
    change = None if value is None or later is None else later - value
    if low is None or high is None or later_low is None or later_high is None:
        return Evidence(name, change, reason="no interval")
    return Evidence(name, change, later_low - high, later_high - low)


def audit_view(content: AuditContent) -> ResultView:
    """Each model's answer, and the findings, for the terminal."""
    claims = findings(content)
    cases = [f"{claim.verdict}: {claim.claim} {claim.summary}" for claim in claims if claim.cases]
    rows = [
        verdict | {str(name): n for name, n in claim.counts.items()}
        for verdict, claim in zip(verdicts(claims), claims, strict=True)
    ]
    data: dict[str, Any] = {"first_screens": [screen.data() for screen in content.screens], "findings": rows}
    data |= {"broken": list(content.broken)} if content.broken else {}
    return ResultView(data, [*answers(content.screens), *cases], content.broken)
