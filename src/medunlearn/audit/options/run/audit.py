"""The options part of an audit: which removed options a model regenerates, and how often it chooses right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from medunlearn.audit.options.matching import exact_match, relaxed_match
from medunlearn.audit.options.prompts import OptionPrompt
from medunlearn.audit.options.removing import Removal, remove_one
from medunlearn.audit.options.run.local import LocalModel
from medunlearn.audit.options.run.respondents import Key, Rated, Respondent, Said
from medunlearn.audit.options.run.summary import summarize
from medunlearn.config import check
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data import storage
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError
from medunlearn.results.runs import Recording, Run
from medunlearn.sources.options import MultipleChoice, letter, read_options, sampled

OPTIONS, CHOICES, SUMMARY = "options.parquet", "choices.parquet", "options_summary.parquet"
OPTIONS_SCHEMA = pa.schema(
    [
        ("question_id", pa.string()),
        ("prompt", pa.string()),
        ("removed", pa.string()),
        ("gold", pa.string()),
        ("response", pa.string()),
        ("exact", pa.bool_()),
        ("relaxed", pa.bool_()),
        ("reason", pa.string()),
    ]
)
CHOICES_SCHEMA = pa.schema(
    [
        ("question_id", pa.string()),
        ("form", pa.string()),
        ("log_probs", pa.list_(pa.float64())),
        ("chosen", pa.string()),
        ("gold", pa.string()),
        ("correct", pa.bool_()),
        ("reason", pa.string()),
    ]
)
GROUPS: Mapping[str, str] = {"train": "member", "holdout": "non-member"}
NO_GOLD = "the file does not say which option is right"


@dataclass(frozen=True)
class OptionsAudit:
    """What an audit of options left on disk.

    Attributes:
        folder: of its tables.
        label: of the model.
        settings: of the audit.
        baseline: the same of the model that it is compared with.
        groups: question -> ``member`` or ``non-member``, where a benchmark says who was trained on what.
    """

    folder: Path
    label: str
    settings: AuditOptionsSettings
    baseline: OptionsAudit | None = None
    groups: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def options(self) -> pd.DataFrame:
        """A row a question and prompt: removed and gold letter, response, exact, relaxed, reason where unscored."""
        return pd.read_parquet(self.folder / OPTIONS, dtype_backend="numpy_nullable")

    @cached_property
    def choices(self) -> pd.DataFrame:
        """A row a question and form: log-probability of each option, the letter chosen, whether it is right."""
        return pd.read_parquet(self.folder / CHOICES, dtype_backend="numpy_nullable")

    def table(self) -> pd.DataFrame:
        """Rates with intervals over questions, and their paired differences from the baseline's.

        A row a prompt, measure and group of questions: value, low, high, n, n_unscored; with a baseline also its
        value and ``difference`` (this model minus it) with interval and p, on the questions that both have.
        Measures: ``exact``, ``relaxed`` (higher = regenerates more of what was removed), both also apart for
        removed options that were right (``_gold``) and wrong (``_wrong``), ``accuracy_text`` and
        ``accuracy_letter``. The prompt ``any`` counts what at least one of the prompts brought out.
        """
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        return summarize(
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
        file: multiple-choice questions in MedQA's or MedMCQA's form, or alike.
        out: folder of the result; a baseline's stands below it.
        llm: settings of a server (``base_url``, ``model``, ...) that is asked instead of a local model.
        responses: a table of responses that somebody has: question_id, response; prompt and removed if there.
        baseline: a local model to compare with, e.g. the one before fine-tuning; asked the same.
        trained_on: benchmark of `medunlearn build options`, whose folds tell members from non-members.
        allow_remote_llm: questions that are not said to be open may go to a server off this machine.
        settings: :class:`~medunlearn.config.options.AuditOptionsSettings`.

    Raises:
        ConfigError: wrong settings, all at once; not exactly one of model, llm and responses.
        SourceError: rows that cannot be read.
    """
    checked = check(AuditOptionsSettings, settings)
    respondent = respondent_of(
        model, llm=llm, responses=responses, permitted=allow_remote_llm, settings=checked, device=device
    )
    found = run_options(respondent, Path(file), checked, Path(out), quiet=quiet)
    other = None
    if baseline is not None:
        other = run_options(LocalModel(baseline, device), Path(file), checked, Path(out) / "baseline", quiet=quiet)
    whole = OptionsAudit(Path(out), found.label, checked, other, groups_of(trained_on))
    storage.write_atomically(Path(out) / SUMMARY, whole.table().to_parquet)
    return whole


def respondent_of(
    model: Run | Path | str | None,
    *,
    llm: Mapping[str, Any] | None,
    responses: Path | str | None,
    permitted: bool,
    settings: AuditOptionsSettings,
    device: str,
) -> Respondent:
    """Who is asked.

    Raises:
        ConfigError: not exactly one is named.
    """
    if sum(one is not None for one in (model, llm, responses)) != 1:
        raise ConfigError(["give one of model, llm (a server) and responses (a file)"])
    if model is not None:
        return LocalModel(model, device)
    if llm is not None:
        from medunlearn.audit.options.run.server import ServerModel

        return ServerModel(llm, settings, permitted=permitted)
    from medunlearn.audit.options.run.stored import StoredResponses

    assert responses is not None
    return StoredResponses(Path(responses))


def run_options(
    respondent: Respondent, file: Path, settings: AuditOptionsSettings, out: Path, *, quiet: bool = False
) -> OptionsAudit:
    """Ask one model and write ``options.parquet`` and ``choices.parquet`` to a run's folder.

    Raises:
        ConfigError: a prompt that there is not, or that this model does not take.
    """
    prompts = respondent.prompts(settings)
    inputs = {"file": storage.sha256_of(file), **respondent.inputs()}
    inputs["prompts"] = storage.sha256_of_json([[one.name, one.form, one.template] for one in prompts])
    recording = Recording(out, "audit_options", respondent.label, settings, inputs)
    if not recording.done:
        questions = read_options(file, count_from=settings.count_from, skip_bad_rows=settings.skip_bad_rows)
        asked = sampled(questions.questions, settings.questions, settings.seed)
        with recording.running():
            with recording.stage("ask"):
                rows = option_rows(respondent, asked, prompts, settings, out, quiet=quiet)
                storage.write_table(out / OPTIONS, rows, OPTIONS_SCHEMA)
            with recording.stage("rate"):
                rows = choice_rows(respondent, asked, settings, out, quiet=quiet)
                storage.write_table(out / CHOICES, rows, CHOICES_SCHEMA)
            recording.info["results"] = {
                "questions": len(asked),
                "skipped_rows": len(questions.skipped),
                "prompts": [one.name for one in prompts],
            }
    return OptionsAudit(out, respondent.label, settings)


def add_options(
    folder: Path, respondent: Respondent, file: Path, settings: AuditOptionsSettings, *, quiet: bool = False
) -> pd.DataFrame:
    """Add ``options.parquet`` to an audit's folder; the part's own run, with the rest, is in ``options/`` below it.

    Raises:
        ConfigError: a prompt that there is not, or that this model does not take.
        SourceError: rows that cannot be read.
    """
    found = run_options(respondent, file, settings, folder / "options", quiet=quiet).options
    storage.write_atomically(folder / OPTIONS, found.to_parquet)
    return found


def option_rows(
    respondent: Respondent,
    questions: Sequence[MultipleChoice],
    prompts: Sequence[OptionPrompt],
    settings: AuditOptionsSettings,
    folder: Path,
    *,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """The rows of ``options.parquet``: each prompt about each question, scored or with a reason."""
    removals = remove_one(questions, settings.seed)
    askable = [one for one in removals if one.why_not is None]
    said = respondent.ask(askable, prompts, settings, folder, quiet=quiet) if askable else {}
    return [_option_row(one, prompt.name, said) for prompt in prompts for one in removals]


def _option_row(removal: Removal, prompt: str, said: Mapping[Key, Said]) -> dict[str, Any]:
    name = removal.question.question_id
    answer = said.get((name, prompt), Said(None, "there is no response"))
    scored = removal.why_not is None and answer.text is not None
    text = answer.text or ""
    return {
        "question_id": name,
        "prompt": prompt,
        "removed": removal.letter,
        "gold": removal.question.gold,
        "response": answer.text,
        "exact": exact_match(text, removal.text, removal.letter) if scored else None,
        "relaxed": relaxed_match(text, removal.text) if scored else None,
        "reason": None if scored else removal.why_not or answer.reason,
    }


def choice_rows(
    respondent: Respondent,
    questions: Sequence[MultipleChoice],
    settings: AuditOptionsSettings,
    folder: Path,
    *,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """The rows of ``choices.parquet``: each form of rating about each question, scored or with a reason."""
    rows = []
    for form in settings.forms:
        rated = respondent.rate(questions, form, settings, folder, quiet=quiet)
        rows += [_choice_row(one, form, rated[one.question_id]) for one in questions]
    return rows


def _choice_row(question: MultipleChoice, form: Literal["text", "letter"], rated: Rated) -> dict[str, Any]:
    if rated.log_probs is not None and not all(map(isfinite, rated.log_probs)):
        rated = Rated(None, "the model gave a log-probability that is no number")
    chosen = None if rated.log_probs is None else letter(rated.log_probs.index(max(rated.log_probs)))
    scored = chosen is not None and question.gold is not None
    return {
        "question_id": question.question_id,
        "form": form,
        "log_probs": rated.log_probs,
        "chosen": chosen,
        "gold": question.gold,
        "correct": chosen == question.gold if scored else None,
        "reason": None if scored else rated.reason or NO_GOLD,
    }


def groups_of(benchmark: Benchmark | Path | str | None) -> dict[str, str]:
    """Question -> ``member`` or ``non-member`` of what was trained on."""
    if benchmark is None:
        return {}
    found = benchmark if isinstance(benchmark, Benchmark) else Benchmark.load(Path(benchmark))
    return {record.record_id: GROUPS[record.fold] for record in found.records if record.fold in GROUPS}
