"""Options audit: how often a model regenerates removed options, and how often it chooses the right one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from medunlearn.audit.options.option_probes import OptionProbes
from medunlearn.audit.options.option_prompts import MATCHES, option_matches, remove_one
from medunlearn.audit.options.option_respondents import (
    NO_RESPONSE,
    OptionsRespondent,
    local_respondent,
    server_respondent,
    stored_respondent,
)
from medunlearn.audit.options.option_summary import summarize_options
from medunlearn.config import check
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data import storage
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, resolve_use, use_of_file
from medunlearn.errors import ConfigError
from medunlearn.models.ancestry import model_use
from medunlearn.models.health import answer_problems, refuse_broken
from medunlearn.results.runs import Recording, Run
from medunlearn.sources.multiple_choice import MultipleChoice, draw_sample, letter, read_options

OPTIONS, CHOICES, SUMMARY = "options.parquet", "choices.parquet", "options_summary.parquet"
OPTIONS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("question_id", "prompt", "letters", "removed", "gold", "response")),
        *((name, pa.bool_()) for name in MATCHES),
        ("reason", pa.string()),
    ]
)
CHOICES_SCHEMA = pa.schema(
    [
        *(("question_id", pa.string()), ("form", pa.string()), ("log_probs", pa.list_(pa.float64()))),
        *(("chosen", pa.string()), ("gold", pa.string()), ("correct", pa.bool_()), ("reason", pa.string())),
    ]
)
GROUPS: Mapping[str, str] = {"train": "member", "holdout": "non-member"}
NO_GOLD = "the file does not say which option is right"


@dataclass(frozen=True)
class OptionsAudit:
    """Results of an options audit on disk.

    Attributes:
        baseline: results of the model that it is compared with.
        groups: question -> ``member`` or ``non-member``, if a benchmark defines the training set.
    """

    folder: Path
    label: str
    settings: AuditOptionsSettings
    baseline: OptionsAudit | None = None
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Label of the model and of its baseline -> why it is broken; healthy models have no entry."""
        audits = [self] if self.baseline is None else [self.baseline, self]
        return {audit.label: Run.open(audit.folder).info.problems for audit in audits}

    @cached_property
    def options(self) -> pd.DataFrame:
        """One row per question and prompt: removed and gold letter, response, each match, or a reason."""
        return storage.read_frame(self.folder / OPTIONS, dtype_backend="numpy_nullable")

    @cached_property
    def choices(self) -> pd.DataFrame:
        """One row per question and form: each option's log-probability, the chosen letter, whether it is right."""
        return storage.read_frame(self.folder / CHOICES, dtype_backend="numpy_nullable")

    def table(self) -> pd.DataFrame:
        """Rates with intervals over questions, and their paired differences from the baseline's.

        One row per prompt, measure and group of questions: value, low, high, n, n_unscored; with a baseline also
        ``difference`` (this model minus it) with interval and p, on the questions of both. Measures: ``exact``,
        ``relaxed`` (higher = regenerates more removed options), ``exact.lettered`` and ``relaxed.lettered`` (as
        the memorization paper's released code reads responses), all also for removed options that were right
        (``_gold``) and wrong (``_wrong``), ``accuracy_text``, ``accuracy_text.no_end`` and ``accuracy_letter``. The
        prompt ``any`` counts options that at least one of the prompts brought out.
        """
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        return summarize_options(
            self.label,
            (self.options, self.choices),
            None if self.baseline is None else (self.baseline.options, self.baseline.choices),
            self.groups,
            replicates=self.settings.replicates,
            seed=self.settings.seed,
        )


def audit_options(
    model: Run | Path | str | None,
    file: Path | str,
    *,
    out: Path | str,
    llm: Mapping[str, Any] | None = None,
    responses: Path | str | None = None,
    baseline: Run | Path | str | None = None,
    trained_on: Benchmark | Path | str | None = None,
    allow_remote_llm: bool = False,
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> OptionsAudit:
    """Remove one answer option of each question and see whether a model regenerates it. Resumes.

    Args:
        model: a run, a model folder or a hub id; None with ``llm`` or ``responses``.
        file: multiple-choice questions in MedQA's or MedMCQA's form, or similar.
        out: folder of the result; a baseline's is below it.
        llm: settings of a server (``base_url``, ``model``, ...) that is asked instead of a local model.
        responses: a table of stored responses: question_id, response, and prompt and removed if there.
        baseline: a local model to compare with, e.g. the one before fine-tuning.
        trained_on: benchmark of `medunlearn build options`, whose folds tell members from non-members.
        allow_remote_llm: questions that are not open may go to a server off this machine.
        settings: :class:`~medunlearn.config.options.AuditOptionsSettings`.

    Raises:
        ConfigError: wrong settings, all at once; not exactly one of model, llm and responses.
        ModelError: a broken model, unless ``allow_broken``; what it answered is kept.
        SourceError: rows that cannot be read.
    """
    checked, file, out = check(AuditOptionsSettings, settings), Path(file), Path(out)
    use = options_use(checked, file, trained_on, model, responses)
    named: dict[str, Any] = {"llm": llm, "responses": responses, "permitted": allow_remote_llm, "device": device}
    respondent = make_respondent(checked, file, use, model, **named)
    results_of_model = run_options(respondent, file, checked, out, data_use=use, quiet=quiet)
    results_of_baseline = None
    if baseline is not None:
        use = options_use(checked, file, trained_on, baseline)
        respondent = make_respondent(checked, file, use, baseline, device=device)
        below = out / "baseline"
        results_of_baseline = run_options(respondent, file, checked, below, data_use=use, quiet=quiet)
    results = OptionsAudit(out, results_of_model.label, checked, results_of_baseline, groups_of(trained_on))
    storage.write_frame(out / SUMMARY, results.table())
    refuse_broken(results.problems, allowed=checked.allow_broken)
    return results


def options_use(
    settings: AuditOptionsSettings,
    file: Path,
    trained_on: Benchmark | Path | str | None = None,
    model: Run | Path | str | None = None,
    responses: Path | str | None = None,
    **sources: DataUse | None,
) -> DataUse | None:
    """Data use of questions and responses.

    Raises:
        ConfigError: the settings declare credentialed data open.
    """
    sources[f"file {file}"] = use_of_file(file)
    if trained_on is not None:
        loaded = trained_on if isinstance(trained_on, Benchmark) else Benchmark.load(Path(trained_on))
        sources[f"benchmark {loaded.name}"] = loaded.data_use
    if model is not None:
        folder = model.folder if isinstance(model, Run) else model
        sources[f"model {folder}"] = model_use(folder)
    if responses is not None:
        sources[f"table {responses}"] = use_of_file(Path(responses))
    return resolve_use(settings.data_use, sources)


def make_respondent(
    settings: AuditOptionsSettings,
    file: Path,
    data_use: DataUse | None,
    model: Run | Path | str | None = None,
    *,
    llm: Mapping[str, Any] | None = None,
    responses: Path | str | None = None,
    permitted: bool = False,
    device: str = "auto",
) -> OptionsRespondent:
    """A local model, a server or a file of responses.

    Args:
        file: questions, whose removed options stored responses are checked against.

    Raises:
        ConfigError: not exactly one of the three; prompts that it does not have.
        RemoteRefusedError: the questions may not leave this machine.
    """
    if sum(source is not None for source in (model, llm, responses)) != 1:
        raise ConfigError(["give one of model, llm (a server) and responses (a file)"])
    if model is not None:
        return local_respondent(model, settings, device)
    if llm is not None:
        return server_respondent(llm, settings, data_use, permitted=permitted)
    return stored_respondent(Path(str(responses)), file, settings)


def run_options(
    source: OptionsRespondent,
    file: Path,
    settings: AuditOptionsSettings,
    out: Path,
    *,
    data_use: DataUse | None,
    quiet: bool = False,
) -> OptionsAudit:
    """Ask one model and write ``options.parquet`` and ``choices.parquet`` to a run's folder."""
    prompts, respondent = source.prompts, source.respondent
    inputs = {"file": storage.sha256_of(file), **source.inputs()}
    inputs["prompts"] = storage.sha256_of_json([[prompt.name, prompt.form, prompt.template] for prompt in prompts])
    recording = Recording(out, "audit_options", respondent.label, settings, inputs, data_use=data_use)
    if not recording.done:
        questions = read_options(file, count_from=settings.count_from, skip_bad_rows=settings.skip_bad_rows)
        sample = draw_sample(questions.questions, settings.limit, settings.seed)
        probes = OptionProbes(source, settings, out, sample, data_use, quiet)
        with recording.running():
            with recording.stage("ask"):
                storage.write_table(out / OPTIONS, option_rows(probes), OPTIONS_SCHEMA)
            with recording.stage("rate"):
                storage.write_table(out / CHOICES, choice_rows(probes), CHOICES_SCHEMA)
            recording.info["results"] = {
                "health": {"problems": [*respondent.problems, *_answer_problems(sample, out)]},
                "questions": len(sample),
                "skipped_rows": len(questions.skipped),
                "prompts": [prompt.name for prompt in prompts],
            }
    return OptionsAudit(out, respondent.label, settings)


def _answer_problems(questions: Sequence[MultipleChoice], folder: Path) -> tuple[str, ...]:
    """Reasons why the responses that should restore removed options are broken."""
    rows = pd.read_parquet(folder / OPTIONS, columns=["question_id", "removed", "response", "reason"])
    options = {(q.question_id, letter(n)): text for q in questions for n, text in enumerate(q.options)}
    scored = rows[rows["reason"].isna()]
    answers = zip(scored["question_id"], scored["removed"], scored["response"], strict=True)
    return answer_problems((options[question, removed], response, True) for question, removed, response in answers)


def option_rows(probes: OptionProbes) -> list[dict[str, Any]]:
    """Rows of ``options.parquet``: each prompt for each question, scored or with a reason."""
    removals = remove_one(probes.questions, probes.settings.seed, probes.settings.letters)
    scorable = [removal for removal in removals if removal.unscorable is None]
    responses = probes.responses(scorable) if scorable else {}
    rows = []
    for prompt in probes.source.prompts:
        for removal in removals:
            name = removal.question.question_id
            text, reason = responses.get((name, prompt.name), (None, NO_RESPONSE))
            scored = removal.unscorable is None and text is not None
            matches = option_matches(text or "", removal) if scored else dict.fromkeys(MATCHES)
            row = {
                "question_id": name,
                "prompt": prompt.name,
                "letters": removal.letters,
                "removed": removal.letter,
                "gold": removal.question.gold,
                "response": text,
                **matches,
                "reason": None if scored else removal.unscorable or reason,
            }
            rows.append(row)
    return rows


def choice_rows(probes: OptionProbes) -> list[dict[str, Any]]:
    """Rows of ``choices.parquet``: each form of rating about each question, scored or with a reason."""
    return [
        _choice_row(question, form, *ratings[question.question_id])
        for rated in probes.settings.forms
        for form, ratings in probes.ratings(rated).items()
        for question in probes.questions
    ]


def _choice_row(
    question: MultipleChoice, form: str, log_probs: tuple[float, ...] | None, reason: str | None
) -> dict[str, Any]:
    if log_probs is not None and not all(map(isfinite, log_probs)):
        log_probs, reason = None, "the model gave a log-probability that is no number"
    best = None if log_probs is None else letter(log_probs.index(max(log_probs)))
    scored = best is not None and question.gold is not None
    return {
        "question_id": question.question_id,
        "form": form,
        "log_probs": log_probs,
        "chosen": best,
        "gold": question.gold,
        "correct": best == question.gold if scored else None,
        "reason": None if scored else reason or NO_GOLD,
    }


def groups_of(benchmark: Benchmark | Path | str | None) -> dict[str, str]:
    """Question -> ``member`` or ``non-member``, from the benchmark that a model was trained on."""
    if benchmark is None:
        return {}
    loaded = benchmark if isinstance(benchmark, Benchmark) else Benchmark.load(Path(benchmark))
    return {record.record_id: GROUPS[record.fold] for record in loaded.records if record.fold in GROUPS}
