"""The diagnosis report: Figures 6 and 7 of the memorization paper from one's own runs, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medunlearn.papers.memorization.report.drawing import Point, bar, bars, colour
from medunlearn.papers.memorization.report.figures import epoch_panels
from medunlearn.reports.blocks import Cell, Figure, Report, Spec, Table, Text, blocks, section
from medunlearn.reports.claims import Case, Evidence, Finding, findings_data, statements
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.tables import grid, records, value_cell
from medunlearn.reports.words import ABSENT, interval, signed

Row = Mapping[str, Any]

FOLDS = {"train": ", training records", "holdout": ", held-out records"}
EPOCHS = (
    "After each epoch; epoch 0 is the model before training. The line marks the epoch whose model was kept, the "
    "dashed one the epoch after which early stopping ends the training, or would have. Held-out records are in no "
    "model's training: what comes back of them is wording that records share, and no memorization."
)
NO_TEXT = "No text of a record or a response is in this report."
RISE = (
    "From the model before training to the epoch of the least validation loss, in pairs, over patients: the loss "
    "fell and the share of memorized training records rose, both with intervals that leave 0 out. It does not hold "
    "where one of them lies on the other side, or nothing was memorized."
)


@dataclass(frozen=True)
class DiagnosisContent:
    """Tables and facts of the report; no text of a record or response is in them.

    Attributes:
        benchmark: name, builder, source, data_use, counts, invented.
        part: the part whose admissions were asked about.
        gold: ``principal`` or ``any``: which diagnoses count as right.
        ks: the k of top-k.
        least_patients: of a specialty that is shown by itself.
        models: labels, the model in question first.
        accuracy: model, specialty ("" for all), k, value, low, high, n, n_subjects, n_unread.
        differences: model, against, specialty, k, difference, low, high, p, n_pairs, n_subjects; may be empty.
        epochs: epoch, measure, fold, metric, value, low, high, n_scored, n_unscored; may be empty.
        best: epoch of the least validation loss; None where it was not measured.
        chosen: epoch whose model is the run's.
        stop: epoch after which early stopping ends (or would have ended) the training; None: it does not.
        patience: of that early stopping.
        small: specialties with fewer patients -> their number.
        rise: one entry a length of run (:class:`~medunlearn.papers.memorization.diagnosis.rise.Rise`).
        replicates: bootstrap draws behind an interval.
    """

    title: str
    benchmark: Mapping[str, Any]
    part: str
    gold: str
    ks: tuple[int, ...]
    least_patients: int
    models: tuple[str, ...]
    accuracy: pd.DataFrame
    differences: pd.DataFrame
    epochs: pd.DataFrame
    best: int | None
    chosen: int | None
    stop: int | None
    patience: int
    small: Mapping[str, int]
    rise: tuple[Mapping[str, Any], ...]
    replicates: int


def diagnosis_report(content: DiagnosisContent) -> Report:
    """Blocks and numbers of a diagnosis report."""
    small, stop = small_specialties(content), stopping(content)
    lines, rise = epochs_figure(content), rise_finding(content)
    specialties = specialty_figure(content)
    accuracy = section(
        "Top-k accuracy",
        Text(_counting(content)),
        _wide(accuracy_figure(content), "top-k accuracy of each model"),
        section(f"By specialty, top-{min(content.ks)}", _wide(specialties, "accuracy by medical specialty")),
        accuracy_table(content),
        Text(small, "aside") if small else None,
        section("Differences", difference_table(content)),
        name="accuracy",
    )
    epochs = section(
        "Epoch by epoch",
        Text(EPOCHS) if lines else None,
        Text(stop) if stop else None,
        _wide(lines, "memorization, validation loss and accuracy by epoch"),
        epoch_table(content),
        statements([rise]) if rise else None,
        name="epochs",
    )
    facts = (
        ("Models", ", ".join(content.models)),
        ("Benchmark", f"{content.benchmark['name']}, data use: {content.benchmark['data_use']}"),
        ("Asked about", f"the {content.part} part"),
        ("Right is", _right(content)),
    )
    data = {
        **{name: getattr(content, name) for name in ("benchmark", "models", "best", "chosen", "stop", "rise")},
        **{name: getattr(content, name) for name in ("accuracy", "differences", "epochs")},
        "findings": findings_data([rise] if rise else []),
    }
    return Report(content.title, blocks(accuracy, epochs, Text(NO_TEXT, "aside")), "Diagnosis report", facts, data)


def _wide(spec: Spec | None, label: str) -> Figure | None:
    return None if spec is None else Figure(spec, f"{label}. The numbers are in the tables.", size="wide")


def _right(content: DiagnosisContent) -> str:
    return "the principal diagnosis" if content.gold == "principal" else "any of the patient's diagnoses"


def _counting(content: DiagnosisContent) -> str:
    return (
        f"A response is right at k if {_right(content)} is among the first k that it names, by name or synonym. A "
        "response in which no diagnosis can be read is wrong, and counted as one without a list. Intervals: 95%, "
        f"{content.replicates:,} bootstrap draws of patients; differences are paired on patients, and no p is "
        "corrected for the number of comparisons."
    )


def small_specialties(content: DiagnosisContent) -> str:
    """The specialties that are not shown, in a sentence."""
    if not content.small:
        return ""
    names = ", ".join(f"{name} ({n})" for name, n in content.small.items())
    return f"Specialties with fewer than {content.least_patients} patients are not shown by themselves: {names}."


def stopping(content: DiagnosisContent) -> str:
    """The epoch after which early stopping ends the training, in a sentence."""
    if content.best is None:
        return ""
    at = f"ends after epoch {content.stop}" if content.stop is not None else "does not end"
    return (
        f"The least validation loss is that of epoch {content.best}; with a patience of {content.patience} the "
        f"training {at}. The model is epoch {content.chosen}'s."
    )


def accuracy_figure(content: DiagnosisContent) -> Spec:
    """Top-k accuracy of each model on all admissions: Figure 6 (A)."""
    rows = [row | {"k": f"top-{row['k']}"} for row in _accuracies(content) if not row["specialty"]]
    return _bars(content, rows, "k")


def specialty_figure(content: DiagnosisContent) -> Spec | None:
    """Accuracy at the smallest k by specialty: Figure 6 (B); None where none has enough patients."""
    rows = [row for row in _accuracies(content) if row["specialty"] and row["k"] == min(content.ks)]
    return _bars(content, rows, "specialty") if rows else None


def _accuracies(content: DiagnosisContent) -> list[dict[str, Any]]:
    return [dict(row) for row in rows_of(content.accuracy)]


def _bars(content: DiagnosisContent, rows: list[dict[str, Any]], column: str) -> Spec:
    data = [
        bar(label, [row for row in rows if row["model"] == label], column, colour(place))
        for place, label in enumerate(content.models)
    ]
    spec = bars(data, column, "accuracy")
    spec["layout"]["yaxis"] |= {"range": [0, 1]}
    return spec


def epochs_figure(content: DiagnosisContent) -> Spec | None:
    """Memorization, validation loss and accuracy by epoch, side by side: Figure 7; None where nothing was watched.

    In each, a line marks the chosen epoch, and a dashed one the epoch after which early stopping ends the training.
    """
    lines: dict[str, list[Point]] = {}
    for row in sorted(rows_of(content.epochs), key=lambda row: int(row["epoch"])):
        name = f"{row['measure']}{' (held out)' if row['fold'] == 'holdout' else ''}"
        edges = (number(row["value"]), number(row["low"]), number(row["high"]))
        lines.setdefault(name, []).append((float(row["epoch"]), *edges))
    starts = {"memorized records": "memorization,", "validation loss": "validation loss", "accuracy": "top-"}
    groups = [(title, [name for name in lines if name.startswith(start)]) for title, start in starts.items()]
    shown = {name: lines[name] for _, names in groups for name in names}
    marks = ((content.chosen, "solid"), (content.stop, "dash"))
    styles = [(epoch, {"color": "--ink", "dash": dash}) for epoch, dash in marks if epoch is not None]
    return epoch_panels(groups, shown, styles)


def accuracy_table(content: DiagnosisContent) -> Table | None:
    """One row a specialty and k, one column a model (Figure 6)."""
    patients = {
        (row["specialty"], row["k"]): Cell(f"{row['n_subjects']:,}") for row in reversed(_accuracies(content))
    }
    entries = [
        (_place(row), str(row["model"]), value_cell(row, *_count(row["n_unread"], "without a list")))
        for row in _accuracies(content)
    ]
    entries += [(_place({"specialty": name, "k": k}), "Patients", cell) for (name, k), cell in patients.items()]
    return grid("Specialty, k", entries, [*content.models, "Patients"])


def _place(row: Row) -> Cell:
    return Cell(f"{row['specialty'] or 'all'}, top-{row['k']}")


def _count(n: int, of: str) -> tuple[str, ...]:
    return (f"{n:,} {of}",) if n else ()


def difference_table(content: DiagnosisContent) -> Table | None:
    """One row a comparison: the difference with its interval and p; None without any."""
    rows = (
        (
            _place(row),
            Cell(f"{row['model']} minus {row['against']}"),
            _gap(row),
            Cell(ABSENT if (p := number(row["p"])) is None else f"{p:.4f}"),
            Cell(f"{row['n_subjects']:,}"),
        )
        for row in rows_of(content.differences)
    )
    return records(map(Cell, ("Specialty, k", "Models", "Difference", "p", "Patients")), rows)


def _gap(row: Row) -> Cell:
    difference = number(row["difference"])
    return Cell(ABSENT) if difference is None else Cell(signed(difference), _interval(row))


def _interval(row: Row) -> str:
    return interval(number(row["low"]), number(row["high"]))


def epoch_table(content: DiagnosisContent) -> Table | None:
    """One row a measure, one column an epoch: the numbers of Figure 7; None where nothing was watched."""
    rows = [row for row in rows_of(content.epochs) if row["measure"] != row["metric"]]
    if not rows:
        return None
    epochs = sorted({int(row["epoch"]) for row in rows})
    lines: dict[str, dict[int, Cell]] = {}
    for row in rows:
        cells = lines.setdefault(f"{row['measure']}{FOLDS.get(str(row['fold']), '')}", {})
        cells[int(row["epoch"])] = value_cell(row, *_count(row["n_unscored"], "unscored"))
    columns = (Cell("Epoch"), *(Cell(str(epoch), ", ".join(_marks(content, epoch))) for epoch in epochs))
    return Table(
        columns,
        tuple((Cell(name), *(of.get(epoch, Cell(ABSENT)) for epoch in epochs)) for name, of in lines.items()),
    )


def _marks(content: DiagnosisContent, epoch: int) -> Iterator[str]:
    yield from (name for name, at in (("chosen", content.chosen), ("early stop", content.stop)) if at == epoch)


def rise_finding(content: DiagnosisContent) -> Finding | None:
    """Whether memorization rises while the loss falls, a case a length of run; None where not watched."""
    cases = []
    for one in content.rise:
        names = {"loss": "validation loss", "trained": "memorized, training", "held_out": "memorized, held out"}
        evidence = tuple(_evidence(words, one[name]) for name, words in names.items() if one[name])
        loss, trained = (one[name]["difference"] for name in ("loss", "trained"))
        says = "unscored" if None in (loss, trained) else f"loss {signed(loss)}, memorized {signed(trained)}"
        labels = {"run": f"{one['tokens']} tokens", "epochs": f"{one['first']} to {one['last']}"}
        cases.append(Case(labels, one["verdict"], says, evidence))
    claim = "Memorization rises while the validation loss still falls."
    return Finding("rise", claim, RISE, tuple(cases), needs="watch memorization and loss") if cases else None


def _evidence(name: str, gap: Row) -> Evidence:
    return Evidence(name, gap["difference"], gap["low"], gap["high"], gap["n_clusters"])
