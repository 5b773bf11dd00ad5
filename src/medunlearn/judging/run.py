"""Judging run: a panel on labels, questions, documents or responses; resumes, and asks nothing twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.storage import sha256_of_json, write_atomically, write_text
from medunlearn.errors import InputError, MedunlearnError
from medunlearn.judging import get_task
from medunlearn.judging.cases import (
    case_table,
    categories_of,
    checked,
    document_cases,
    label_cases,
    per_group,
    per_subject,
    question_cases,
    read_cases,
    to_cases,
)
from medunlearn.judging.judges import Judge, JudgeSettings
from medunlearn.judging.panel import UNFINISHED, Asking, ask
from medunlearn.judging.panel import dry_run as estimates
from medunlearn.judging.sections import panel_sections, panel_words, people_sections
from medunlearn.judging.tables import JudgePanel, agreements, criteria, distribution, ratings
from medunlearn.judging.task import JudgingCase
from medunlearn.llm.estimate import CostEstimate
from medunlearn.llm.guard import Decision, decide
from medunlearn.llm.store import Store
from medunlearn.reports.blocks import Section
from medunlearn.results.runs import Recording, Run

LABEL = {
    "label": "judged labels",
    "question": "judged questions",
    "document": "judged documents",
    "factuality": "judged responses",
}
FROM_BENCHMARK = {"label": label_cases, "question": question_cases, "document": document_cases}


CASES, JUDGEMENTS, PANEL_FILE = "cases.parquet", "judgements.parquet", "panel.parquet"
VERDICTS, RATINGS, AGREEMENT = "verdicts.parquet", "ratings.parquet", "agreement.parquet"
CRITERIA, WORDS = "criteria.parquet", "judged.md"
LABELS, PEOPLE, CONFUSION, PEOPLE_WORDS = "labels.parquet", "people.parquet", "confusion.parquet", "people.md"


@dataclass(frozen=True)
class JudgingRun:
    """Run of a judge panel: its tables by name, and its Markdown.

    Attributes:
        run: the run; ``run.folder`` holds the tables.
    """

    run: Run

    @staticmethod
    def open(folder: Path | str) -> JudgingRun:
        """A complete run of `medunlearn judge`.

        Raises:
            InputError: it is another sort of run, or not complete.
        """
        run = Run.open(folder)
        if run.info.get("verb") != "judge":
            raise InputError(f"{folder} holds a run of `{run.info.get('verb')}`. Name one of `medunlearn judge`.")
        return JudgingRun(run)

    @cached_property
    def panel(self) -> JudgePanel:
        """Cases and judgements, ready to be counted."""
        inputs, config = self.run.info["inputs"], self.run.info["config"]
        task = get_task(inputs["task"])
        cases = to_cases(self.table(CASES), task)
        judges = list(inputs["judges"])
        return JudgePanel(task, cases, judges, self.table(JUDGEMENTS), config["replicates"], config["seed"])

    def table(self, name: str) -> pd.DataFrame:
        """One of its tables; empty where this run has none of that name."""
        path = self.run.folder / name
        return pd.read_parquet(path) if path.exists() else pd.DataFrame()

    @property
    def words(self) -> str:
        """Its tables as Markdown."""
        return (self.run.folder / WORDS).read_text(encoding="utf-8")

    def sections(self) -> list[Section]:
        """Its tables for a report, with those about people where some have labelled its cases."""
        measured = self.table(PEOPLE)
        people = [] if measured.empty else people_sections(self.panel, self.table(CONFUSION), measured)
        return [*panel_sections(self.panel), *people]


def split_runs(runs: Sequence[Run]) -> tuple[list[Run], list[JudgingRun]]:
    """Separate model runs from judging runs."""
    judged = [JudgingRun.open(run.folder) for run in runs if run.info.get("verb") == "judge"]
    return [run for run in runs if run.info.get("verb") != "judge"], judged


@dataclass(frozen=True)
class JudgingMaterial:
    """Cases to judge, and what the guard must know of them.

    Attributes:
        asking: task, cases and settings.
        data_use: of the data; ``credentialed`` where nobody said.
        records: all that the prompts can hold something of.
    """

    asking: Asking
    data_use: Literal["open", "credentialed"]
    records: Sequence[Record]

    def decisions(self, judges: Sequence[Judge], *, permitted: bool) -> dict[str, Decision]:
        """The guard's decision on each judge's server."""
        return {
            judge.name: decide(
                judge.settings.base_url, data_use=self.data_use, records=self.records, permitted=permitted
            )
            for judge in judges
        }


def material(source: Benchmark | Path, task: str, settings: JudgeSettings) -> JudgingMaterial:
    """Cases of a benchmark (task ``label``, ``question`` or ``document``) or of a table (any task).

    Raises:
        InputError: no such task, none of the groups named, an unreadable table, nothing to judge.
    """
    chosen = get_task(task)
    if isinstance(source, Path):
        return material_of(read_cases(source, chosen), task, settings, "credentialed", ())
    if chosen.rates:
        raise InputError("A benchmark holds no responses to rate. Name a run and --benchmark, or a table.")
    cases = FROM_BENCHMARK[task](source)
    judged = {case.case_id for case in cases}
    about = judged | {q.record_id for q in source.questions if q.question_id in judged}
    records = [record for record in source.records if record.record_id in about]
    return material_of(cases, task, settings, source.data_use, records)


def material_of(
    cases: Sequence[JudgingCase],
    task: str,
    settings: JudgeSettings,
    data_use: Literal["open", "credentialed"],
    records: Sequence[Record],
) -> JudgingMaterial:
    if settings.per_group is not None and settings.limit is not None:
        raise InputError("per_group and limit are two ways of drawing a sample: give one of them.")
    known = {case.group for case in cases}
    unknown = [group for group in settings.groups if group not in known]
    if unknown:
        raise InputError(f"There is no group {unknown[0]!r} to judge. There are: {', '.join(sorted(known))}.")
    sample = [case for case in cases if not settings.groups or case.group in settings.groups]
    categories = categories_of(sample, get_task(task))
    if settings.per_group is not None:
        sample = per_group(sample, settings.per_group, settings.seed)
    if settings.limit is not None:
        sample = per_subject(sample, settings.limit, settings.seed)
    return JudgingMaterial(
        Asking(get_task(task), checked(sample, "the sample"), categories, settings), data_use, list(records)
    )


@dataclass(frozen=True)
class JudgingPlan:
    """Dry run: the cost of each judge, and the guard's decision on it."""

    estimates: Mapping[str, CostEstimate]
    decisions: Mapping[str, Decision]


def plan(
    what: JudgingMaterial, judges: Sequence[Judge], store_folder: Path, *, permitted: bool = False
) -> JudgingPlan:
    """Count what judging would send and cost; sends and writes nothing."""
    with Store.existing(store_folder) as store:
        return JudgingPlan(estimates(what.asking, judges, store), what.decisions(judges, permitted=permitted))


def judge(
    what: JudgingMaterial,
    judges: Sequence[Judge],
    out: Path,
    *,
    permitted: bool = False,
    again: bool = False,
    allow_missing: bool = False,
    store_folder: Path | None = None,
    inputs: Mapping[str, Any] | None = None,
    quiet: bool = False,
) -> JudgingRun:
    """Ask every judge about every case, and write judgements and tables. A complete run is returned as it is.

    Args:
        permitted: the user passed the permission flag of the guard.
        again: ask again what ended without a usable answer in an earlier run.
        allow_missing: finish though servers failed or the budget ended; those cases stay without a verdict.
        store_folder: of the answers; None for a folder in ``out``.
        inputs: what else the result depends on.

    Raises:
        InputError: the guard refuses, or ``out`` holds another run.
        MedunlearnError: some judgements are missing. All others are kept; the same call asks only for those.
    """
    asking = what.asking
    depends = {
        "task": asking.task.name,
        "prompt": asking.task.version,
        "cases": sha256_of_json([[c.case_id, c.subject, c.group, dict(c.fields)] for c in asking.cases]),
        "judges": {one.name: one.identity for one in judges},
        **(inputs or {}),
    }
    recording = Recording(out, "judge", LABEL[asking.task.name], asking.settings, depends)
    if recording.done and not again:
        return JudgingRun(Run.open(out))
    decisions = what.decisions(judges, permitted=permitted)
    for decision in decisions.values():
        decision.enforce()
    with recording.running():
        with recording.stage("ask"), Store(store_folder or out / "llm") as store:
            judgements, facts = ask(asking, judges, decisions, store, again=again, quiet=quiet)
        recording.info["results"] = {"judges": facts, "outcomes": _outcomes(judgements)}
        _write(out, CASES, case_table(asking.cases))
        _write(out, JUDGEMENTS, judgements)
        if not allow_missing:
            _refuse_unfinished(judgements, facts)
        with recording.stage("count"):
            settings = asking.settings
            names = [one.name for one in judges]
            _count(
                out, JudgePanel(asking.task, asking.cases, names, judgements, settings.replicates, settings.seed)
            )
    return JudgingRun(Run.open(out))


def _outcomes(judgements: pd.DataFrame) -> dict[str, dict[str, int]]:
    return {
        str(name): {str(status): int(n) for status, n in own["status"].value_counts().sort_index().items()}
        for name, own in judgements.groupby("judge", sort=False)
    }


def _refuse_unfinished(judgements: pd.DataFrame, facts: Mapping[str, Any]) -> None:
    missing = judgements[judgements["status"].isin(UNFINISHED)]
    if missing.empty:
        return
    halted = {f"{name}: {fact['halted']}" for name, fact in facts.items() if fact["halted"]}
    why = sorted(halted) or [f"{row['judge']}: {row['reason']}" for row in missing.head(1).to_dict("records")]
    raise MedunlearnError(
        f"{len(missing)} of {len(judgements)} judgements are missing ({'; '.join(why)}). All others are kept; give "
        "the same command again and only these are asked for, or add --allow-missing to go on without them."
    )


def _count(out: Path, panel: JudgePanel) -> None:
    counted = {RATINGS: ratings(panel)} if panel.task.rates else {VERDICTS: distribution(panel)}
    tables = {
        PANEL_FILE: panel.panel_verdicts(),
        AGREEMENT: agreements(panel),
        CRITERIA: criteria(panel),
        **counted,
    }
    for name, table in tables.items():
        if len(table) or name == PANEL_FILE:
            _write(out, name, table)
    write_text(out / WORDS, panel_words(panel))


def _write(out: Path, name: str, table: pd.DataFrame) -> None:
    write_atomically(out / name, table.to_parquet)
