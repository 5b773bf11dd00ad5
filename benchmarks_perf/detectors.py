"""Recall and precision of detectors on our fresh notes, by kind and by style: rules, tagger, both.

The notes (46, in eight styles) were written after the rules of `patterns` were finished. The table in
docs/results.md is the first and only measurement of the rules on them; a changed rule needs new notes.

    python -P benchmarks_perf/detectors.py                       rules, an installed spaCy pipeline, both, Presidio
    python -P benchmarks_perf/detectors.py --detectors patterns tagger:FOLDER
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from importlib.util import find_spec

import pandas as pd

from medunlearn.audit.identifiers.detectors import make_detector
from medunlearn.audit.identifiers.detectors.detected_spans import Detector
from medunlearn.audit.identifiers.detectors.spacy_tagger import installed_pipeline
from medunlearn.audit.identifiers.labelled_notes import labelled_styles
from medunlearn.audit.identifiers.recall import ALL, detector_recall, recall_by_style

REPLICATES = 2


def default_names() -> list[str]:
    """The rules, and with an installed spaCy pipeline that alone and in union; Presidio where it is installed."""
    names = ["patterns"]
    names += ["spacy", "patterns,spacy"] if installed_pipeline() else []
    return names + (["presidio"] if find_spec("presidio_analyzer") else [])


def cells(row: Mapping[str, object]) -> str:
    """``71/81 of 75``: found of labelled, right of detected."""
    return f"{row['found']}/{row['labelled']}, {row['right']}/{row['detected']}"


def markdown(tables: Mapping[str, pd.DataFrame], column: str) -> list[str]:
    """One row per kind or style, one column per detector."""
    names = list(tables)
    lines = [f"| {column} | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    rows = {name: {row[column]: row for row in table.to_dict("records")} for name, table in tables.items()}
    order = dict.fromkeys(key for of_detector in rows.values() for key in of_detector)
    for key in sorted(order, key=lambda key: key == ALL):
        if any(of_detector.get(key, {}).get("labelled") for of_detector in rows.values()):
            values = [cells(of_detector[key]) if key in of_detector else "0" for of_detector in rows.values()]
            lines.append(f"| {key} | {' | '.join(values)} |")
    return lines


def main() -> None:
    """Print both tables as Markdown: found of labelled, right of detected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--detectors", nargs="+", default=default_names())
    detectors: dict[str, Detector] = {name: make_detector(name) for name in parser.parse_args().detectors}
    notes = labelled_styles("fresh")
    print(f"{len(notes)} notes, {sum(len(note.spans) for note in notes)} labels; found/labelled, right/detected\n")
    start = time.process_time()
    by_kind = {name: detector_recall(made, notes, replicates=REPLICATES) for name, made in detectors.items()}
    print("\n".join(markdown(by_kind, "kind")), end="\n\n")
    by_style = {
        f"{name}: {group}": recall_by_style(made, "fresh", (group,))
        for name, made in detectors.items()
        for group in ("names", ALL)
    }
    print("\n".join(markdown(by_style, "style")), end="\n\n")
    print("; ".join(f"{name}: {made.version}" for name, made in detectors.items()))
    print(f"{time.process_time() - start:.1f} CPU seconds")


if __name__ == "__main__":
    main()
