"""Evaluations on disk, and their comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.config.probe_settings import PROBES_FILE, is_same_set, read_probes
from medunlearn.data.data_use import DataUse, tightest
from medunlearn.data.origins import read_provenance, why_undecided
from medunlearn.data.records import RECORD
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.storage import read_frame
from medunlearn.errors import InputError
from medunlearn.input_files import path_inside
from medunlearn.models.ancestry import model_use
from medunlearn.results.composites import is_per_token
from medunlearn.results.fact_table import FILE as FACTS
from medunlearn.results.fact_table import with_later_columns
from medunlearn.results.forgetting_check import ForgettingCheck
from medunlearn.results.forgetting_numbers import check_forgetting
from medunlearn.results.image_control import FILE as IMAGE_CONTROL
from medunlearn.results.image_control import summarize_control
from medunlearn.results.matrix import ScoreMatrix, score_matrix
from medunlearn.results.rated import with_drawn_names
from medunlearn.results.reference_check import ReferenceCheck, check_reference
from medunlearn.results.runs import FILE, Run
from medunlearn.results.scores import FILE as SCORES
from medunlearn.results.scores import read_scores
from medunlearn.results.summary import EVALUATION, NUMBERS, compare, summarize

FOLDER = "evaluations"
SUMMARY, GROUPS, PRIVATE = "summary.parquet", "groups.parquet", "private.parquet"
COMPOSITES = ("MU", "AFE", "DS")
_ABOUT = ("subject", "side", "fold", "kind")


def summarize_evaluation(scores: pd.DataFrame, *, replicates: int, seed: int) -> pd.DataFrame:
    """Means by side, fold and kind, over all kinds, and the composites (:func:`~.summary.summarize`).

    Records have only means, since no questions are asked about them.
    """
    of_questions, of_records = _asked_and_records(scores)
    draws: dict[str, Any] = {"replicates": replicates, "seed": seed}
    means = summarize(of_questions, EVALUATION, composites=COMPOSITES, rollup="kind", **draws)
    return joined([means, *([summarize(of_records, EVALUATION, **draws)] if len(of_records) else [])])


def _asked_and_records(scores: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of questions, and rows of records."""
    is_record = scores["kind"] == RECORD
    return scores[~is_record], scores[is_record]


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the non-empty tables; the first table if all are empty, and an empty one without tables."""
    rows = [table for table in tables if len(table)]
    return pd.concat(rows, ignore_index=True) if rows else next(iter(tables), pd.DataFrame())


@dataclass(frozen=True)
class Evaluated:
    """One model, scored on one split.

    Attributes:
        run: the run whose model it is.
        record: the evaluation's own run, in a folder below it.
    """

    run: Run
    record: Run

    @staticmethod
    def find(run: Run, split: str | None = None, probes: Path | None = None) -> Evaluated:
        """The latest complete evaluation in a run's folder, on the given split or any.

        Args:
            probes: ``probes.json`` of another evaluation; only one of the same probes counts.

        Raises:
            InputError: there is none, or several splits without a given one.
        """
        records = run.complete_below(FOLDER)
        if probes is not None:
            content = read_probes(probes)
            with_probes = [record for record in records if (record.folder / PROBES_FILE).exists()]
            records = [record for record in with_probes if is_same_set(content, read_probes(record.folder))]
            if not records:
                raise InputError(
                    f"{run.folder} was not evaluated on the probe set {probes}. Evaluate it first, with --probes."
                )
        splits = sorted({str(record.info.split) for record in records})
        if split is None and len(splits) > 1:
            raise InputError(
                f"{run.folder} was evaluated on several splits: {', '.join(splits)}. Name one: --split NAME, or in "
                "Python split=NAME."
            )
        matching = [record for record in records if split in (None, record.info.split)]
        if not matching:
            which = f" on split {split!r}" if split else ""
            raise InputError(f"{run.folder} was not evaluated{which}. `medunlearn evaluate --help` says how.")
        return Evaluated(run, matching[-1])

    @property
    def context(self) -> str:
        """The context mode of the evaluation."""
        return str(self.record.info.results["context"])

    @property
    def without_response(self) -> dict[str, str]:
        """Question -> why it has no response."""
        recorded = self.record.info.results.get("without_response")
        return {str(name): str(why) for name, why in recorded.items()} if isinstance(recorded, dict) else {}

    @property
    def probes(self) -> str:
        """The probe set in words; empty for an evaluation of an earlier version."""
        return self.record.info.probe_set

    @property
    def caveat(self) -> str:
        """Sentence on a model that was not asked on this machine; empty for others."""
        respondent = self.run.info.results.get("respondent")
        if not isinstance(respondent, dict):
            return ""
        missing = len(self.without_response)
        without = f", and so are {missing:,} questions without a response" if missing else ""
        return (
            f"{self.run.label} gave text alone ({respondent.get('kind')}): measures that need more are "
            f"unscored{without}."
        )

    @property
    def extractor(self) -> str:
        """Extractor of the leakage score's keywords; empty if it was not measured."""
        return str(self.record.info.results.get("extractor", ""))

    @property
    def undecided(self) -> str:
        """Reason why its numbers decide nothing, if the benchmark's labels, texts or questions were drawn."""
        benchmark = self.record.info.results.get("benchmark") or {}
        return why_undecided(read_provenance(benchmark.get("provenance")))

    @property
    def own_measures(self) -> dict[str, dict[str, str]]:
        """Title, meaning and path of the measures that are not the package's, by name."""
        return self.record.info.own_measures

    @property
    def data_use(self) -> DataUse | None:
        """Data use of the questions and of all data that the model was made from."""
        return tightest([self.record.info.data_use, model_use(self.run.folder)])

    @cached_property
    def table(self) -> pd.DataFrame:
        """The score table (:mod:`medunlearn.results.scores`), with side, fold, kind, level, node and identifier."""
        return with_drawn_names(read_scores(self.record.folder, _ABOUT), self.run, self.record)

    @cached_property
    def _pivoted(self) -> dict[bool, tuple[ScoreMatrix, ScoreMatrix]]:
        return {}

    def pivoted(self, per_token: bool) -> tuple[ScoreMatrix, ScoreMatrix]:
        """The score tables of questions and of records, pivoted once for all comparisons.

        Args:
            per_token: with measures that are counted in tokens.
        """
        if per_token not in self._pivoted:
            table = self.table if per_token else _without_tokens(self.table)
            questions, records = (score_matrix(part, EVALUATION) for part in _asked_and_records(table))
            self._pivoted[per_token] = questions, records
        return self._pivoted[per_token]

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Columns of the score table: question_id, measure, value, reason."""
        return self.table.rename(columns={"item": "question_id"})[["question_id", "measure", "value", "reason"]]

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Means with intervals (:func:`summarize_evaluation`)."""
        summary = read_frame(self.record.folder / SUMMARY, (*EVALUATION, "measure", *NUMBERS))
        return with_drawn_names(summary, self.run, self.record)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """The benchmark's measures by node of its grouping's level; empty without a grouping."""
        path = self.record.folder / GROUPS
        return read_frame(path) if path.exists() else pd.DataFrame()

    @cached_property
    def facts(self) -> pd.DataFrame:
        """Ranks of facts (:func:`medunlearn.results.fact_table.fact_table`); empty without ranks."""
        path = self.record.folder / FACTS
        return with_later_columns(read_frame(path)) if path.exists() else pd.DataFrame()

    @cached_property
    def private_summary(self) -> pd.DataFrame:
        """Summary over private questions only (:mod:`medunlearn.data.recurring_answers`); empty without marks."""
        path = self.record.folder / PRIVATE
        if not path.exists():
            return pd.DataFrame()
        return with_drawn_names(read_frame(path, (*EVALUATION, "measure", *NUMBERS)), self.run, self.record)

    @cached_property
    def image_scores(self) -> pd.DataFrame:
        """Scores with the true, a swapped and a blank image, by ``image``; empty without an image control."""
        path = self.record.folder / IMAGE_CONTROL
        return read_frame(path) if path.exists() else pd.DataFrame()

    @cached_property
    def questions(self) -> pd.DataFrame:
        """One row per question: question_id, subject, side, fold, kind."""
        columns = ["item", *_ABOUT]
        table = read_frame(self.record.folder / SCORES, columns, columns=columns)
        rows = table[table["kind"] != RECORD].drop_duplicates("item").reset_index(drop=True)
        return rows.rename(columns={"item": "question_id"})

    @cached_property
    def responses(self) -> dict[str, Response]:
        """The model's responses by question id."""
        stored = ResponseStore.read_complete(self.responses_folder)
        return {question: response for (question, _, _), response in stored.items()}

    @property
    def responses_folder(self) -> Path:
        """Folder of the stored responses. Raises InputError if its record names one outside of the run."""
        name = str(self.record.info.results["responses"])
        return path_inside(self.run.folder, name, self.record.folder / FILE)


@dataclass(frozen=True)
class Evaluation:
    """Models scored on the same questions: first the model in question, then the models it is compared with."""

    models: tuple[Evaluated, ...]
    replicates: int
    seed: int

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Paired differences of the first model and each other, with intervals."""
        return compared(self.models[0], self.models[1:], self.replicates, self.seed)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warnings to read before the comparisons."""
        others = () if one_vocabulary(self.models) else (OTHER_TOKENS,)
        elsewhere = (
            f"{model.run.label} is the {model.run.role} model of split {model.run.info.made_for}: on "
            f"{model.record.info.split} other subjects are to be forgotten."
            for model in self.models
            if model.run.role != "target" and model.run.info.made_for != model.record.info.split
        )
        drawn = dict.fromkeys(model.undecided for model in self.models if model.undecided)
        sentences = (f"{reason[0].upper()}{reason[1:]}: no number here decides anything." for reason in drawn)
        answered = filter(None, (model.caveat for model in self.models))
        return (*sentences, *answered, *others, *elsewhere, *(self.reference.caveats if self.reference else ()))

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """Label of each model -> why it is broken; healthy models have no entry."""
        return {model.run.label: model.record.info.problems for model in self.models}

    @cached_property
    def reference(self) -> ReferenceCheck | None:
        """The reference check of the retrained model among these models."""
        return reference_of(self.models, self.replicates, self.seed)

    @cached_property
    def image_control(self) -> pd.DataFrame:
        """Loss of each model with other images (:func:`summarize_control`); empty without an image control."""
        tables = [
            summarize_control(each.image_scores, replicates=self.replicates, seed=self.seed).assign(
                model=each.run.label
            )
            for each in self.models
            if len(each.image_scores)
        ]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def private_table(self) -> pd.DataFrame:
        """:meth:`table` over private questions only; empty if none is marked."""
        parts = [each.private_summary.assign(model=each.run.label, context=each.context) for each in self.models]
        parts = [part for part in parts if len(part)]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def table(self) -> pd.DataFrame:
        """One row per model, side, fold, kind and measure; every mean with its interval and counts."""
        return pd.concat(
            [model.summary.assign(model=model.run.label, context=model.context) for model in self.models],
            ignore_index=True,
        )


def distinct(models: Sequence[Evaluated]) -> list[Evaluated]:
    """The same models with distinct labels (:func:`distinct_runs`).

    Raises:
        InputError: one run is named twice.
    """
    runs = distinct_runs([model.run for model in models])
    return [replace(model, run=run) for model, run in zip(models, runs, strict=True)]


def distinct_runs(runs: Sequence[Run]) -> list[Run]:
    """The same runs with distinct labels: duplicate labels are extended by the folder name.

    Raises:
        InputError: one run is named twice.
    """
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise InputError("One run is named twice. Name each run once.")
    labels = Counter(run.label for run in runs)
    names = Counter((run.label, run.folder.name) for run in runs)
    distinct = []
    for run in runs:
        label = run.label
        if labels[label] > 1:
            label = f"{label} ({run.folder.name if names[label, run.folder.name] == 1 else run.folder})"
        distinct.append(run.relabelled(label))
    return distinct


def one_vocabulary(models: Sequence[Evaluated]) -> bool:
    """True if all models have the same tokenizer vocabulary, as far as known from their folders."""
    return len({model.run.vocabulary for model in models} - {None}) < 2


OTHER_TOKENS = (
    "These models have different tokenizers. Measures counted in tokens (em, te, answer_probability, truth_ratio, "
    "...) are each model's own and are not compared; composites are made of the other parts."
)


def comparable(models: Sequence[Evaluated]) -> list[pd.DataFrame]:
    """Score tables of models to compare, without token-based measures if tokenizers differ."""
    tables = [model.table for model in models]
    if one_vocabulary(models):
        return tables
    return [_without_tokens(table) for table in tables]


def _without_tokens(table: pd.DataFrame) -> pd.DataFrame:
    return table[~table["measure"].isin([name for name in table["measure"].unique() if is_per_token(name)])]


def compared(model: Evaluated, against: Sequence[Evaluated], replicates: int, seed: int) -> pd.DataFrame:
    """Paired differences ``model - other`` on their common questions; empty without others."""
    tables = []
    for other in against:
        per_token = one_vocabulary([model, other])
        of_questions, records = zip(model.pivoted(per_token), other.pivoted(per_token), strict=True)
        if not all(len(questions) + len(own) for questions, own in zip(of_questions, records, strict=True)):
            continue
        draws: dict[str, Any] = {"replicates": replicates, "seed": seed}
        difference = compare(*of_questions, EVALUATION, composites=COMPOSITES, rollup="kind", **draws)
        if all(map(len, records)):
            difference = joined([difference, compare(*records, EVALUATION, **draws)])
        tables.append(difference.assign(model=model.run.label, against=other.run.label))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def reference_of(models: Sequence[Evaluated], replicates: int, seed: int) -> ReferenceCheck | None:
    """The reference check of the first target and retrained model; None if one is missing."""
    references = _references(models)
    return (
        None if references is None else check_reference(*comparable(references), replicates=replicates, seed=seed)
    )


def forgetting_of(models: Sequence[Evaluated], replicates: int, seed: int) -> dict[str, ForgettingCheck]:
    """Label of each unlearned model -> its forgetting check; empty without target and retrained model."""
    references = _references(models)
    if references is None:
        return {}
    return {
        model.run.label: check_forgetting(*comparable([model, *references]), replicates=replicates, seed=seed)
        for model in models
        if model.run.role == "unlearned"
    }


def _references(models: Sequence[Evaluated]) -> tuple[Evaluated, Evaluated] | None:
    """The first target and the first retrained model."""
    first = {model.run.role: model for model in reversed(models)}
    return (first["target"], first["retrained"]) if {"target", "retrained"} <= set(first) else None
