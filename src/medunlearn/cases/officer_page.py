"""``case.html``: a case in plain words for the privacy officer, two sides of A4 in print.

It is made from the evidence alone, so it holds no text, name or id of the patient, and says nothing that is not
signed.
"""

from __future__ import annotations

from collections.abc import Mapping

from medunlearn.cases.evidence import BatteryCheck, CaseEvidence, CostReading, Measurement, Verdict
from medunlearn.reports.blocks import Block, Bullets, Cell, Facts, Headline, Report, Table, Text, blocks, section
from medunlearn.reports.formatting import ABSENT, count, decimal, interval
from medunlearn.reports.html import to_html

SHOWN = 12
"""Hex digits of a pseudonym or hash that the page shows."""
TITLES: Mapping[Verdict, str] = {
    "deleted": "Deleted",
    "no residual found": "No residual found",
    "residual found": "Residual found",
    "inconclusive": "Inconclusive",
    "no baseline": "No baseline",
}
_MEANING: Mapping[Verdict, str] = {
    "deleted": "The model was made without this patient's records. It holds nothing that came from them.",
    "no residual found": "The checks of battery “{battery}” found nothing of this patient in the model any more. "
    "That is no proof that nothing is left: another check may find more. It holds for these checks, within the "
    "bounds below.",
    "residual found": "The model still answers as one that knows this patient. The request is not carried out yet.",
    "inconclusive": "The checks cannot tell whether anything of this patient is left in the model. This is no "
    "evidence that the request was carried out.",
    "no baseline": "What the model answers was measured before and after, but there is nothing to compare it with. "
    "This is no evidence that the request was carried out.",
}
_ASKED = {
    "forget": "remove what the model learned from {whose} records",
    "forget and delete files": "remove what the model learned from {whose} records, and delete the files that hold "
    "them",
}
_GROUPS = {
    "neighbours": "patients with the same disease",
    "other patients": "other patients",
    "general": "general abilities",
}


def officer_page(evidence: CaseEvidence, sha256: str, signer: str) -> str:
    """The page as HTML.

    Args:
        sha256: of ``evidence.json``.
        signer: id of the key that signs.
    """
    return to_html(officer_report(evidence, sha256, signer))


def officer_report(evidence: CaseEvidence, sha256: str, signer: str) -> Report:
    """The page as blocks."""
    patients = ", ".join(name[:SHOWN] for name in evidence.request.patients)
    verdict = evidence.decision.verdict
    parts = blocks(
        Headline("Verdict", TITLES[verdict], (_MEANING[verdict].format(battery=evidence.battery.name),)),
        section("What was asked and what was done", *_done(evidence), name="done"),
        section("What the model says of the patient", *_checks(evidence), name="patient"),
        section("What the verdict rests on", *_bounds(evidence), name="bounds"),
        section("What it cost others", *_costs(evidence), name="others"),
        section("What was not tested", *_untested(evidence), name="untested"),
        section("When to test again", *_again(evidence), name="again"),
        section("How to check this page", *_proof(evidence, sha256, signer), name="check"),
    )
    facts = (
        ("Patient" if len(evidence.request.patients) == 1 else "Patients", patients),
        ("Request received", evidence.request.received.isoformat()),
        ("Case written", evidence.created.date().isoformat()),
        ("Battery", f"{evidence.battery.name}, version {evidence.battery.version}"),
    )
    footer = (
        "Written by medunlearn. This file loads nothing from a network. A patient is named by a pseudonym, which "
        "only the owner of the secret key can tie to a person. All numbers are in evidence.json beside it."
    )
    return Report(
        f"Deletion request {patients}", parts, "Evidence of a deletion request", facts, brief=True, footer=footer
    )


def _done(evidence: CaseEvidence) -> tuple[Block, ...]:
    many = len(evidence.request.patients)
    whose = "one patient's" if many == 1 else f"{many} patients'"
    asked = _ASKED[evidence.request.asked].format(whose=whose)
    notes, earlier = evidence.notes, evidence.ledger.rows
    how = "made the model forget them by training it further"
    if evidence.exact is not None:
        how = (
            "dropped the part of the model that was trained on them"
            if evidence.exact.road == "adapter dropped"
            else "trained the model again without them"
        )
    before = (
        f"The model had been through {count(earlier, 'earlier request')}; those patients' "
        f"{count(notes.earlier_records, 'record')} stayed out of training."
        if earlier
        else "It is the first request for this model."
    )
    return (
        Text(f"The owner of the model was asked on {evidence.request.received.isoformat()} to {asked}."),
        Text(
            f"The owner {how}: {count(notes.forget_records, 'record')} among {count(notes.records, 'record')} of "
            f"{count(notes.patients, 'patient')}, with the method {evidence.method}. {before}"
        ),
    )


def _checks(evidence: CaseEvidence) -> tuple[Block, ...]:
    checks = evidence.battery.checks
    if not checks:
        return (Text("Nothing was measured.", "empty"),)
    has_retrained = any(check.retrained is not None for check in checks)
    heads = ["The model was given", "Before", "Now"] + (["Never saw the patient"] if has_retrained else [])
    rows = [_check_row(check, has_retrained) for check in checks]
    words = (
        "Each row is one way to ask the model about the patient. “Never saw the patient” is a model that was "
        "trained without these records. "
        if has_retrained
        else "Each row is one way to ask the model about the patient. "
    )
    more = (
        "95% intervals stand in brackets. A row marked “earlier requests” tests whether those patients came back."
    )
    return (
        Table(tuple(map(Cell, (*heads, "More means"))), tuple(rows)),
        Text(words + more, "aside"),
    )


def _check_row(check: BatteryCheck, has_retrained: bool) -> tuple[Cell, ...]:
    where = "" if check.concerns == "this request" else "earlier requests; "
    note = f"{where}{check.probes.kind}; {check.measure}"
    values = [check.before, check.after] + ([check.retrained] if has_retrained else [])
    return (Cell(check.title, note), *map(_number, values), Cell(check.higher))


def _number(value: Measurement | None) -> Cell:
    if value is None:
        return Cell(ABSENT)
    if value.value is None:
        return Cell("not measured", value.reason)
    bounds = interval(value.low, value.high)
    return Cell(
        decimal(value.value), ", ".join(filter(None, (bounds, count(value.n, value.unit.removesuffix("s")))))
    )


def _bounds(evidence: CaseEvidence) -> tuple[Block, ...]:
    titles = {check.name: check.title for check in evidence.battery.checks}
    lines = [*evidence.decision.reasons, *(f"{titles[one.check]}: {one.text}." for one in evidence.decision.bounds)]
    words = (
        "Excess: how much more the model says of the patient than one that never saw the records; 0 is none. "
        "Margin: an excess up to it counts as none. p: how often chance alone gives an excess this large."
    )
    return (Bullets(tuple(lines)), *((Text(words, "aside"),) if evidence.decision.bounds else ()))


def _costs(evidence: CaseEvidence) -> tuple[Block, ...]:
    if not evidence.costs:
        return (Text("Nobody measured it.", "empty"),)
    heads = ("Whom or what", "Before", "Now", "Kept", "Least allowed")
    return (Table(tuple(map(Cell, heads)), tuple(map(_cost_row, evidence.costs))),)


def _cost_row(cost: CostReading) -> tuple[Cell, ...]:
    better = "higher is better" if cost.higher_is_better else "lower is better"
    kept = ABSENT if cost.kept is None else f"{cost.kept:.0%}"
    floor = ABSENT if cost.floor is None else f"{cost.floor:.0%}"
    said = {True: "kept", False: "not kept", None: ""}[cost.within]
    head = Cell(cost.title, f"{_GROUPS[cost.group]}; {cost.measure}, {better}")
    return head, _number(cost.before), _number(cost.after), Cell(kept), Cell(floor, said)


def _untested(evidence: CaseEvidence) -> tuple[Block, ...]:
    lines = [f"{one.title}: {one.reason}." for one in evidence.battery.untested]
    always = "Whatever no check of this battery asks; copies of the notes, of older models and of backups."
    return (Bullets((*lines, always)),)


def _again(evidence: CaseEvidence) -> tuple[Block, ...]:
    by = evidence.next_test.by
    lines = [line[:1].upper() + line[1:] + "." for line in evidence.next_test.events]
    return (Bullets((*lines, *([f"At the latest on {by.isoformat()}."] if by is not None else []))),)


def _proof(evidence: CaseEvidence, sha256: str, signer: str) -> tuple[Block, ...]:
    return (
        Text(
            "The command “medunlearn verify MODEL case/ --public-key FILE” checks the signature, every file of "
            "this case and every file of the model. The key's owner has to tell you its id on another way than "
            "with this case."
        ),
        Facts(
            (
                ("Signed with key", signer),
                ("SHA-256 of evidence.json", sha256),
                ("Model before", evidence.model_in.fingerprint),
                ("Model now", evidence.model_out.fingerprint),
                (
                    "Software",
                    f"medunlearn {evidence.software.version}, commit {evidence.software.commit or 'unknown'}",
                ),
            )
        ),
    )
