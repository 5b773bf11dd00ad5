"""A person sorts spans into kinds: a CSV to fill in, blind to what rules and judges said, and the reading of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from medunlearn.audit.kinds.catalogue import kinds
from medunlearn.audit.kinds.rules import Sorted, Span
from medunlearn.data.storage import write_atomically, writer
from medunlearn.errors import InputError, SourceError, unknown_name
from medunlearn.judging.labels import harmless

UNCLEAR = "unclear"
_COLUMNS = ("span_id", "kind", "comment", "span")


def write_sheet(path: Path, spans: Mapping[str, Span]) -> None:
    """One row a span, kind and comment to fill in. The file holds records' text and is readable by its owner alone.

    Raises:
        InputError: a file is there already; somebody's work may be in it.
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
    # Spreadsheets take a file for UTF-8 only with this mark at its start.
    content = ("\ufeff" + buffer.getvalue()).encode()

    def private(part: Path) -> None:
        writer(content)(part)
        part.chmod(0o600)

    write_atomically(path, private)


def read_sheet(path: Path, spans: Sequence[str]) -> dict[str, Sorted]:
    """What a person filled in, by span id; ``unclear`` is no kind, and a row left empty is left out.

    Args:
        spans: the ids that may stand in it.

    Raises:
        SourceError: no such file, a column that is missing, a kind or span that is none, a span with two kinds;
            all of them with their lines.
    """
    ids = {harmless(name): name for name in spans} | {name: name for name in spans}
    found: dict[str, Sorted] = {}
    problems = []
    for line, row in _rows(path):
        kind, name = row["kind"].strip().lower(), ids.get(row["span_id"].strip())
        if not kind:
            continue
        if name is None:
            problems.append(f"line {line}: span_id {row['span_id']!r} is not among the spans")
        elif kind not in (*kinds(), UNCLEAR):
            problems.append(f"line {line}: {unknown_name('kind', kind, (*kinds(), UNCLEAR))}")
        elif name in found:
            problems.append(f"line {line}: span_id {name!r} has a kind further up")
        else:
            found[name] = Sorted(None, "the person finds that no kind fits") if kind == UNCLEAR else Sorted(kind)
    if problems:
        raise SourceError(f"{path}: " + "; ".join(problems))
    return found


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path} cannot be read as a CSV in UTF-8: {error}.") from error
    # Spreadsheets in many countries write semicolons.
    head = text.partition("\n")[0]
    reader = csv.DictReader(
        io.StringIO(text), delimiter=";" if head.count(";") > head.count(",") else ",", restval=""
    )
    if missing := {"span_id", "kind"} - set(reader.fieldnames or ()):
        raise SourceError(f"{path} lacks the column {', '.join(sorted(missing))}, which the sheet had.")
    return [(reader.line_num, row) for row in reader]
