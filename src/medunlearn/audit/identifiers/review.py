"""Manual review of findings: a sheet of sampled responses, and the counts after the reviewers' corrections.

The sheet is a CSV: a row per finding, to be marked right or wrong, and a row per response for identifiers that were
missed. It holds record text and is private to its owner; ``review.json`` beside it has the subject and kind of each
case and no text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.audit_tables import KEY, leaked
from medunlearn.audit.identifiers.kinds import kinds
from medunlearn.audit.identifiers.leak_tables import shares
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.audit.identifiers.sensitive import term_lists
from medunlearn.data.records import Record
from medunlearn.data.storage import read_json, refuse_existing, sha256_of_json, write_json
from medunlearn.errors import InputError, SourceError
from medunlearn.judging.labels import LabelSheet, refuse_problems, rows_of
from medunlearn.metrics.text import rouge_l_recalls
from medunlearn.seeds import generator
from medunlearn.statistics.bootstrap import REPLICATES

FILE, CASES = "review.csv", "review.json"
SHEET = LabelSheet(
    {"yes": "yes", "no": "no"},
    shows=("kind", "value", "response", "record"),
    blanks=("label", "missed", "comment"),
    noun="the findings of this review",
)
NUMBER, LEAST_ROUGE = 200, 0.2
"""The paper's sample: 200 responses of ROUGE-L above 0.2 (Table 10)."""


def write_review(
    outputs: Sequence[RecordResponse],
    records: Sequence[Record],
    findings: pd.DataFrame,
    out: Path,
    *,
    number: int = NUMBER,
    least_rouge: float = LEAST_ROUGE,
    seed: int = 0,
) -> Path:
    """Sample responses that overlap strongly with their records, and write a review sheet.

    Args:
        findings: identifiers and sensitive content; the leaks are reviewed.
        number: responses at most.

    Raises:
        InputError: ``out`` holds a sheet, or no response is similar enough.
    """
    refuse_sheet(out)
    sample, similar = sample_similar(outputs, records, least_rouge, number, seed)
    texts = {record.record_id: record.text for record in records}
    values = leaked(findings).drop_duplicates([*KEY, "kind", "key"]).groupby(KEY)[["kind", "value"]]
    by_response = {key: pairs.to_numpy().tolist() for key, pairs in values}
    cases: dict[str, Any] = {}
    rows = []
    for output in sample:
        case = sha256_of_json(list(output.key))[:12]
        cases[case] = {"subject": output.subject, "kind": None}
        rows.append((case, "", "", output.response, texts[output.record_id]))
        for place, (kind, value) in enumerate(by_response.get(output.key, ()), 1):
            cases[f"{case}-{place}"] = {"subject": output.subject, "kind": kind}
            rows.append((f"{case}-{place}", kind, value, "", ""))
    SHEET.write(out / FILE, rows)
    write_json(out / CASES, {"cases": cases, "responses": len(sample), "of": similar, "least_rouge": least_rouge})
    return out / FILE


def refuse_sheet(out: Path) -> None:
    """Refuse a folder with a sheet. Raises InputError."""
    refuse_existing(out / FILE, out / CASES, why="it may contain labels")


def sample_similar(
    outputs: Sequence[RecordResponse], records: Sequence[Record], least: float, number: int, seed: int
) -> tuple[list[RecordResponse], int]:
    """A seeded sample of responses whose ROUGE-L recall of the rest of their record is above ``least``.

    Returns:
        At most ``number`` responses in their order, and the number that they were drawn from.

    Raises:
        InputError: no response is similar enough.
    """
    texts = {record.record_id: record.text for record in records}
    with_text = [output for output in outputs if texts.get(output.record_id)]
    rest = [texts[output.record_id].removeprefix(output.prefix) for output in with_text]
    scores = rouge_l_recalls([output.response for output in with_text], rest)
    similar = [
        output for output, score in zip(with_text, scores, strict=True) if score is not None and score > least
    ]
    if not similar:
        raise InputError(f"No response has a ROUGE-L above {least} with its record. Give a lower --least-rouge.")
    places = generator("identifier review", seed).permutation(len(similar))[:number]
    return [similar[place] for place in sorted(places.tolist())], len(similar)


def read_review(
    folder: Path, sheets: Sequence[Path] = (), *, replicates: int = REPLICATES, seed: int = 0
) -> pd.DataFrame:
    """Counts after the reviewers' corrections.

    Args:
        sheets: filled in; none: the one in the folder. Two verdicts on one case must agree.

    Returns:
        One row per kind, and ``all``: found, confirmed, rejected, open (no verdict), missed, corrected (confirmed
        and missed); precision (confirmed of those with a verdict) and recall (confirmed of confirmed and missed),
        0-1, each with an interval over subjects; reason for a missing number.

    Raises:
        SourceError: a sheet that cannot be read, a verdict other than yes or no, an unknown kind.
    """
    cases: Mapping[str, Any] = read_json(folder / CASES)["cases"]
    paths = sheets or [folder / FILE]
    missed = [row for path in paths for row in _missed(path, cases)]
    labels = SHEET.read(paths, [name for name, case in cases.items() if case["kind"]])
    if not labels and not missed:
        raise SourceError("No case has a verdict yet. Write yes or no into the column `label`.")
    judged = [(cases[name]["kind"], cases[name]["subject"], True, label == "yes") for name, label in labels.items()]
    verdicts = pd.DataFrame([*judged, *missed], columns=["kind", "subject", "found", "right"])
    finding_kinds = pd.Series([case["kind"] for case in cases.values() if case["kind"]], dtype="str")
    draws = {"replicates": replicates, "seed": seed}
    rows = [_corrected_count("all", len(finding_kinds), verdicts, draws)]
    for name in reversed((*kinds(), *term_lists())):
        kind_verdicts = verdicts[verdicts["kind"] == name]
        if (finding_kinds == name).any() or len(kind_verdicts):
            rows.insert(0, _corrected_count(name, int((finding_kinds == name).sum()), kind_verdicts, draws))
    return pd.DataFrame(rows)


def _corrected_count(kind: str, n_found: int, verdicts: pd.DataFrame, draws: Mapping[str, int]) -> dict[str, Any]:
    judged, true = verdicts[verdicts["found"]], verdicts[verdicts["right"]]
    confirmed, missed = int(judged["right"].sum()), len(verdicts) - len(judged)
    reasons = [] if len(judged) else ["no finding has a verdict"]
    reasons += [] if len(true) else ["nothing was confirmed or missed"]
    return {
        "kind": kind,
        "found": n_found,
        "confirmed": confirmed,
        "rejected": len(judged) - confirmed,
        "open": n_found - len(judged),
        "missed": missed,
        "corrected": confirmed + missed,
        **shares("precision", judged["right"], judged["subject"], **draws),
        **shares("recall", true["found"], true["subject"], **draws),
        "reason": "; ".join(reasons) or None,
    }


def _missed(path: Path, cases: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, bool]]:
    """Kind and subject of each missed identifier, written as ``name: Ada Vane; age: 61`` beside its response.

    Raises:
        SourceError: a case of another review, or an unknown kind.
    """
    kind_names = {*kinds(), *term_lists()}
    problems: list[str] = []
    for line, row in rows_of(path):
        case = cases.get(row["case_id"].strip())
        if case is None:
            problems.append(f"line {line}: case_id {row['case_id']!r} is not of this review")
            continue
        for part in (row.get("missed") or "").split(";"):
            kind = part.partition(":")[0].strip().lower()
            if kind in kind_names:
                yield kind, case["subject"], False, True
            elif part.strip():
                problems.append(f"line {line}: {kind!r} is no kind; write `kind: value; kind: value`")
    refuse_problems(path, problems)
