"""Judging run: a panel on labels, questions, documents or responses; resumes without repeating requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config import JudgeSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, use_of_file
from medunlearn.data.origins import Provenance, any_drawn, is_rehearsal_model
from medunlearn.data.records import Record
from medunlearn.data.storage import read_frame, sha256_of_json, write_frames, write_text
from medunlearn.errors import ConfigError, InputError, MedunlearnError
from medunlearn.judging.cases import (
    case_table,
    categories_of,
    check_cases,
    document_cases,
    forgotten_ids,
    label_cases,
    question_cases,
    read_cases,
    sample_per_group,
    sample_per_subject,
    to_cases,
)
from medunlearn.judging.controls import ask_controls, control_counts, control_material
from medunlearn.judging.judges import Judge
from medunlearn.judging.panel import VERDICTS_ON, JudgingMaterial, ask
from medunlearn.judging.panel_tables import JudgePanel, agreements, criteria, distribution, ratings
from medunlearn.judging.sections import panel_sections, panel_words, people_sections
from medunlearn.judging.tasks import JudgingCase, JudgingTask, get_task
from medunlearn.llm.estimate import CostEstimate, estimate
from medunlearn.llm.faults import next_step
from medunlearn.llm.guard import Decision
from medunlearn.llm.requests import UNFINISHED
from medunlearn.llm.store import Store
from medunlearn.llm.usage import in_money
from medunlearn.reports.blocks import Section
from medunlearn.reports.view import ResultView, plain_table
from medunlearn.results.runs import Recording, Run

LABEL = {
    "label": "judged labels",
    "question": "judged questions",
    "document": "judged documents",
    "factuality": "judged responses",
}
FROM_BENCHMARK = {"label": label_cases, "document": document_cases}

CASES, JUDGEMENTS, PANEL_FILE = "cases.parquet", "judgements.parquet", "panel.parquet"
VERDICTS, RATINGS, AGREEMENT = "verdicts.parquet", "ratings.parquet", "agreement.parquet"
CRITERIA, WORDS, CONTROLS = "criteria.parquet", "judged.md", "controls.parquet"
LABELS, PEOPLE, CONFUSION, PEOPLE_WORDS = "labels.parquet", "people.parquet", "confusion.parquet", "people.md"


@dataclass(frozen=True)
class JudgingRun:
    """Run of a judge panel, with its tables by name and as Markdown."""

    run: Run

    @staticmethod
    def open(folder: Path | str) -> JudgingRun:
        """Open a complete run of `medunlearn judge`.

        Raises:
            InputError: it is another kind of run, or not complete.
        """
        run = Run.open(folder)
        if run.info.get("verb") != "judge":
            raise InputError(f"{folder} holds a run of `{run.info.get('verb')}`. Name one of `medunlearn judge`.")
        return JudgingRun(run)

    @cached_property
    def panel(self) -> JudgePanel:
        """Cases and judgements as a panel."""
        inputs, config = self.run.info["inputs"], self.run.info["config"]
        task = _with_prompt(inputs["task"], JudgeSettings.model_validate({"prompt": config.get("prompt")}))
        cases = to_cases(read_frame(self.run.folder / CASES, ("case_id", "subject", "group", *task.shows)), task)
        judges, draws = list(inputs["judges"]), (config["replicates"], config["seed"])
        return JudgePanel(
            task, cases, judges, self.table(JUDGEMENTS), *draws, self.table(CONTROLS), self.provenance
        )

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        """Origin of each judge's verdicts; for a run of an older version, what its record has."""
        task = str(self.run.info["inputs"]["task"])
        return tuple(_provenance(task, facts) for facts in self.run.info["results"]["judges"].values())

    @property
    def drawn(self) -> bool:
        """True if any judge's verdicts were drawn at random."""
        return any_drawn(self.provenance)

    @property
    def is_whole(self) -> bool:
        """True if every judge was asked about every case."""
        outcomes = self.run.info["results"]["outcomes"].values()
        return not any(counts.get(status) for counts in outcomes for status in UNFINISHED)

    def table(self, name: str) -> pd.DataFrame:
        """One of its tables; empty if the run has no table of that name."""
        path = self.run.folder / name
        return read_frame(path) if path.exists() else pd.DataFrame()

    @property
    def words(self) -> str:
        """Its tables as Markdown."""
        return (self.run.folder / WORDS).read_text(encoding="utf-8")

    def view(self) -> ResultView:
        """Its tables in words, and their place."""
        place = f"{self.run.folder}: judged.md, and its tables as Parquet"
        data = {"folder": str(self.run.folder), **self.run.info["results"]}
        return ResultView(data, [self.words], notes=[place])

    def sections(self) -> list[Section]:
        """Its tables for a report, including agreement with people if its cases have human labels."""
        measured = self.table(PEOPLE)
        people = [] if measured.empty else people_sections(self.panel, self.table(CONFUSION), measured)
        return [*panel_sections(self.panel), *people]


def _provenance(task: str, facts: Mapping[str, Any]) -> Provenance:
    """Origin of a judge's verdicts, from its facts; those of an older version name the model alone."""
    if isinstance(entry := facts.get("provenance"), Mapping):
        return Provenance.of(entry)
    model = str((facts.get("settings") or {}).get("model", ""))
    return Provenance(VERDICTS_ON.get(task, task), model, drawn=True if is_rehearsal_model(model) else None)


def split_runs(runs: Sequence[Run]) -> tuple[list[Run], list[JudgingRun]]:
    """Separate model runs from judging runs."""
    judged = [JudgingRun.open(run.folder) for run in runs if run.info.get("verb") == "judge"]
    return [run for run in runs if run.info.get("verb") != "judge"], judged


def gather_material(source: Benchmark | Path, task: str, settings: JudgeSettings) -> JudgingMaterial:
    """Cases of a benchmark (task ``label``, ``question`` or ``document``) or of a table (any task).

    Raises:
        InputError: no such task, an unknown group, an unreadable table, nothing to judge.
    """
    if isinstance(source, Path):
        if settings.splits or settings.probes:
            raise InputError("--splits and --probes go with a benchmark; a table has neither.")
        return sample_material(read_cases(source, get_task(task)), task, settings, use_of_file(source), ())
    if get_task(task).rates:
        raise InputError("A benchmark holds no responses to rate. Name a run and --benchmark, or a table.")
    if task == "question":
        cases = question_cases(source, settings.folds, settings.probes)
    elif settings.probes is None:
        cases = FROM_BENCHMARK[task](source)
    else:
        raise InputError(f"--probes names questions, and the task {task} has none. Leave it out.")
    if settings.splits:
        case_ids = forgotten_ids(source, settings.splits)
        cases = [case for case in cases if case.case_id in case_ids]
    ids = {case.case_id for case in cases}
    about = ids | {q.record_id for q in source.questions if q.question_id in ids}
    records = [record for record in source.records if record.record_id in about]
    return sample_material(cases, task, settings, source.data_use, records)


def sample_material(
    cases: Sequence[JudgingCase],
    task: str,
    settings: JudgeSettings,
    data_use: DataUse | None,
    records: Sequence[Record],
) -> JudgingMaterial:
    """Draw the sample described by the settings; see :func:`gather_material`."""
    if settings.per_group is not None and settings.limit is not None:
        raise InputError("per_group and limit are two ways of drawing a sample: give one of them.")
    groups = {case.group for case in cases}
    unknown = [group for group in settings.groups if group not in groups]
    if unknown:
        raise InputError(f"There is no group {unknown[0]!r} to judge. There are: {', '.join(sorted(groups))}.")
    sample = [case for case in cases if not settings.groups or case.group in settings.groups]
    worded_task = _with_prompt(task, settings)
    categories = categories_of(sample, worded_task)
    if settings.per_group is not None:
        sample = sample_per_group(sample, settings.per_group, settings.seed)
    if settings.limit is not None:
        sample = sample_per_subject(sample, settings.limit, settings.seed)
    sample = check_cases(sample, "the sample")
    return JudgingMaterial(worded_task, sample, categories, settings, data_use, list(records))


def _with_prompt(task: str, settings: JudgeSettings) -> JudgingTask:
    """The task with the user's prompt, if the settings name one.

    Raises:
        ConfigError: a placeholder is missing or unknown.
    """
    try:
        return get_task(task).worded_as(settings.prompt)
    except ValueError as error:
        raise ConfigError([f"prompt: {error}"]) from None


@dataclass(frozen=True)
class JudgingPlan:
    """Dry run: the cost of each judge, and the guard's decision on it."""

    estimates: Mapping[str, CostEstimate]
    decisions: Mapping[str, Decision]

    def view(self) -> ResultView:
        """Requests, tokens and money of each judge."""
        rows, data = [], {}
        for name, cost in self.estimates.items():
            data[name] = {"estimate": cost.to_json(), "guard": self.decisions[name].to_json()}
            money = "no price" if cost.most.money is None else f"at most {in_money(cost.most.money)}"
            rows.append((name, cost.requests, cost.stored, cost.likely.tokens, cost.most.tokens, money))
        columns = ("judge", "requests", "need none", "likely tokens", "at most", "money")
        reasons = dict.fromkeys(decision.reason for decision in self.decisions.values())
        return ResultView(data, [plain_table(columns, rows, "Nothing was sent."), *reasons])


def plan(
    material: JudgingMaterial,
    judges: Sequence[Judge],
    store_folder: Path,
    *,
    permitted: bool = False,
    again: bool = False,
) -> JudgingPlan:
    """Count the requests of a judging run and their cost; sends and writes nothing."""
    controls = control_material(material)
    with Store.existing(store_folder) as store:
        estimates = {
            judge.name: estimate(
                chain(material.requests(), controls.requests()), judge.settings, store, again=again
            )
            for judge in judges
        }
    return JudgingPlan(estimates, material.decisions(judges, permitted=permitted))


def judge(
    material: JudgingMaterial,
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
    """Ask every judge about every case, and write judgements and tables. A complete run is returned unchanged.

    A run finished with ``allow_missing`` resumes when called without it.

    Args:
        permitted: the user passed the guard's permission flag.
        again: repeat requests without a usable answer in an earlier run.
        allow_missing: finish even if servers failed or the budget ran out; those cases have no verdict.
        inputs: further inputs that the result depends on.

    Raises:
        InputError: the guard refuses, or ``out`` holds another run.
        MedunlearnError: some judgements are missing. All others are stored; the same call requests only the missing
            ones.
    """
    depends = {
        "task": material.task.name,
        "prompt": material.task.version,
        "cases": sha256_of_json([[c.case_id, c.subject, c.group, dict(c.fields)] for c in material.cases]),
        "judges": {judge.name: judge.identity for judge in judges},
        **(inputs or {}),
    }
    settings = material.settings
    recording = Recording(out, "judge", LABEL[material.task.name], settings, depends, data_use=material.data_use)
    if recording.done and not again:
        judged = JudgingRun(Run.open(out))
        if allow_missing or judged.is_whole:
            return judged
    material = replace(material, data_use=recording.info.data_use)  # a run that was cut off is never loosened
    decisions = material.decisions(judges, permitted=permitted)
    for decision in decisions.values():
        decision.enforce()
    with recording.running():
        with recording.stage("ask"), Store(store_folder or out / "llm") as store:
            judgements, facts = ask(material, judges, decisions, store, again=again, quiet=quiet)
        outcomes = {
            str(name): {str(status): int(n) for status, n in own.value_counts().sort_index().items()}
            for name, own in judgements.groupby("judge", sort=False)["status"]
        }
        recording.info["results"] = {"judges": facts, "outcomes": outcomes}
        _write_tables(out, {CASES: case_table(material.cases), JUDGEMENTS: judgements})
        for name in (PEOPLE, CONFUSION, PEOPLE_WORDS):
            (out / name).unlink(missing_ok=True)  # they compare people with the judgements before these
        if not allow_missing:
            refuse_unfinished(judgements, facts)
        with recording.stage("ask controls"), Store(store_folder or out / "llm") as store:
            controls, of_controls = ask_controls(material, judges, decisions, store, again=again)
        for name, counts in control_counts(controls).items():
            facts[name]["provenance"]["controls"] = counts
        recording.info["results"]["controls"] = of_controls
        _write_tables(out, {CONTROLS: controls})
        with recording.stage("count"):
            panel = JudgePanel(
                material.task,
                material.cases,
                [judge.name for judge in judges],
                judgements,
                settings.replicates,
                settings.seed,
                controls,
                tuple(_provenance(material.task.name, fact) for fact in facts.values()),
            )
            _write_tables(out, _tables_of(panel))
            write_text(out / WORDS, panel_words(panel))
    return JudgingRun(Run.open(out))


def refuse_unfinished(judgements: pd.DataFrame, facts: Mapping[str, Any]) -> None:
    """Raise a MedunlearnError if judges were not reached about some cases, with what helps."""
    missing = judgements[judgements["status"].isin(UNFINISHED)]
    if missing.empty:
        return
    halted = {f"{name}: {fact['halted']}" for name, fact in facts.items() if fact["halted"]}
    why = sorted(halted) or [f"{row['judge']}: {row['reason']}" for row in missing.head(1).to_dict("records")]
    raise MedunlearnError(
        f"{len(missing)} of {len(judgements)} judgements are missing ({'; '.join(why)}). All others are stored. "
        f"{next_step(any(fact['permanent'] for fact in facts.values()))}, or add --allow-missing to continue "
        "without them."
    )


def _tables_of(panel: JudgePanel) -> dict[str, pd.DataFrame]:
    """A panel's tables by file name, without empty ones."""
    counts = {RATINGS: ratings(panel)} if panel.task.rates else {VERDICTS: distribution(panel)}
    counts |= {AGREEMENT: agreements(panel), CRITERIA: criteria(panel)}
    return {PANEL_FILE: panel.panel_verdicts(), **{name: table for name, table in counts.items() if len(table)}}


def _write_tables(out: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    write_frames(out, tables)
