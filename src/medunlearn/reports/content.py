"""Content of a report of runs, as the pipeline gathers it from run folders. Nothing here reads a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from medunlearn.reports.blocks import Block, Section
from medunlearn.reports.claims import Finding

if TYPE_CHECKING:
    from medunlearn.results.reference_check import ReferenceCheck

Role = Literal["target", "retrained", "unlearned"]


@dataclass(frozen=True)
class ModelResult:
    """One model and everything that was measured of it.

    Attributes:
        label: its name in the report, unique there.
        method: the unlearning method; None for target and retrained.
        summary: as :func:`medunlearn.results.summary.summarize` gives it, by side, fold, kind (``all`` is every
            kind together) and measure. A value that is null is shown as unscored, never as 0.
        history: one row per optimizer step: step, epoch, lr, loss, ``loss/<term>``, gradient_norm, tokens, seconds.
        info: the run's ``run.json``.
        problems: why it is broken; no verdict is read from a broken model.
    """

    label: str
    role: Role
    method: str | None
    summary: pd.DataFrame
    history: pd.DataFrame
    info: Mapping[str, Any]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Example:
    """One question with its reference answer and each model's response, by label."""

    question_id: str
    side: str
    fold: str
    kind: str
    question: str
    answer: str
    responses: Mapping[str, str]


@dataclass(frozen=True)
class JudgementTables:
    """One panel on one set of cases, numbers and names alone; ``about`` says how they are to be read."""

    title: str
    about: str
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Membership:
    """Results of membership attacks; all empty if no model was attacked.

    Attributes:
        table: model, group, attack, measure, value, low, high, reason, n_members, n_nonmembers, reading.
        comparisons: model, against, group, attack, difference, low, high, p, reading.
        curves: model, group, attack, fpr, tpr.
        titles: an attack's name -> its title.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparisons: pd.DataFrame = field(default_factory=pd.DataFrame)
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    titles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reconstruction:
    """Results of a reconstruction attack; both empty if no model was attacked.

    Attributes:
        table: model, role, side, fold, kind, context, identifiers, measure, value, low, high, change, n_scored.
        comparisons: model, against, side, fold, kind, context, identifiers, measure, difference, low, high, p.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparisons: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class Recovery:
    """Results of recovery attacks of one kind, all kinds of questions together.

    Attributes:
        kind, title: ``relearning``, ...; its name in reports.
        table: model, role, attack, strength (the first is the model as it is), side, fold, measure, value, low,
            high, change, reading.
        comparisons: model, against, attack, strength, side, fold, measure, difference, low, high, p.
        words: a reading -> what it stands on.
        measures: measures of such attacks alone: name -> (title, meaning).
        notes: sentences on what was left out or says nothing.
    """

    kind: str
    title: str
    table: pd.DataFrame
    comparisons: pd.DataFrame
    words: Mapping[str, str]
    measures: Mapping[str, tuple[str, str]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankReading:
    """The reading of the ranks of one context.

    Attributes:
        context: ``closed_book``, ``note``, ``record`` (facts in their records' own text) or ``notes`` (whole notes
            among versions of themselves).
        calibration: distance, p, facts, subjects, first, due, uniform of the retrained model
            (:class:`medunlearn.results.fact_table.Calibration`); None without one.
        kinds: the same by kind of fact, a row each.
        of: alternatives and the true value, at most.
        least_p: the smallest p that a subject can have.
        beside_unseen: p is a subject's place among those whom the retrained model never saw, since p-values by
            facts alone are not uniform there.
        single: every subject has one fact.
        known: p, least_p, first, unseen_first, subjects, verdict
            (:class:`medunlearn.results.fact_table.KnownBefore`); None without a target model that works.
        unscored: reason -> facts without a rank.
    """

    context: str
    calibration: Mapping[str, Any] | None = None
    kinds: pd.DataFrame = field(default_factory=pd.DataFrame)
    of: int = 0
    least_p: float = 1.0
    beside_unseen: bool = False
    single: bool = False
    known: Mapping[str, Any] | None = None
    unscored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ranks:
    """Ranks of the forget set's facts; empty if none was ranked.

    Attributes:
        table: model, context, facts, first, subjects, told (how many have p at most ``alpha``; null if that
            cannot be read), median_p.
        readings: one a context.
        templates: prompt templates in which facts of answers were asked for.
        unused_chat_template: a tokenizer has a chat template, and its model was asked without.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    readings: tuple[RankReading, ...] = ()
    alpha: float = 0.05
    templates: tuple[str, ...] = ()
    unused_chat_template: bool = False


@dataclass(frozen=True)
class PaperPart:
    """A paper's part of the report of runs on its benchmark; ``data`` stands at the top of ``report.json``."""

    blocks: tuple[Block, ...] = ()
    findings: tuple[Finding, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportContent:
    """Everything that a report of runs shows. Tables may be empty.

    Attributes:
        benchmark: name, builder, source, licence, data_use, levels, counts, fingerprint.
        split: name, level, and how many nodes are in forget and in retain; no node is named.
        context: ``closed_book`` or ``note``; every number of the report is of this mode.
        comparisons: model, against (labels), side, fold, kind, measure, difference (model minus against), low,
            high, p, n_pairs, n_subjects.
        metrics: a metric's name -> (title, meaning with range and direction).
        caveats: sentences for the top of the page.
        broken: warnings of broken models; also the first caveats.
        reference: whether models may be read against the retrained one; None without target or retrained model.
        show_text: whether text of records, questions and responses may be shown.
        groups: the benchmark's own measures by node of one level: level, node, measure, side, fold, model, and a
            summary's columns.
        epochs: of unlearning runs that were evaluated after each epoch: model, epoch (0 is the target), level, node
            (empty for the whole split), measure, and a summary's columns.
        utility: tasks of lm-evaluation-harness, and ``utility`` for them together: model, name, metric, value, low,
            high, stderr, n_scored, shots.
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
    judged: tuple[JudgementTables, ...] = ()
    membership: Membership = field(default_factory=Membership)
    reconstruction: Reconstruction = field(default_factory=Reconstruction)
    recovery: tuple[Recovery, ...] = ()
    ranks: Ranks = field(default_factory=Ranks)
    epochs: pd.DataFrame = field(default_factory=pd.DataFrame)
    utility: pd.DataFrame = field(default_factory=pd.DataFrame)
    broken: tuple[str, ...] = ()
    reference: ReferenceCheck | None = None
    paper: PaperPart = field(default_factory=PaperPart)

    def shown_examples(self) -> tuple[Example, ...]:
        """The examples that may be shown, forget before retain; none unless ``show_text``."""
        visible = self.examples if self.show_text else ()
        return tuple(sorted(visible, key=lambda example: example.side != "forget"))
