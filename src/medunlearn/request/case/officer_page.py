"""``case.html``: a case in plain words for the privacy officer, two sides of A4 in print.

It is made only from the evidence, so it contains no text, name or id of the patient and nothing that is not signed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from medunlearn.reports.blocks import Block, Bullets, Cell, Facts, Headline, Report, Table, Text, blocks, section
from medunlearn.reports.formatting import ABSENT, count, decimal, interval, p_text, signed
from medunlearn.request.case.earlier_patients import not_asked_sentences
from medunlearn.request.case.evidence import (
    NOTHING_TRAINED,
    BatteryCheck,
    CaseEvidence,
    CostReading,
    Measurement,
    OthersKept,
    Verdict,
)
from medunlearn.request.case.next_steps import next_steps
from medunlearn.request.case.plain_results import coverage_sentence, result_sentences

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
OTHERS_TITLES: Mapping[OthersKept, str] = {
    "kept": "others kept",
    "not kept": "others not kept",
    "not measured": "others not measured",
}
_OTHERS_MEANING: Mapping[OthersKept, str] = {
    "kept": "",
    "not kept": "Answers about others lost more than is allowed, so the request is not carried out.",
    "not measured": "Nobody measured what it cost others, so the request is not carried out yet.",
}
_TASK = {
    "forget": "remove what the model learned from {whose} records",
    "forget and delete files": "remove what the model learned from {whose} records, and delete the files that hold "
    "them",
}
_NOTHING_TRAINED = (
    "The checks did not find this patient in the model, so nothing was changed in it. That is no proof that "
    "nothing is there: another check may find something."
)
_EARLIER = "Patients of earlier requests, asked in the same ways: did one of them come back?"
_GROUPS = {
    "relatives": "patients who share an identifier: kin, twins, the same name",
    "one patient": "one patient alone",
    "neighbours": "patients of the same group, such as a disease",
    "other patients": "other patients",
    "general": "general abilities",
}


def officer_report(evidence: CaseEvidence, sha256: str, signer: str) -> Report:
    """The page as blocks.

    Args:
        sha256: of ``evidence.json``.
        signer: id of the signing key.
    """
    patients = ", ".join(name[:SHOWN] for name in evidence.request.patients)
    verdict = evidence.decision.verdict
    meaning = _MEANING[verdict].format(battery=evidence.battery.name)
    if (evidence.method, verdict) == (NOTHING_TRAINED, "inconclusive"):
        meaning = _NOTHING_TRAINED
    parts = blocks(
        Headline(
            "Verdict", f"{TITLES[verdict]}; {OTHERS_TITLES[evidence.decision.others]}", _lead(evidence, meaning)
        ),
        section("What to do next", *_next(evidence), name="next"),
        section("Each patient", *_patients(evidence), name="patients"),
        section("What was asked and what was done", *_request(evidence), name="done"),
        section("What the model says of the patient", *_checks(evidence), name="patient"),
        section("What the verdict rests on", *_bounds(evidence), name="bounds"),
        section("What it cost others", *_costs(evidence), name="others"),
        section("What was not tested", *_untested_blocks(evidence), name="untested"),
        section("What to destroy", *_destroy(evidence), name="destroy"),
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


def _lead(evidence: CaseEvidence, meaning: str) -> tuple[str, ...]:
    """Sentences below the verdict: what was tested, its meaning, what others kept, and the patients by verdict."""
    decision = evidence.decision
    sentences = [
        coverage_sentence(evidence),
        *result_sentences(evidence),
        meaning,
        _OTHERS_MEANING[decision.others] if decision.verdict != "deleted" else "",
    ]
    if len(decision.patients) > 1:
        numbers = Counter(one.verdict for one in decision.patients)
        parts = (f"{TITLES[verdict].lower()} for {number}" for verdict, number in numbers.items())
        sentences.append(f"Of {count(len(decision.patients), 'patient')}: {', '.join(parts)}. The worst decides.")
    return tuple(filter(None, sentences))


def _next(evidence: CaseEvidence) -> tuple[Block, ...]:
    steps = next_steps(evidence)
    return (Bullets(steps),) if steps else ()


def _patients(evidence: CaseEvidence) -> tuple[Block, ...]:
    """A row for each patient of a request for several."""
    single = evidence.decision.patients
    if len(single) < 2:
        return ()
    rows = (
        (Cell(one.patient[:SHOWN]), Cell(TITLES[one.verdict]), Cell(f"{one.reason[:1].upper()}{one.reason[1:]}."))
        for one in single
    )
    return (Table(tuple(map(Cell, ("Patient", "Verdict", "Reason"))), tuple(rows), cards=True),)


def _request(evidence: CaseEvidence) -> tuple[Block, ...]:
    many = len(evidence.request.patients)
    task = _TASK[evidence.request.asked].format(whose="one patient's" if many == 1 else f"{many} patients'")
    notes, earlier = evidence.notes, evidence.ledger.rows
    records = (
        f"{count(notes.forget_records, 'record')} among {count(notes.records, 'record')} of "
        f"{count(notes.patients, 'patient')}"
        + (f", of which {notes.read:,} were read" if notes.read is not None else "")
    )
    before = (
        f"The model had been through {count(earlier, 'earlier request')}; those patients' "
        f"{count(notes.earlier_records, 'record')} stayed out of training."
        if earlier
        else "It is the first request for this model."
    )
    return (
        Text(f"The owner of the model was asked on {evidence.request.received.isoformat()} to {task}."),
        Text(f"{_method_text(evidence, records)} {before}{_templates_text(evidence)}"),
    )


def _templates_text(evidence: CaseEvidence) -> str:
    """The prompt templates; empty for a case of an older version."""
    first, *second = evidence.battery.templates or ("",)
    if not first:
        return ""
    both = f"; plain questions in {second[0]} too, as it answers about as well in both" if second else ""
    return f" The model was asked in the template {first}{both}."


def _method_text(evidence: CaseEvidence, records: str) -> str:
    if evidence.method == NOTHING_TRAINED:
        return (
            f"The owner looked for them in the model ({records}). No check found them, so nothing was trained: the "
            "model is as it was."
        )
    if evidence.exact is None:
        how = "changed the model so that it forgets them"
    elif evidence.exact.road == "adapter dropped":
        how = "dropped the part of the model that was trained on them"
    else:
        how = "trained the model again without them"
    others = (f" The method {other.method} could not be used: {other.reason}." for other in evidence.passed_over)
    return f"The owner {how}: {records}, with the method {evidence.method}.{''.join(others)}"


def _checks(evidence: CaseEvidence) -> tuple[Block, ...]:
    checks = evidence.battery.checks
    if not checks:
        return (Text("Nothing was measured.", "empty"),)
    columns, words = _columns(checks)
    heads = (Cell("The model was given"), *(head for head, _ in columns))
    parts: list[Block] = []
    for concerns, title in (("this request", ""), ("earlier requests", _EARLIER)):
        group = [check for check in checks if check.concerns == concerns]
        measures_above = ("", *(check.measure for check in group))
        rows = [
            (_question(check, above), *(cell(check) for _, cell in columns))
            for check, above in zip(group, measures_above, strict=False)
        ]
        if rows:
            parts += [*([Text(title)] if title else []), Table(heads, tuple(rows), cards=True)]
    return (*parts, Text(words, "aside"))


def _columns(checks: Sequence[BatteryCheck]) -> tuple[list[tuple[Cell, Callable[[BatteryCheck], Cell]]], str]:
    """Head and cells of each column that at least one check has a number for; explanations go below the tables."""
    columns: list[tuple[Cell, Callable[[BatteryCheck], Cell]]] = [
        (Cell("Before"), lambda check: _value(check.before)),
        (Cell("Now"), lambda check: _value(check.after)),
    ]
    words = ["Each row is one way to ask the model about the patient."]
    mixed = any(check.higher == "less is left" for check in checks)
    if not mixed:
        words.append("A higher number means that more is left.")
    if any(check.unseen is not None for check in checks):
        columns.append((Cell("A stranger"), lambda check: _value(check.unseen)))
        words.append("“A stranger” is what the model says now of patients whom it never saw.")
    if any(check.retrained is not None for check in checks):
        columns.append((Cell("Never saw the patient"), lambda check: _value(check.retrained)))
        words.append("“Never saw the patient” is a model that was trained without these records.")
    if any(check.comparison is not None for check in checks):
        columns += [(Cell("Excess", "at least, at most"), _excess), (Cell("p"), _p)]
        words.append(
            "Excess: how much more the model says of the patient than of a stranger, or than the model that never "
            "saw the records; 0 is none. It is at least and at most so much with 95% confidence each. p: how often "
            "chance alone gives an excess this large."
        )
    if mixed:
        columns.append((Cell("More means"), lambda check: Cell(check.higher)))
    values = [value for check in checks for value in (check.before, check.after, check.unseen, check.retrained)]
    if any(value is not None and value.low is not None for value in values):
        words.append("95% intervals stand in brackets.")
    return columns, " ".join(words)


def _question(check: BatteryCheck, measure_above: str) -> Cell:
    """Title of a check, with the measure below it unless the previous row has the same one."""
    if check.concerns == "earlier requests":
        return Cell(check.title)
    measure = [] if check.measure == measure_above else [check.measure]
    return Cell(check.title, "; ".join([check.probes.kind, *measure, count(check.probes.n, "probe")]))


def _value(value: Measurement | None, *, sized: bool = False) -> Cell:
    """A number with its interval; ``sized``: also the number of probes, patients or questions."""
    if value is None:
        return Cell(ABSENT)
    if value.value is None:
        return Cell("not measured", value.reason)
    size = count(value.n, value.unit.removesuffix("s")) if sized else ""
    return Cell(decimal(value.value), ", ".join(filter(None, (interval(value.low, value.high), size))))


def _excess(check: BatteryCheck) -> Cell:
    if check.comparison is None:
        return Cell(ABSENT, "nothing to compare with")
    excess = check.comparison.excess
    value = "not measured" if excess.value is None else signed(excess.value)
    return Cell(value, ", ".join(ABSENT if end is None else signed(end) for end in (excess.low, excess.high)))


def _p(check: BatteryCheck) -> Cell:
    return Cell(ABSENT if check.comparison is None else p_text(check.comparison.p))


def _bounds(evidence: CaseEvidence) -> tuple[Block, ...]:
    margins = {check.comparison.margin for check in evidence.battery.checks if check.comparison is not None}
    lines = [*evidence.decision.reasons]
    if evidence.decision.bounds:
        lines.append(
            f"An excess of at most {' or '.join(map(decimal, sorted(margins)))} counts as none (the margin). The "
            "numbers of each check stand in the table above."
        )
    return (Bullets(tuple(lines)),)


def _costs(evidence: CaseEvidence) -> tuple[Block, ...]:
    if not evidence.costs:
        return (Text("Nobody measured it.", "empty"),)
    heads = ("Whom or what", "Before", "Now", "Kept", "Least allowed")
    return (Table(tuple(map(Cell, heads)), tuple(map(_cost_row, evidence.costs)), cards=True),)


def _cost_row(cost: CostReading) -> tuple[Cell, ...]:
    better = "higher is better" if cost.higher_is_better else "lower is better"
    share, floor = (ABSENT if value is None else f"{value:.0%}" for value in (cost.retained_share, cost.floor))
    within = {True: "kept", False: "not kept", None: ""}[cost.within]
    head = Cell(cost.title, f"{_GROUPS[cost.group]}; {cost.measure}, {better}")
    values = _value(cost.before, sized=True), _value(cost.after, sized=True)
    return head, *values, Cell(share), Cell(floor, within)


def _untested_blocks(evidence: CaseEvidence) -> tuple[Block, ...]:
    lines = [f"{untested.title}: {untested.reason}." for untested in evidence.battery.untested]
    facts = Counter[tuple[str, str, str]]()
    for coverage in evidence.battery.coverage:
        facts.update({(own.kind, own.type, own.reason): own.number for own in coverage.untested})
    for (kind, name, reason), number in sorted(facts.items()):
        lines.append(f"{count(number, 'fact')} ({' '.join(dict.fromkeys((kind, name)))}): {reason}.")
    lines += not_asked_sentences(evidence.battery)
    always = "Whatever no check of this battery asks; copies of the notes, of older models and of backups."
    return (Bullets((*lines, always)),)


def _again(evidence: CaseEvidence) -> tuple[Block, ...]:
    by = evidence.next_test.by
    lines = [line[:1].upper() + line[1:] + "." for line in evidence.next_test.events]
    return (Bullets((*lines, *([f"At the latest on {by.isoformat()}."] if by is not None else []))),)


def _destroy(evidence: CaseEvidence) -> tuple[Block, ...]:
    if evidence.method == NOTHING_TRAINED:
        line = "The work folder beside this case holds notes. Delete it when the model is not tested again."
        return (Bullets((line,)),)
    whose = "the patient" if len(evidence.request.patients) == 1 else "these patients"
    work = (
        "The work folder beside this case holds notes, and models that were tried. It is needed to run the battery "
        "again. Delete it when the model is not tested again."
    )
    if not evidence.decision.carried_out:
        new = "" if evidence.decision.verdict == "deleted" else ", and the new one may"
        kept = (
            "Nothing yet: the request is open, and the next try needs the model before or the new one. The model "
            f"before still knows {whose}{new}. So does each copy, adapter or quantized form."
        )
        return (Bullets((kept, work)),)
    lines = (
        f"The model before still knows {whose}, and so does each copy, adapter or quantized form of it. Set beside "
        "the new one it shows who was deleted. Until it is deleted it can be put back, and the request is open. "
        "Delete it as soon as the new model is in its place; the new one does not need it.",
        work,
        "Deleting does not reach backups and snapshots.",
    )
    return (Bullets(lines),)


def _proof(evidence: CaseEvidence, sha256: str, signer: str) -> tuple[Block, ...]:
    software = evidence.software
    return (
        Text(
            "The command `medunlearn verify MODEL case/ --public-key FILE` checks the signature, every file of "
            "this case and every file of the model; with `--work FOLDER` the owner runs the battery again on the "
            "model as it is now. The key's owner has to tell you its id on another way than with this case."
        ),
        Facts(
            (
                ("Signed with key", signer),
                ("SHA-256 of evidence.json", sha256),
                ("Model before", evidence.model_in.fingerprint),
                ("Model now", evidence.model_out.fingerprint),
                ("Software", f"medunlearn {software.version}, commit {software.commit or 'unknown'}"),
            )
        ),
    )
