"""What a report is made of. The caller gathers it from run folders; nothing here reads a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from medunlearn.judging.words import Section

Role = Literal["target", "retrained", "unlearned"]


@dataclass(frozen=True)
class ModelResult:
    """One model and everything that was measured of it.

    Attributes:
        label: its name in the report: ``target``, ``retrained``, ``GradDiff``; unique in a report.
        role: what it is to the others.
        method: the name of the unlearning method; None for target and retrained.
        summary: as :func:`medunlearn.results.summary.summarize` gives it: side, fold, kind (``all`` is every
            kind together), metric, value, low, high, n_scored, n_unscored, n_subjects, parts. A value that
            is null is shown as unscored, never as 0.
        history: one row an optimizer step: step, epoch, lr, loss, ``loss/<term>``, gradient_norm, tokens,
            seconds; may be empty.
        info: the run's ``run.json``.
    """

    label: str
    role: Role
    method: str | None
    summary: pd.DataFrame
    history: pd.DataFrame
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Example:
    """One question with what each model said.

    Attributes:
        answer: the reference answer.
        responses: a model's label -> its response.
    """

    question_id: str
    side: str
    fold: str
    kind: str
    question: str
    answer: str
    responses: Mapping[str, str]


@dataclass(frozen=True)
class JudgedContent:
    """One panel on one set of cases; numbers and names alone.

    Attributes:
        title: what was judged, how much of it and by how many.
        about: prompt, source, and how intervals are to be read.
        sections: its tables.
    """

    title: str
    about: str
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Membership:
    """What was found by membership attacks; all empty where no model was attacked.

    Attributes:
        table: model, group, attack, measure, value, low, high, reason, n_members, n_nonmembers, reading.
        comparisons: model, against, group, attack, difference, low, high, p, reading.
        curves: model, group, attack, fpr, tpr.
        titles: an attack's name -> its title.
        semeval: a model's label -> the parts of the SemEval-2025 Task 4 score and the score, in their order.
        privacy: MUSE's privacy leakage: model, against, group, attack, value, low, high; else empty.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparisons: pd.DataFrame = field(default_factory=pd.DataFrame)
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    titles: Mapping[str, str] = field(default_factory=dict)
    semeval: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    privacy: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class Reconstruction:
    """What a reconstruction attack found; both empty where no model was attacked.

    Attributes:
        table: model, role, side, fold, kind, context, identifiers, metric, value, low, high, change, n_scored.
        comparisons: model, against, side, fold, kind, context, identifiers, metric, difference, low, high, p.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparisons: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class PublishedMeasures:
    """What a benchmark's own paper reads of its models, as TOFU and MUSE do.

    Attributes:
        name: of the benchmark, as its paper calls it.
        about: sentences on ranges and directions, and on what is missing here.
        table: model, measure, value, low, high, n, note; a value that is null is shown as unscored with its note.
    """

    name: str
    about: tuple[str, ...]
    table: pd.DataFrame


@dataclass(frozen=True)
class ReportContent:
    """Everything that a report shows.

    Attributes:
        title: of the page.
        benchmark: name, builder, source, licence, data_use, levels, counts, fingerprint.
        split: name, level, and how many nodes are in forget and in retain; no node is named.
        context: ``closed_book`` or ``note``; every number of the report is of this mode.
        models: in the order of the run.
        comparisons: model, against (labels), side, fold, kind, metric, difference (model minus against),
            low, high, p, n_pairs, n_subjects; may be empty.
        examples: used only where ``show_text`` is True.
        metrics: a metric's name -> (title, meaning with range and direction).
        caveats: sentences for the top of the page.
        show_text: whether text of records, questions and responses may be shown.
        groups: the benchmark's own measures by node of one level (LUME: regurgitation and knowledge by task):
            level, node, measure, side, fold, model, value, low, high, n_scored, n_unscored; may be empty.
        judged: panels of judges, of the benchmark and of the models' responses.
        membership: what membership attacks found; may be empty.
        reconstruction: what naming whose a text is brought back; may be empty.
        epochs: the summaries of unlearning runs that were evaluated as they went on: model, epoch (0 is the
            target), level, node (empty for the whole split), measure, and a summary's columns; may be empty.
        contrasts: on LUME, differences between epochs and between methods
            (:mod:`medunlearn.papers.lume.contrasts`); may be empty.
        published: TOFU's or MUSE's measures, which are made of several metrics or models at once; may be empty.
        utility: what tasks of lm-evaluation-harness found, one row a model, task and metric that counts, and
            ``utility`` for them together: model, name, metric, value, low, high, stderr, n_scored, shots; may be
            empty.
    """

    title: str
    benchmark: Mapping[str, Any]
    split: Mapping[str, Any]
    context: str
    models: tuple[ModelResult, ...]
    comparisons: pd.DataFrame
    examples: tuple[Example, ...]
    metrics: Mapping[str, tuple[str, str]]
    caveats: tuple[str, ...]
    show_text: bool
    groups: pd.DataFrame = field(default_factory=pd.DataFrame)
    judged: tuple[JudgedContent, ...] = ()
    membership: Membership = field(default_factory=Membership)
    reconstruction: Reconstruction = field(default_factory=Reconstruction)
    epochs: pd.DataFrame = field(default_factory=pd.DataFrame)
    contrasts: pd.DataFrame = field(default_factory=pd.DataFrame)
    published: PublishedMeasures | None = None
    utility: pd.DataFrame = field(default_factory=pd.DataFrame)

    def shown_examples(self) -> tuple[Example, ...]:
        """The examples that may be shown, forget before retain; none unless ``show_text``."""
        if not self.show_text:
            return ()
        return tuple(sorted(self.examples, key=lambda example: example.side != "forget"))
