"""Content of a report of runs, gathered by the pipeline from run folders. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from medunlearn.data.origins import Provenance
from medunlearn.reports.blocks import Block, Cell, Section
from medunlearn.reports.claims import Finding
from medunlearn.reports.finding_blocks import findings_view
from medunlearn.reports.provenance import with_provenance
from medunlearn.reports.view import ResultView

if TYPE_CHECKING:
    from medunlearn.results.forgetting_check import ForgettingCheck
    from medunlearn.results.reference_check import ReferenceCheck

Role = Literal["target", "retrained", "unlearned"]


@dataclass(frozen=True)
class ModelResult:
    """One model and all its measurements.

    Attributes:
        label: unique name in the report.
        method: the unlearning method; None for target and retrained.
        summary: table of :func:`medunlearn.results.summary.summarize`, by side, fold, kind (``all`` for all kinds)
            and measure. Null values are shown as unscored, never as 0.
        history: one row per optimizer step: step, epoch, lr, loss, ``loss/<term>``, gradient_norm, tokens, seconds.
        info: the run's ``run.json``.
        problems: why it is broken; a broken model gets no verdict.
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
    """One panel on one set of cases, only numbers and names; ``about`` explains how to read them.

    ``remarks`` are sentences on judges that gave one verdict for everything, or failed control cases.
    """

    title: str
    about: str
    sections: tuple[Section, ...]
    provenance: tuple[Provenance, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Membership:
    """Results of membership attacks; all empty if no model was attacked.

    Attributes:
        table: model, group, attack, measure, value, low, high, reason, n_members, n_nonmembers, reading.
        comparisons: model, against, group, attack, measure, difference, low, high, p, reading.
        curves: model, group, attack, fpr, tpr.
        titles: an attack's name -> its title.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    comparisons: pd.DataFrame = field(default_factory=pd.DataFrame)
    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    titles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AttackPart:
    """The part of a report that is about one family of attacks.

    Attributes:
        group: key of its data in ``report.json``; parts of one group are merged.
        section: None if no model was attacked.
        brings_back: the attacks tried to bring back what the questions did not show.
        outcomes: label of an unlearned model -> the worst reading of what the attack brought back.
        areas: results of membership attacks, for papers.
    """

    group: str
    section: Section | None
    data: Mapping[str, Any]
    brings_back: bool = False
    outcomes: Mapping[str, Cell] = field(default_factory=dict)
    areas: Membership | None = None


@dataclass(frozen=True)
class RankReading:
    """Interpretation of the ranks in one context.

    Attributes:
        context: ``closed_book``, ``note``, ``record`` (facts in their records' own text) or ``notes`` (whole notes
            among versions of themselves).
        calibration: distance, p, facts, subjects, first, low, due, uniform on facts that a model never saw
            (:class:`medunlearn.results.fact_table.Calibration`); None without any whose alternatives are exact.
        kinds: the same by kind of fact, one row each.
        of: largest number of values, the true one included.
        least_p: the smallest p that a subject can have.
        beside_unseen: p is a subject's rank among unseen subjects, since p-values from facts are not uniform there.
        single: True if no subject has more than one fact that counts in its p.
        known: p, least_p, first, unseen_first, subjects, beside, unseen, verdict
            (:class:`medunlearn.results.known_before.KnownBefore`); None without a healthy target model.
        unscored: reason -> facts without a rank.
        usual: reason -> facts that are ranked by their share: they have a rank and no p.
        inexact: reason -> facts that count in no subject's p.
        of_retrained: the facts that a model never saw are the forget set's, of the retrained model; else those of
            subjects on whom no model was trained.
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
    usual: Mapping[str, int] = field(default_factory=dict)
    inexact: Mapping[str, int] = field(default_factory=dict)
    of_retrained: bool = True


@dataclass(frozen=True)
class Ranks:
    """Ranks of the forget set's facts; empty without ranks.

    Attributes:
        table: model, context, facts, first (share), exact (number that count in p), exact_first (share), due (share
            expected by chance), subjects, tellable (number whose p can be at most ``alpha``), told (number whose p
            is; null if it can be for none), median_p.
        readings: one per context.
        templates: prompt templates used for facts of answers.
        unused_chat_template: a tokenizer has a chat template that was not used.
    """

    table: pd.DataFrame = field(default_factory=pd.DataFrame)
    readings: tuple[RankReading, ...] = ()
    alpha: float = 0.05
    templates: tuple[str, ...] = ()
    unused_chat_template: bool = False


@dataclass(frozen=True)
class PaperPart:
    """A paper's part of the report of runs on its benchmark; ``data`` goes to the top level of ``report.json``.

    ``draws_epochs``: it draws the figures by epoch itself, and the neutral ones are folded away.
    """

    blocks: tuple[Block, ...] = ()
    findings: tuple[Finding, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    draws_epochs: bool = False


@dataclass(frozen=True)
class ReportContent:
    """Content of a report of runs. Tables may be empty.

    Attributes:
        benchmark: name, builder, source, licence, data_use, levels, counts, fingerprint.
        split: name, level, and numbers of nodes to forget and to retain, without node names.
        context: context mode of all numbers: ``closed_book`` or ``note``.
        comparisons: model, against (labels), side, fold, kind, measure, difference (model minus against), low,
            high, p, n_pairs, n_subjects.
        metrics: a metric's name -> (title, meaning with range and direction).
        caveats: sentences for the top of the page.
        broken: warnings of broken models; also the first caveats.
        reference: whether the retrained model is a valid reference; None without target or retrained model.
        forgetting: label of an unlearned model -> whether its forgetting exceeds what damage explains; a model
            without a check gets no verdict.
        show_text: True if text of records, questions and responses may be shown.
        groups: the benchmark's own measures by node of one level: level, node, measure, side, fold, model, and a
            summary's columns.
        epochs: for unlearning runs evaluated after each epoch: model, epoch (0 is the target), level, node
            (empty for the whole split), measure, and a summary's columns.
        provenance: who wrote the benchmark's labels and questions, and who rated responses.
        extractor: of the leakage score's keywords; empty if it was not measured.
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
    attacks: tuple[AttackPart, ...] = ()
    ranks: Ranks = field(default_factory=Ranks)
    epochs: pd.DataFrame = field(default_factory=pd.DataFrame)
    utility: pd.DataFrame = field(default_factory=pd.DataFrame)
    broken: tuple[str, ...] = ()
    reference: ReferenceCheck | None = None
    forgetting: Mapping[str, ForgettingCheck] = field(default_factory=dict)
    paper: PaperPart = field(default_factory=PaperPart)
    provenance: tuple[Provenance, ...] = ()
    extractor: str = ""

    def view(self) -> ResultView:
        """The paper's findings, for the terminal; a report of single runs may be about none."""
        return with_provenance(findings_view(self.paper.findings, self.broken), self.provenance, self.extractor)

    def shown_examples(self) -> tuple[Example, ...]:
        """The examples to show, forget before retain; empty unless ``show_text``."""
        visible = self.examples if self.show_text else ()
        return tuple(sorted(visible, key=lambda example: example.side != "forget"))
