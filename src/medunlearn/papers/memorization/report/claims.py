"""The memorization paper's findings as claims on one's own audits, and advice; YAML files declare both.

A case is decided only by an interval that leaves its threshold out. Claims about memorized text are decided only of
models that repeat more than their baselines: what a baseline repeats, too, was not memorized in training.

Source: Memorization in Large Language Models in Medicine, Sections 4.1 to 4.3 and 5, Figure 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.papers.memorization.declared import declared
from medunlearn.papers.memorization.report.content import GREEDY, PRIMARY, AuditContent, Row, evidence_of
from medunlearn.papers.memorization.report.drawing import Point, point
from medunlearn.reports.claims import FAILS, HOLDS, NOT_MEASURABLE, OPEN, Case, Evidence, Finding, Verdict, settle
from medunlearn.reports.formatting import count
from medunlearn.reports.readings import number

LOSS = "validation loss"
LITTLE_SHARE, LITTLE_POINTS = 0.2, 0.01
"""A decoding that moves a ratio by no more than a fifth of it, or by one point, has little effect."""

_NO_MORE = "repeats no more than its baseline"


def findings(content: AuditContent) -> tuple[Finding, ...]:
    """Every claim with its cases, in the paper's order."""
    special = {"decoding": decoding_cases, "before overfitting": epoch_cases}
    return tuple(
        Finding(
            cases=tuple(_cases(content, claim["cases"]) if "cases" in claim else special[claim["name"]](content)),
            **{name: claim[name] for name in ("name", "claim", "rule", "published", "needs")},
        )
        for claim in declared("claims")
    )


def _cases(content: AuditContent, rule: Mapping[str, Any]) -> Iterator[Case]:
    """A case a row of the table that a claim is about."""
    guard, minus = rule.get("memorizes"), rule.get("minus", 0.0)
    for row in content.rows(rule["table"], **rule["where"]):
        if rule.get("trained") and not _trained(content, row["model"]):
            continue
        labels = {"model": rule["model"].format_map(row), "where": _place(row, rule.get("place"))}
        if minus and number(row[rule["column"]]) is None:
            yield Case(labels, NOT_MEASURABLE, str(row["reason"]))
            continue
        evidence = evidence_of(rule["evidence"].format_map(row), row, rule["column"], minus)
        if guard and not _memorizes(content, row[guard], row["corpus"], number(row["prefix_tokens"])):
            yield Case(labels, OPEN, _NO_MORE, (evidence,))
        else:
            yield _settled(labels, evidence, rule["says"], below=rule.get("below", False))


def _settled(labels: Mapping[str, str], evidence: Evidence, says: list[str], *, below: bool = False) -> Case:
    verdict = settle([evidence], "below" if below else "above")
    words = dict(zip((HOLDS, FAILS, OPEN), says, strict=True))
    return Case(labels, verdict, words.get(verdict, evidence.reason or "too few subjects"), (evidence,))


def _place(row: Row, template: str | None = None) -> str:
    if template is not None:
        return template.format_map(row)
    prefix = number(row["prefix_tokens"])
    return row["corpus"] if prefix is None else f"{row['corpus']}, prefix {prefix:.0f}"


def _trained(content: AuditContent, label: str) -> bool:
    """Whether a model is more than a baseline of others."""
    return label not in content.baselines or any(one.label == label and one.baselines for one in content.models)


def _memorizes(content: AuditContent, label: str, corpus: str, prefix: float | None) -> bool:
    """Whether a model repeats more than each of its baselines there; a model without baselines is believed.

    Args:
        prefix: None asks for any prefix length.
    """
    place = {"model": label, "corpus": corpus, "measure": PRIMARY, "decoding": GREEDY}
    above: dict[int, list[bool | None]] = {}
    for row in content.rows("differences", relation="baseline", **place):
        if prefix in (None, row["prefix_tokens"]):
            above.setdefault(row["prefix_tokens"], []).append(evidence_of("", row, "difference").above)
    return not above or any(map(all, above.values()))


def decoding_cases(content: AuditContent) -> Iterator[Case]:
    """One case a decoding: whether its whole difference from greedy lies within a margin."""
    for row in content.rows("differences", relation="decoding", measure=PRIMARY):
        model, corpus, prefix = row["model"], row["corpus"], row["prefix_tokens"]
        if not _trained(content, model):
            continue
        greedy = content.ratio(model, corpus, prefix, PRIMARY)
        ratio = (None if greedy is None else number(greedy["value"])) or 0.0
        margin = max(LITTLE_POINTS, LITTLE_SHARE * ratio)
        name = f"{PRIMARY}, {row['decoding']} − greedy (margin {margin:.3f})"
        evidence = evidence_of(name, row, "difference")
        verdict, says = _within(evidence, margin)
        if ratio == 0.0 and evidence.value == 0.0:
            verdict, says = OPEN, "neither repeats anything"
        elif not _memorizes(content, model, corpus, prefix):
            verdict, says = OPEN, _NO_MORE
        yield Case({"model": model, "where": f"{_place(row)}, {row['decoding']}"}, verdict, says, (evidence,))


def _within(evidence: Evidence, margin: float) -> tuple[Verdict, str]:
    if not evidence.measured or evidence.low is None or evidence.high is None:
        return NOT_MEASURABLE, "no interval"
    if -margin <= evidence.low and evidence.high <= margin:
        return HOLDS, "little effect"
    if evidence.low > margin or evidence.high < -margin:
        return FAILS, "more than little"
    return OPEN, "the interval crosses the margin"


def epoch_values(content: AuditContent) -> dict[str, list[Point]]:
    """Measure -> epoch, value, low, high, by epoch; epochs without a value are left out."""
    lines: dict[str, list[Point]] = {}
    for row in content.rows("epochs"):
        if number(row["value"]) is not None:
            lines.setdefault(row["measure"], []).append(point(row, "epoch"))
    return {measure: sorted(line, key=lambda one: one[0]) for measure, line in lines.items()}


def is_memorization(measure: str) -> bool:
    """Whether a measure of the table of epochs is one of memorization."""
    return measure.startswith(("run ", "memorization", "longest run", "extraction"))


def least_loss(content: AuditContent) -> int | None:
    """The epoch with the least validation loss; the first of equals."""
    losses = {epoch: value for epoch, value, *_ in epoch_values(content).get(LOSS, ()) if value is not None}
    return int(min(losses, key=lambda epoch: losses[epoch])) if losses else None


def epoch_cases(content: AuditContent) -> Iterator[Case]:
    """One case a measure of memorization: whether it has risen by the epoch of least validation loss.

    A measure on texts that were not trained on carries their fold in its name, ``(held out)``, and is no case.
    """
    least = least_loss(content)
    for measure, points in epoch_values(content).items() if least is not None else ():
        if not is_memorization(measure) or measure.endswith(")"):
            continue
        values = {int(epoch): tuple(edges) for epoch, *edges in points}
        first = min(values)
        labels = {"model": measure, "where": f"epochs {first} to {least}"}
        if first == least:
            yield Case(labels, OPEN, "the least loss is at the first epoch")
        elif least not in values:
            yield Case(labels, NOT_MEASURABLE, f"epoch {least} has no value")
        else:
            evidence = _apart(f"epoch {least} minus epoch {first}", values[first], values[least])
            yield _settled(labels, evidence, ["has risen", "has fallen", "the intervals overlap"])


def _apart(name: str, before: tuple[float | None, ...], after: tuple[float | None, ...]) -> Evidence:
    """After minus before, between the farthest ends of both intervals: wider than a paired interval would be."""
    (value, low, high), (later, later_low, later_high) = before, after
    change = None if value is None or later is None else later - value
    if low is None or high is None or later_low is None or later_high is None:
        return Evidence(name, change, reason="no interval")
    return Evidence(name, change, later_low - high, later_high - low)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Advice with the observation in numbers that calls for it; of harm, noise, benefit, or general."""

    name: str
    group: str
    observed: str
    advice: str


def recommendations(content: AuditContent, findings: Sequence[Finding]) -> tuple[Recommendation, ...]:
    """Advice that the audits call for, harm first."""
    by_name = {finding.name: finding for finding in findings}
    advised = []
    for entry in declared("recommendations"):
        observed = "; ".join(_observations(content, by_name, entry["when"]))
        if observed:
            advised.append(Recommendation(entry["name"], entry["group"], observed, entry["advice"]))
    return tuple(advised)


def _observations(content: AuditContent, findings: Mapping[str, Finding], when: Mapping[str, Any]) -> Iterator[str]:
    if when.get("leaks") and (leaked := sum(row["n"] for row in content.rows("identifiers"))):
        yield f"{leaked:,} times an identifier or a sensitive detail"
    for column in ("kind", "group"):
        if column in when and (spans := _spans(content, column, when[column])):
            yield spans
    if when.get("ratio"):
        yield from _largest_ratio(content)
    if "finding" in when and (finding := findings[when["finding"]]).counts[HOLDS]:
        claim = f"{finding.claim.rstrip('.')}: in {finding.counts[HOLDS]} of {count(len(finding.cases), 'case')}"
        yield f"{when['prefix']}: {claim}" if "prefix" in when else claim


def _largest_ratio(content: AuditContent) -> Iterator[str]:
    rows = [row for row in content.rows("ratios", measure=PRIMARY) if number(row["value"])]
    if rows:
        row = max(rows, key=lambda row: float(row["value"]))
        place = "{model} on {corpus}, prefix {prefix_tokens}, {decoding}".format_map(row)
        yield f"up to {100 * row['value']:.1f}% of probes with a run of 30 ({place})"


def _spans(content: AuditContent, column: str, name: str) -> str:
    """Number of spans by kind or group and way of sorting; empty without any."""
    parts = []
    for way in dict.fromkeys(row["by"] for row in content.rows("kinds")):
        rows = content.rows("kinds", by=way)
        if here := sum(row["n"] for row in rows if row[column] == name):
            parts.append(f"{here:,} of {count(sum(row['n'] for row in rows), 'memorized span')} by {way}")
    return ", ".join(parts)
