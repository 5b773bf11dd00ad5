"""Agreement of judges with people, and of people with each other (AMNESIA, Appendix F.3 and Table 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.data.storage import write_frames, write_text
from medunlearn.judging.cases import sample_evenly
from medunlearn.judging.labels import People
from medunlearn.judging.panel_run import CONFUSION as CONFUSION_FILE
from medunlearn.judging.panel_run import LABELS, PEOPLE, PEOPLE_WORDS, JudgingRun
from medunlearn.judging.panel_tables import JudgePanel, Votes
from medunlearn.judging.rater_agreement import agreement_row
from medunlearn.judging.sections import people_words
from medunlearn.judging.sheet import write_sheet
from medunlearn.reports.view import ResultView
from medunlearn.statistics.agreement import confusion, fleiss_kappa
from medunlearn.statistics.bootstrap import bootstrap_mean

AGREEMENT = (
    *("measure", "annotator", "other", "value", "low", "high", "words"),
    *("n_cases", "n_excluded", "n_labelled", "n_subjects"),
)
CONFUSION = ("annotator", "judge", "human", "verdict", "n")


def confusion_counts(panel: JudgePanel, people: People) -> pd.DataFrame:
    """Counts of cases per annotator, judge (the panel last), human verdict and judge's verdict (Table 11).

    Verdicts other than Yes or No (Ambiguous, Disagree, none) are not counted; :func:`agreement_with_people` counts
    them.
    """
    categories = panel.task.decisive_verdicts
    rows = []
    for person, labels in people.items():
        for judge, votes in panel.verdicts().items():
            table = confusion(_labels_in_order(panel, labels), votes, categories)
            rows += [
                (person, judge, human, verdict, int(table[row, column]))
                for row, human in enumerate(categories)
                for column, verdict in enumerate(categories)
            ]
    return pd.DataFrame(rows, columns=list(CONFUSION))


def agreement_with_people(panel: JudgePanel, people: People) -> pd.DataFrame:
    """Agreement of each annotator with each judge and the panel, and of annotators among themselves.

    Measures: ``agreement`` and ``cohen_kappa`` on the cases that both decided; for ratings ``weighted_kappa``
    (quadratic) as well; ``both_positive``, the share of all labelled cases that both call positive. AMNESIA's
    text reads this last one (814 of 900, 90.4%) as the agreement of its annotator with its panel; Table 11(d)
    gives 831 of 897, 92.6%. ``fleiss_kappa`` where three or more annotators labelled the same cases.

    Returns:
        One row per measure, annotator and other (a judge, ``panel``, or another annotator): value, low, high,
        words, n_cases (behind the value), n_excluded (labelled, but without such a verdict), n_labelled,
        n_subjects.
    """
    categories = panel.task.decisive_verdicts
    rows: list[dict[str, Any]] = []
    labels_of = {person: _labels_in_order(panel, labels) for person, labels in people.items()}
    for person, labels in labels_of.items():
        for judge, votes in panel.verdicts().items():
            decisive = [vote if vote in categories else None for vote in votes]
            rows += _pair_rows(panel, (person, judge), (labels, decisive))
            if not panel.task.rates:
                rows.append(_both_positive_row(panel, (person, judge), labels, votes))
    for first, second in combinations(labels_of, 2):
        rows += _pair_rows(panel, (first, second), (labels_of[first], labels_of[second]))
    if len(labels_of) > 2:
        together = [list(of_case) for of_case in zip(*labels_of.values(), strict=True)]
        kappa = fleiss_kappa(together, panel.subjects, categories, **panel.bootstrap)
        shared = sum(None not in of_case for of_case in together)
        rows.append(_annotator_row(agreement_row("fleiss_kappa", "", "all", "", kappa), shared))
    return pd.DataFrame(rows, columns=list(AGREEMENT))


def _labels_in_order(panel: JudgePanel, labels: Mapping[str, str]) -> Votes:
    return [labels.get(case.case_id) for case in panel.cases]


def _pair_rows(panel: JudgePanel, names: tuple[str, str], votes: tuple[Votes, Votes]) -> Iterator[dict[str, Any]]:
    n_labelled = sum(label is not None for label in votes[0])
    for row in panel.pair_rows("", names, votes, panel.task.decisive_verdicts):
        yield _annotator_row(row, n_labelled)


def _both_positive_row(panel: JudgePanel, names: tuple[str, str], labels: Votes, votes: Votes) -> dict[str, Any]:
    places = [place for place, label in enumerate(labels) if label is not None]
    both = [float(labels[place] == votes[place] == panel.task.positive) for place in places]
    estimate = bootstrap_mean(both, [panel.subjects[place] for place in places], **panel.bootstrap)
    return _annotator_row(agreement_row("both_positive", "", *names, estimate), len(places))


def _annotator_row(row: dict[str, Any], n_labelled: int) -> dict[str, Any]:
    renamed = {"annotator": row["first"], "other": row["second"]}
    return row | renamed | {"n_labelled": n_labelled, "n_excluded": n_labelled - row["n_cases"]}


def annotate(judged: JudgingRun, out: Path, *, number: int | None = None, seed: int = 0) -> tuple[Path, Path]:
    """Write a CSV and a page for a person to label a panel's cases, without showing the panel's verdicts.

    Cases are drawn as evenly over groups as possible; all of them without a ``number``.

    Raises:
        InputError: there are fewer cases, or ``out`` already contains a sheet.
    """
    cases = judged.panel.cases
    sample = sample_evenly(cases, len(cases) if number is None else number, seed)
    return write_sheet(out, judged.panel.task, sample)


@dataclass(frozen=True)
class PeopleAgreement:
    """Labels of people, their agreement with judges, the counts behind it, and both tables as Markdown."""

    people: People
    agreement: pd.DataFrame
    confusion: pd.DataFrame
    words: str

    def view(self) -> ResultView:
        """Both tables in words."""
        return ResultView({"agreement": self.agreement, "confusion": self.confusion}, [self.words])


def agree(judged: JudgingRun, labels: Sequence[Path]) -> PeopleAgreement:
    """Compare a panel with people's labels; the tables are written into the panel's folder.

    Raises:
        SourceError: labels that cannot be read or do not fit.
    """
    panel = judged.panel
    people = panel.task.sheet.read_people(labels, [case.case_id for case in panel.cases])
    agreement, cells = agreement_with_people(panel, people), confusion_counts(panel, people)
    result = PeopleAgreement(people, agreement, cells, people_words(panel, cells, agreement))
    rows = [(person, case, verdict) for person, own in people.items() for case, verdict in own.items()]
    label_table = pd.DataFrame(rows, columns=["annotator", "case_id", "verdict"])
    tables = {LABELS: label_table, PEOPLE: agreement, CONFUSION_FILE: cells}
    write_frames(judged.run.folder, tables)
    write_text(judged.run.folder / PEOPLE_WORDS, result.words)
    return result
