"""CSV sheet for a person who sorts spans into kinds, blind to rules and judge."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from medunlearn.audit.judge import UNCLEAR
from medunlearn.audit.kinds.rules import KindLabel, MemorizedSpan, kinds
from medunlearn.data.storage import write_atomically, writer
from medunlearn.errors import InputError, SourceError, unknown_name
from medunlearn.judging.labels import harmless, rows_of

_COLUMNS = ("span_id", "kind", "comment", "span")


def write_sheet(path: Path, spans: Mapping[str, MemorizedSpan]) -> None:
    """One row per span, with kind and comment to fill in. It holds record text and is private to its owner.

    Raises:
        InputError: the file exists and may hold somebody's work.
    """
    if path.exists():
        raise InputError(
            f"{path} is there already, and may hold kinds that somebody filled in. Choose another file."
        )
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\r\n")
    rows.writerow(_COLUMNS)
    for name, span in spans.items():
        rows.writerow((harmless(name), "", "", harmless(" ".join(span.text.split()))))
    # Spreadsheets need the byte order mark to read UTF-8.
    content = ("\ufeff" + buffer.getvalue()).encode()

    def private(part: Path) -> None:
        writer(content)(part)
        part.chmod(0o600)

    write_atomically(path, private)


def read_sheet(path: Path, spans: Sequence[str]) -> dict[str, KindLabel]:
    """Kinds by span id; ``unclear`` is no kind, empty rows are left out.

    Args:
        spans: allowed ids.

    Raises:
        SourceError: no such file, a missing column, unknown kinds or spans, a span with two kinds; all with their
            lines.
    """
    ids = {harmless(name): name for name in spans} | {name: name for name in spans}
    labels: dict[str, KindLabel] = {}
    problems = []
    for line, row in rows_of(path, ("span_id", "kind")):
        kind, name = row["kind"].strip().lower(), ids.get(row["span_id"].strip())
        if not kind:
            continue
        if name is None:
            problems.append(f"line {line}: span_id {row['span_id']!r} is not among the spans")
        elif kind not in (*kinds(), UNCLEAR):
            problems.append(f"line {line}: {unknown_name('kind', kind, (*kinds(), UNCLEAR))}")
        elif name in labels:
            problems.append(f"line {line}: span_id {name!r} has a kind further up")
        elif kind == UNCLEAR:
            labels[name] = KindLabel(None, "the person finds that no kind fits")
        else:
            labels[name] = KindLabel(kind)
    if problems:
        raise SourceError(f"{path}: " + "; ".join(problems))
    return labels
