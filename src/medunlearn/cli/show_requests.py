"""Deletion requests, their cases and checks on the terminal and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from medunlearn.cli.output import Output, near, records
from medunlearn.errors import MedunlearnError


def forget(result: Any, output: Output) -> None:
    """Print the verdict of a request, the checks behind it, its cost, and the next steps for the files."""
    from medunlearn.reports.formatting import ABSENT, decimal, p_text, signed
    from medunlearn.request.case.evidence import NOTHING_TRAINED
    from medunlearn.request.case.next_steps import next_steps
    from medunlearn.request.case.officer_page import OTHERS_TITLES, SHOWN, TITLES

    evidence = result.case.evidence
    decision, battery = evidence.decision, evidence.battery
    paths = {"case": result.case.folder, "model": result.model, "work": result.work, "report": result.report}
    places = {name: str(path) for name, path in paths.items()}
    steps = next_steps(evidence)
    more = {"trials": list(result.trials), "next_steps": list(steps)}
    if output.data(lambda: {**places, **more, **evidence.model_dump(mode="json")}):
        return
    rows = []
    for check in battery.checks:
        values = (ABSENT if item.value is None else decimal(item.value) for item in (check.before, check.after))
        excess = check.comparison.excess if check.comparison else None
        excess_text = ABSENT if excess is None or excess.value is None else signed(excess.value)
        most = ABSENT if excess is None or excess.high is None else decimal(excess.high)
        p_value = ABSENT if check.comparison is None else p_text(check.comparison.p)
        whose = "" if check.concerns == "this request" else " (earlier requests)"
        rows.append((check.title + whose, *values, excess_text, most, p_value))
    columns = ("what the model was asked", "before", "now", "excess", "at most", "p")
    output.table("What the model knows of the patient, 0 to 1", columns, rows)
    for cost in evidence.costs:
        share = ABSENT if cost.retained_share is None else f"{cost.retained_share:.1%} of what it was"
        output.line(f"{cost.title}: {cost.measure} {share}")
    for own in battery.coverage:
        output.line(f"patient {own.patient[:SHOWN]}: tested {own.tested} of {own.facts} facts of the notes")
    for one in decision.patients if len(decision.patients) > 1 else ():
        output.line(f"patient {one.patient[:SHOWN]}: {one.verdict}: {one.reason}")
    output.line(f"{TITLES[decision.verdict]}, {OTHERS_TITLES[decision.others]}: {' '.join(decision.reasons)}")
    for step in steps:
        output.line(f"next: {step}")
    output.line(f"{near(result.case.folder / 'case.html')}: the page for the privacy officer")
    output.line(f"{near(result.model)}: the model that came out, with its ledger")
    output.line(f"{near(result.report)}: all numbers behind the case, for you alone")
    output.line(
        f"{near(result.work)}: holds notes, and what `verify --work` needs; delete it when the case is closed"
    )
    if evidence.method != NOTHING_TRAINED:
        output.line(
            f"{near(result.before)}: still knows the patient; whoever has both models can tell who was forgotten"
        )


def verify(result: Any, output: Output) -> None:
    """Print the files that contain a subject and how, and those that were not read; or the checks of runs."""
    if hasattr(result, "checks"):
        _show_checks(result, output)
        return
    facts = {"complete": result.complete, "files": result.files, "bytes": result.bytes}
    if output.data(lambda: {**facts, "rows": records(result.table())}):
        return
    for item in result.holders:
        how = ", ".join(f"{how} ({number:,})" for how, number in item.evidence.items())
        output.line(f"{item.path}: {item.kind}: {how}", whole=True)
    for item in result.unread:
        output.line(f"unread: {item.path}: {item.reason}", whole=True)
    if result.identifiers_left_out:
        output.line(
            f"{result.identifiers_left_out} identifiers were not looked for: too short, or others have them too."
        )
    output.line(_extent(result, "the subject"))


def _extent(log: Any, whom: str) -> str:
    """``Traces of the patient: in no file that was read. Files: 120 read, 3 unread, which may hold some.``"""
    number = len(log.holders)
    where = "no file that was read" if not number else "1 file" if number == 1 else f"{number:,} files"
    doubt = ", which may hold some" if log.unread else ""
    return f"Traces of {whom}: in {where}. Files: {log.files:,} read, {len(log.unread):,} unread{doubt}."


def _show_checks(result: Any, output: Output) -> None:
    """Print the checks of a run's files and inputs, one line per check.

    Raises:
        MedunlearnError: something differs or is missing, or nothing could be checked.
    """
    if not output.data(lambda: {"ok": result.ok, "checks": records(result.table())}):
        for folder, part in result.table().groupby("run", sort=False):
            output.frame(folder, part, ("what", "name", "state", "note"))
        counts = Counter(check.state for check in result.checks)
        output.line(", ".join(f"{number:,} {state}" for state, number in counts.items()))
    if result.wrong:
        raise MedunlearnError(f"{len(result.wrong)} of {len(result.checks)} checks failed: {result.wrong[0]}")
    if not result.ok:
        raise MedunlearnError(
            "Nothing could be checked, so nothing is verified. The notes above say what is missing."
        )


def case_key(result: Any, output: Output) -> None:
    secret = "made" if result.made_secret else "was there already, and is this key's too"
    facts = {"private": result.private, "public": result.public, "secret": result.secret, "key_id": result.key_id}
    if not output.data({name: str(value) for name, value in facts.items()}):
        output.line(f"{result.private}: the private key. Keep it to yourself: it signs cases.")
        output.line(f"{result.secret}: the secret of the pseudonyms ({secret}). Keep it, and a copy, to yourself.")
        output.line(f"{result.public}: the public key, for everybody who checks a case.")
        output.line(f"Key id: {result.key_id}")


def case_timestamp(result: Any, output: Output) -> None:
    """Print the time stamp's file, its signer, and whether anybody vouches for the signer."""
    facts = {"time": result.time.isoformat(), "subject": result.subject, "fingerprint": result.fingerprint}
    if not output.data({"reply": str(result.path), **facts, "trusted": result.trusted}):
        output.line(f"{result.path}: time stamp of the case's statement, {result}.")


def case_letter(result: Any, output: Output) -> None:
    """Print the letter's file, its verdict, and the day by which it is to be answered."""
    facts = {"letter": str(result.path), "language": result.language, "patient": result.patient}
    more = {"verdict": result.verdict, "due": result.due.isoformat(), "signer": result.signer}
    if not output.data({**facts, **more, "signer_known": result.signer_known}):
        output.line(
            f"{near(result.path)}: the letter. Fill in what stands in brackets; the browser prints it as PDF."
        )
        output.line(f"Its verdict: {result.verdict}. One month from receipt ends on {result.due.isoformat()}.")
        if not result.signer_known:
            output.warn(["the case was checked with its own key: --public-key FILE of the owner tells whose it is"])


def case_purge(result: Any, output: Output) -> None:
    """Print the files that contain a patient, and the outcome for each.

    Raises:
        MedunlearnError: a file that was to be deleted is still there.
    """
    unread = result.log.unread
    facts = {"deleted": result.confirmed, "complete": result.log.complete, "files": result.log.files}
    missed = [{"path": str(item.path), "reason": item.reason} for item in unread]
    if not output.data(lambda: {**facts, "rows": records(result.table()), "not_looked_at": missed}):
        for row in records(result.table()):
            note = f" ({row['note']})" if row["note"] else ""
            output.line(f"{row['outcome']}: {row['path']}: {row['kind']}: {row['how']}{note}", whole=True)
        for item in unread:
            output.line(f"unread: {item.path}: {item.reason}", whole=True)
        output.line(_extent(result.log, "the patient"))
        outcomes = Counter(item.outcome for item in result.files)
        if outcomes:
            more = "" if result.confirmed else " Nothing was deleted: --yes deletes the listed files."
            output.line(", ".join(f"{number:,} {outcome}" for outcome, number in outcomes.items()) + "." + more)
    if result.remaining:
        raise MedunlearnError(f"{len(result.remaining)} files still hold the patient: {result.remaining[0].note}.")
