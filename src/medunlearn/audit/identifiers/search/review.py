"""A sample of responses for people to read, and what comes of their verdicts.

The sheet is a CSV: a row for each finding, to be called right or wrong, and a row for each response, where the
reader writes what was missed. It holds text of records and is readable by its owner alone; ``review.json`` beside
it says which case is of which subject and kind, and holds no text.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.findings import Output, leaked
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.sensitive import lists
from medunlearn.data.records import Record
from medunlearn.data.storage import read_json, sha256_of_json, write_atomically, write_json
from medunlearn.errors import InputError, SourceError
from medunlearn.judging.labels import harmless, rows_of
from medunlearn.metrics.text import rouge_l_recalls
from medunlearn.seeds import generator
from medunlearn.statistics.bootstrap import REPLICATES, bootstrap_mean

SHEET, CASES = "review.csv", "review.json"
HEADER = ("case_id", "label", "missed", "comment", "kind", "value", "response", "record")
NUMBER, LEAST_ROUGE = 200, 0.2
"""The paper's sample: 200 responses of ROUGE-L above 0.2 (Table 10)."""
_SHOWN = 5
_ANSWERS = {"yes": True, "no": False}


def write_review(
    outputs: Sequence[Output],
    records: Sequence[Record],
    findings: pd.DataFrame,
    out: Path,
    *,
    number: int = NUMBER,
    least_rouge: float = LEAST_ROUGE,
    seed: int = 0,
) -> Path:
    """Draw responses that share much with their records, and write a sheet to review them with.

    Args:
        findings: identifiers and sensitive content together or apart; those that leaked are asked about.
        out: folder of ``review.csv`` and ``review.json``.
        number: how many responses at most.
        least_rouge: ROUGE-L recall of the record's text (what the prefix left of it) must be above this.

    Raises:
        InputError: ``out`` holds a sheet already, or no response is similar enough.
    """
    if (out / SHEET).exists():
        raise InputError(f"{out / SHEET} is there already, and may hold verdicts. Choose another --out.")
    texts = {one.record_id: one.text for one in records}
    similar = similar_to_record(outputs, texts, least_rouge)
    if not similar:
        raise InputError(
            f"No response has a ROUGE-L above {least_rouge} with its record. Give a lower --least-rouge."
        )
    chosen = sample_of(similar, number, seed)
    cases, rows = _cases(chosen, leaked(findings), texts)
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows([HEADER, *rows])
    _write_privately(out / SHEET, "\ufeff" + buffer.getvalue())
    write_json(
        out / CASES, {"cases": cases, "responses": len(chosen), "of": len(similar), "least_rouge": least_rouge}
    )
    return out / SHEET


@dataclass(frozen=True)
class _Verdict:
    """A finding that people called right or wrong, or something that they found themselves."""

    kind: str
    subject: str
    found: bool
    right: bool


def read_review(
    folder: Path, sheets: Sequence[Path] = (), *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Counts as people correct them.

    Args:
        folder: where :func:`write_review` wrote.
        sheets: filled in; none: the one in the folder. Two verdicts on one case must agree.

    Returns:
        One row a kind, and ``all``: found, confirmed, rejected, open (no verdict), missed, corrected (confirmed and
        missed); precision (confirmed of those with a verdict) and recall (confirmed of confirmed and missed), 0-1,
        each with an interval over subjects. ``reason`` where a number has no value.

    Raises:
        SourceError: a sheet that cannot be read, a verdict that is neither yes nor no, a kind that there is not.
    """
    info = read_json(folder / CASES)
    cases: Mapping[str, Any] = info["cases"]
    labels: dict[str, bool] = {}
    missed: list[_Verdict] = []
    for path in sheets or [folder / SHEET]:
        missed += _read_sheet(path, cases, labels)
    if not labels and not missed:
        raise SourceError("No case has a verdict yet. Write yes or no into the column `label`.")
    asked = {name: case for name, case in cases.items() if case["kind"]}
    judged = [_Verdict(asked[name]["kind"], asked[name]["subject"], True, right) for name, right in labels.items()]
    found = Counter(case["kind"] for case in asked.values())
    names = [
        name for name in (*kinds(), *lists().contents) if found[name] or any(one.kind == name for one in missed)
    ]
    rows = [
        _corrected(name, found[name], [one for one in (*judged, *missed) if one.kind == name], replicates, seed)
        for name in names
    ]
    rows.append(_corrected("all", sum(found.values()), [*judged, *missed], replicates, seed))
    return pd.DataFrame(rows)


def _corrected(kind: str, found: int, verdicts: Sequence[_Verdict], replicates: int, seed: int) -> dict[str, Any]:
    judged, there = [one for one in verdicts if one.found], [one for one in verdicts if one.right]
    confirmed = sum(one.right for one in judged)
    missed = len(verdicts) - len(judged)

    def share(of: Sequence[_Verdict], values: Sequence[bool]) -> tuple[float | None, float | None, float | None]:
        estimate = bootstrap_mean(
            [float(value) for value in values], [one.subject for one in of], replicates=replicates, seed=seed
        )
        return estimate.value, estimate.low, estimate.high

    precision, recall = share(judged, [one.right for one in judged]), share(there, [one.found for one in there])
    reasons = [] if judged else ["no finding has a verdict"]
    reasons += [] if there else ["nothing was confirmed or missed"]
    return {
        "kind": kind,
        "found": found,
        "confirmed": confirmed,
        "rejected": len(judged) - confirmed,
        "open": found - len(judged),
        "missed": missed,
        "corrected": confirmed + missed,
        **dict(zip(("precision", "precision_low", "precision_high"), precision, strict=True)),
        **dict(zip(("recall", "recall_low", "recall_high"), recall, strict=True)),
        "reason": "; ".join(reasons) or None,
    }


def sample_of(outputs: Sequence[Output], number: int, seed: int) -> list[Output]:
    """A seeded sample of responses, in their order; all where there are no more."""
    drawn = generator("identifier review", seed).permutation(len(outputs))[:number]
    return [outputs[place] for place in sorted(drawn.tolist())]


def similar_to_record(outputs: Sequence[Output], texts: Mapping[str, str], least: float) -> list[Output]:
    """The responses whose ROUGE-L recall of what the prefix left of their record is above ``least``."""
    there = [one for one in outputs if texts.get(one.record_id)]
    rest = [texts[one.record_id].removeprefix(one.prefix) for one in there]
    scores = rouge_l_recalls([one.response for one in there], rest)
    return [one for one, score in zip(there, scores, strict=True) if score is not None and score > least]


def _cases(
    outputs: Sequence[Output], findings: pd.DataFrame, texts: Mapping[str, str]
) -> tuple[dict[str, Any], list[list[str]]]:
    columns = ["probe_id", "variant", "sample"]
    unique = findings.drop_duplicates([*columns, "kind", "key"])
    grouped = dict(iter(unique.groupby(columns)))
    cases: dict[str, Any] = {}
    rows: list[list[str]] = []
    for output in outputs:
        whole = sha256_of_json([output.probe_id, output.variant, output.sample])[:12]
        cases[whole] = {"subject": output.subject, "kind": None}
        rows.append([whole, "", "", "", "", "", output.response, texts[output.record_id]])
        own = grouped.get((output.probe_id, output.variant, output.sample))
        for number, row in enumerate([] if own is None else own.to_dict("records"), 1):
            cases[f"{whole}-{number}"] = {"subject": output.subject, "kind": row["kind"]}
            rows.append([f"{whole}-{number}", "", "", "", row["kind"], row["value"], "", ""])
    return cases, [[harmless(cell) for cell in row] for row in rows]


def _read_sheet(path: Path, cases: Mapping[str, Any], labels: dict[str, bool]) -> list[_Verdict]:
    missed: list[_Verdict] = []
    problems: list[str] = []
    for line, row in rows_of(path):
        name, said = row["case_id"].strip(), row["label"].strip().lower()
        case = cases.get(name)
        if case is None:
            problems.append(f"line {line}: case_id {name!r} is not of this review")
            continue
        if said and (case["kind"] is None or said not in _ANSWERS):
            problems.append(f"line {line}: label {said!r} belongs to no finding, or is neither yes nor no")
        elif said and labels.setdefault(name, _ANSWERS[said]) != _ANSWERS[said]:
            problems.append(f"line {line}: case_id {name!r} has another verdict already")
        found, wrong = _missed(row.get("missed") or "", case["subject"])
        missed += found
        problems += [f"line {line}: {kind!r} is no kind; write `kind: value; kind: value`" for kind in wrong]
    if problems:
        more = f" ({len(problems)} such in all)" if len(problems) > _SHOWN else ""
        raise SourceError(f"{path}: " + "; ".join(problems[:_SHOWN]) + more + ".")
    return missed


def _missed(cell: str, subject: str) -> tuple[list[_Verdict], list[str]]:
    """``name: Ada Vane; age: 61`` as verdicts, and what is no kind."""
    known = {*kinds(), *lists().contents}
    named = [part.partition(":")[0].strip().lower() for part in cell.split(";") if part.strip()]
    return [_Verdict(kind, subject, False, True) for kind in named if kind in known], [
        kind for kind in named if kind not in known
    ]


def _write_privately(path: Path, text: str) -> None:
    def write(scratch: Path) -> None:
        scratch.touch(mode=0o600)
        scratch.write_text(text, encoding="utf-8", newline="")

    write_atomically(path, write)
