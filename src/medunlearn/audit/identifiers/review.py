"""Manual review of findings: a sheet of sampled responses, and the counts as its readers correct them.

The sheet is a CSV: a row per finding, to be called right or wrong, and a row per response, in which the reader
writes what was missed. It holds record text and is private to its owner; ``review.json`` beside it has the subject
and kind of each case and no text.
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
from medunlearn.audit.identifiers.sensitive import term_lists
from medunlearn.audit.tables import KEY
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


@dataclass(frozen=True, slots=True)
class _Verdict:
    """A finding that a reader called right or wrong, or something that the reader found."""

    kind: str
    subject: str
    found: bool
    right: bool


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
    """Sample responses that share much with their records, and write a review sheet.

    Args:
        findings: identifiers and sensitive content; the leaks are asked about.
        out: folder of ``review.csv`` and ``review.json``.
        number: responses at most.
        least_rouge: least ROUGE-L recall, exclusive, of the record's text after the prefix.

    Raises:
        InputError: ``out`` holds a sheet, or no response is similar enough.
    """
    if (out / SHEET).exists():
        raise InputError(f"{out / SHEET} is there already, and may hold verdicts. Choose another --out.")
    texts = {record.record_id: record.text for record in records}
    similar = similar_to_record(outputs, texts, least_rouge)
    if not similar:
        raise InputError(
            f"No response has a ROUGE-L above {least_rouge} with its record. Give a lower --least-rouge."
        )
    sample = sample_of(similar, number, seed)
    cases, rows = _cases(sample, leaked(findings), texts)
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows([HEADER, *rows])

    def write(scratch: Path) -> None:
        scratch.touch(mode=0o600)
        scratch.write_text("\ufeff" + buffer.getvalue(), encoding="utf-8", newline="")

    write_atomically(out / SHEET, write)
    counts = {"responses": len(sample), "of": len(similar), "least_rouge": least_rouge}
    write_json(out / CASES, {"cases": cases, **counts})
    return out / SHEET


def read_review(
    folder: Path, sheets: Sequence[Path] = (), *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Counts as readers correct them.

    Args:
        folder: of :func:`write_review`.
        sheets: filled in; none: the one in the folder. Two verdicts on one case must agree.

    Returns:
        One row per kind, and ``all``: found, confirmed, rejected, open (no verdict), missed, corrected (confirmed
        and missed); precision (confirmed of those with a verdict) and recall (confirmed of confirmed and missed),
        0-1, each with an interval over subjects; reason for a missing number.

    Raises:
        SourceError: a sheet that cannot be read, a verdict other than yes or no, an unknown kind.
    """
    cases: Mapping[str, Any] = read_json(folder / CASES)["cases"]
    labels: dict[str, bool] = {}
    missed: list[_Verdict] = []
    for path in sheets or [folder / SHEET]:
        missed += _read_sheet(path, cases, labels)
    if not labels and not missed:
        raise SourceError("No case has a verdict yet. Write yes or no into the column `label`.")
    judged = [_Verdict(cases[name]["kind"], cases[name]["subject"], True, right) for name, right in labels.items()]
    verdicts = [*judged, *missed]
    counts = Counter(case["kind"] for case in cases.values() if case["kind"])
    names = [
        name
        for name in (*kinds(), *term_lists().contents)
        if counts[name] or any(verdict.kind == name for verdict in missed)
    ]
    by_name = {name: [verdict for verdict in verdicts if verdict.kind == name] for name in names}
    rows = [_corrected(name, counts[name], own, replicates, seed) for name, own in by_name.items()]
    rows.append(_corrected("all", sum(counts.values()), verdicts, replicates, seed))
    return pd.DataFrame(rows)


def sample_of(outputs: Sequence[Output], number: int, seed: int) -> list[Output]:
    """A seeded sample of at most ``number`` responses, in their order."""
    drawn = generator("identifier review", seed).permutation(len(outputs))[:number]
    return [outputs[place] for place in sorted(drawn.tolist())]


def similar_to_record(outputs: Sequence[Output], texts: Mapping[str, str], least: float) -> list[Output]:
    """Responses whose ROUGE-L recall of their record after the prefix is above ``least``."""
    with_text = [output for output in outputs if texts.get(output.record_id)]
    rest = [texts[output.record_id].removeprefix(output.prefix) for output in with_text]
    scores = rouge_l_recalls([output.response for output in with_text], rest)
    return [one for one, score in zip(with_text, scores, strict=True) if score is not None and score > least]


def _corrected(kind: str, found: int, verdicts: Sequence[_Verdict], replicates: int, seed: int) -> dict[str, Any]:
    judged, true = [one for one in verdicts if one.found], [one for one in verdicts if one.right]
    confirmed = sum(one.right for one in judged)
    missed = len(verdicts) - len(judged)

    def share(name: str, of: Sequence[_Verdict], values: Sequence[bool]) -> dict[str, float | None]:
        subjects = [one.subject for one in of]
        mean = bootstrap_mean(list(map(float, values)), subjects, replicates=replicates, seed=seed)
        return {name: mean.value, f"{name}_low": mean.low, f"{name}_high": mean.high}

    reasons = [] if judged else ["no finding has a verdict"]
    reasons += [] if true else ["nothing was confirmed or missed"]
    return {
        "kind": kind,
        "found": found,
        "confirmed": confirmed,
        "rejected": len(judged) - confirmed,
        "open": found - len(judged),
        "missed": missed,
        "corrected": confirmed + missed,
        **share("precision", judged, [one.right for one in judged]),
        **share("recall", true, [one.found for one in true]),
        "reason": "; ".join(reasons) or None,
    }


def _cases(
    outputs: Sequence[Output], findings: pd.DataFrame, texts: Mapping[str, str]
) -> tuple[dict[str, Any], list[list[str]]]:
    by_response = dict(iter(findings.drop_duplicates([*KEY, "kind", "key"]).groupby(KEY)))
    cases: dict[str, Any] = {}
    rows: list[list[str]] = []
    for output in outputs:
        case = sha256_of_json(list(output.key))[:12]
        cases[case] = {"subject": output.subject, "kind": None}
        rows.append([case, "", "", "", "", "", output.response, texts[output.record_id]])
        own = by_response.get(output.key)
        for number, row in enumerate([] if own is None else own.to_dict("records"), 1):
            cases[f"{case}-{number}"] = {"subject": output.subject, "kind": row["kind"]}
            rows.append([f"{case}-{number}", "", "", "", row["kind"], row["value"], "", ""])
    return cases, [[harmless(cell) for cell in row] for row in rows]


def _read_sheet(path: Path, cases: Mapping[str, Any], labels: dict[str, bool]) -> list[_Verdict]:
    known = {*kinds(), *term_lists().contents}
    missed: list[_Verdict] = []
    problems: list[str] = []
    for line, row in rows_of(path):
        name, label = row["case_id"].strip(), row["label"].strip().lower()
        case = cases.get(name)
        if case is None:
            problems.append(f"line {line}: case_id {name!r} is not of this review")
            continue
        if label and (case["kind"] is None or label not in _ANSWERS):
            problems.append(f"line {line}: label {label!r} belongs to no finding, or is neither yes nor no")
        elif label and labels.setdefault(name, _ANSWERS[label]) != _ANSWERS[label]:
            problems.append(f"line {line}: case_id {name!r} has another verdict already")
        # ``name: Ada Vane; age: 61``
        for part in (row.get("missed") or "").split(";"):
            kind = part.partition(":")[0].strip().lower()
            if kind in known:
                missed.append(_Verdict(kind, case["subject"], False, True))
            elif part.strip():
                problems.append(f"line {line}: {kind!r} is no kind; write `kind: value; kind: value`")
    if problems:
        more = f" ({len(problems)} such in all)" if len(problems) > _SHOWN else ""
        raise SourceError(f"{path}: " + "; ".join(problems[:_SHOWN]) + more + ".")
    return missed
