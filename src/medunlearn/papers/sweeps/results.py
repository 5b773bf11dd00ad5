"""Everything in a sweep's report: numbers and contrasts by their labels, without record text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import pandas as pd

from medunlearn.data.data_use import UNKNOWN
from medunlearn.data.origins import Provenance
from medunlearn.metrics.leakage.leakage_score import extractor_words
from medunlearn.papers.sweeps.models import REFERENCES, BrokenModel, SweepModels, Who, unlearned
from medunlearn.reports.blocks import Report
from medunlearn.reports.claims import Case, Evidence, Finding, Verdict, comparisons, decide
from medunlearn.reports.content import JudgementTables
from medunlearn.reports.finding_blocks import findings_table, unmeasured
from medunlearn.reports.models_screen import ModelsScreen
from medunlearn.reports.provenance import provenance_lines, with_provenance
from medunlearn.reports.readings import Reading, number, rows_of
from medunlearn.reports.unlearning import SweepPart
from medunlearn.reports.view import ResultView, titled
from medunlearn.results.forgetting_check import DAMAGE, Reason
from medunlearn.statistics.bootstrap import REPLICATES
from medunlearn.study.report.gather_ratings import distinct_entries, judge_remarks, rated_by

ONE_SEED = (
    "Every model was trained with one seed. Intervals say how patients differ, not how another training run would "
    "come out."
)


@dataclass(frozen=True, slots=True)
class SweepNumber(Reading):
    """A number or a contrast, averaged over training seeds.

    Attributes:
        by_seed: the number for each seed.
        reason: why a contrast has no value, or no interval.
        p: for a contrast, the two-sided p-value of "it is 0".
    """

    by_seed: tuple[float, ...] = ()
    reason: str = ""
    p: float | None = None

    @property
    def percent(self) -> SweepNumber:
        """The number times 100, with its interval."""
        value, low, high = (None if edge is None else 100 * edge for edge in (self.value, self.low, self.high))
        seeds = tuple(100 * seed for seed in self.by_seed)
        return SweepNumber(value, low, high, self.n_scored, self.n_unscored, self.n_subjects, seeds, self.reason)


FEW = 3
"""Broken models that are named one by one."""
NOT_MEASURED = SweepNumber(None, None, None, 0, 0, 0, reason="not measured")
Key = str | None | tuple[str, ...]


@dataclass(frozen=True)
class SweepRequest:
    """Options of a sweep's report.

    Attributes:
        missing: name and reason of failed cells.
        search: method, lr, utility, forgetting, score, chosen; None without a search.
        show_text: show text of real records in reports that include text; text of invented benchmarks is always
            shown.
        replicates, seed: bootstrap replicates and seed.
        judged: panels that judged the benchmark's labels and questions.
        parts: the models of each split, seed and context, as a report of runs shows them.
    """

    title: str = "Sweep"
    missing: Sequence[tuple[str, str]] = ()
    search: pd.DataFrame | None = None
    show_text: bool = False
    replicates: int = REPLICATES
    seed: int = 0
    judged: Sequence[JudgementTables] = ()
    parts: Sequence[SweepPart] = ()


@dataclass(frozen=True, kw_only=True)
class SweepResults:
    """All numbers and contrasts of a sweep.

    Attributes:
        splits: what was forgotten, in the order of the report.
        methods: titles of the unlearning methods. seeds: of training.
        contexts: the modes in which models were asked.
        benchmark: name, builder, source, licence, data_use, levels, counts, fingerprint.
        caveats: sentences for the top of the page.
        refused: (context, split) -> why nothing may be read against its retrained models.
        broken: (context, split, method; "" of target and retrained model) -> why a model is broken.
        unproven: (context, split, method) -> why an unlearned model's forgetting is not shown.
        warnings: sentences on broken models; also the first caveats.
        provenance: who wrote the benchmark's labels and questions, and who rated responses.
        extractor: of the leakage score's keywords.
    """

    number_labels: ClassVar[tuple[str, ...]]
    contrast_labels: ClassVar[tuple[str, ...]]

    splits: tuple[Any, ...]
    numbers: pd.DataFrame
    contrasts: pd.DataFrame
    methods: tuple[str, ...]
    contexts: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    benchmark: Mapping[str, Any] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    refused: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    broken: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    unproven: Mapping[tuple[str, str, str], tuple[Reason, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    request: SweepRequest = field(default_factory=SweepRequest)
    provenance: tuple[Provenance, ...] = ()
    extractor: str = ""

    @staticmethod
    def facts(models: SweepModels, caveats: Iterable[str], request: SweepRequest) -> dict[str, Any]:
        """The fields common to all papers."""
        refused, broken = models.refused(request.replicates, request.seed), models.broken()
        warnings = _warnings(broken)
        evaluated = [model for *_, seeds in models for model in seeds.values()]
        panels = (entry for panel in request.judged for entry in panel.provenance)
        origins = distinct_entries([*models.benchmark.provenance, *panels, *rated_by(evaluated)])
        alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for (context, split), reasons in refused.items():
            alike.setdefault((context, reasons), []).append(split)
        against = (
            f"{', '.join(splits)} ({context}): {' '.join(reasons)}" for (context, reasons), splits in alike.items()
        )
        return {
            "methods": models.methods,
            "contexts": models.contexts,
            "seeds": models.seeds,
            "benchmark": {**models.benchmark.facts(), "data_use": models.data_use or UNKNOWN},
            "provenance": origins,
            "extractor": extractor_words({model.extractor for model in evaluated} - {""}),
            "caveats": (
                *provenance_lines(origins),
                *judge_remarks(evaluated, request.judged),
                *warnings,
                *caveats,
                *([ONE_SEED] if len(models.seeds) == 1 else []),
                *(f"Nothing is decided against the retrained model of {words}" for words in against),
            ),
            "refused": refused,
            "broken": {(at.context, at.split, at.method): at.reason for at in reversed(broken)},  # the first counts
            "unproven": models.unproven(request.replicates, request.seed),
            "warnings": warnings,
            "request": request,
        }

    def number(self, *key: Key) -> SweepNumber | None:
        """The number with these labels (roles and methods, and places, also as tuples); None without such a row."""
        return self._numbers.get(_flat(key))

    def contrast(self, *key: Key) -> SweepNumber:
        """The contrast with this name and these labels; one without a value if it was not computed."""
        return self._contrasts.get(_flat(key), NOT_MEASURED)

    def evidence(self, words: str, *key: Key) -> Evidence:
        """A contrast as a claim's evidence."""
        return Evidence.of(words, self.contrast(*key))

    def has(self, *key: Key) -> bool:
        """True if a model (context if there are several, split, role and method) was evaluated."""
        return _flat(key) in self._evaluated

    def models_on(self, *place: str) -> list[Who]:
        """Models evaluated at a place (context, split), the references first."""
        return [who for who in (*REFERENCES, *map(unlearned, self.methods)) if self.has(*place, who)]

    def refused_in(self, labels: Mapping[str, str], context: str) -> str:
        """Reason why a case's retrained model is not a valid reference; "" if it is."""
        splits = labels.get("split", "").split(" against ")
        reasons = (
            reason
            for (where, split), of_split in self.refused.items()
            for reason in of_split
            if split in splits and context in ("", where)
        )
        return next(reasons, "")

    def broken_in(self, labels: Mapping[str, str], context: str) -> str:
        """Reason why a model of a case is broken, by the case's labels; "" if none is."""
        splits = labels["split"].split(" against ") if "split" in labels else None
        reasons = (
            reason
            for (where, split, method), reason in self.broken.items()
            if context in ("", where)
            and (splits is None or split in splits)
            and method in ("", labels.get("method", ""))
        )
        return next(reasons, "")

    def unproven_in(self, labels: Mapping[str, str], context: str) -> str:
        """Why a case's unlearned model is not shown to have forgotten; "" if it is."""
        splits = labels.get("split", "").split(" against ")
        of_case = (
            why
            for (where, split, method), why in self.unproven.items()
            if context in ("", where) and split in splits and method == labels.get("method")
        )
        return " ".join(why.text for why in next(of_case, ()))

    def may_be_best(self, context: str, split: str, method: str) -> bool:
        """True unless a model is broken, or cannot be told apart from damage."""
        if (context, split) in self.refused:
            return False
        broken = {self.broken.get((context, split, method)), self.broken.get((context, split, ""))} != {None}
        return not broken and not any(
            why.obstacle in DAMAGE for why in self.unproven.get((context, split, method), ())
        )

    @cached_property
    def _numbers(self) -> dict[tuple[str, ...], SweepNumber]:
        return by_labels(self.numbers, self.number_labels)

    @cached_property
    def _contrasts(self) -> dict[tuple[str, ...], SweepNumber]:
        return by_labels(self.contrasts, self.contrast_labels)

    @cached_property
    def _evaluated(self) -> set[tuple[str, ...]]:
        model = self.number_labels.index("method") + 1
        return {key[:model] for key in self._numbers}


def _warnings(broken: Sequence[BrokenModel]) -> tuple[str, ...]:
    """A sentence for each broken model; where many are broken alike, one for them all."""
    alike = defaultdict[str, list[BrokenModel]](list)
    for model in broken:
        alike[model.problem].append(model)
    sentences = list[str]()
    for problem, models in alike.items():
        if len(models) <= FEW:
            sentences += [f"A broken model: {model.reason}. No verdict is read from it." for model in models]
            continue
        splits = defaultdict[str, dict[str, None]](dict)
        for model in models:
            splits[model.name][model.split] = None
        which = "; ".join(f"{name} on {', '.join(names)}" for name, names in splits.items())
        sentences.append(f"{len(models)} broken models, each: {problem}. No verdict is read from them: {which}.")
    return tuple(sentences)


def _flat(key: Sequence[Key]) -> tuple[str, ...]:
    return tuple(str(label) for part in key for label in (part if isinstance(part, tuple) else (part,)))


def by_labels(table: pd.DataFrame, labels: Sequence[str]) -> dict[tuple[str, ...], SweepNumber]:
    """A table's numbers by the labels of their rows."""
    return {tuple(str(row[name]) for name in labels): _number(row) for row in rows_of(table)}


def _number(row: Mapping[str, Any]) -> SweepNumber:
    value, low, high = (number(row[name]) for name in ("value", "low", "high"))
    scored, unscored, subjects = (int(row.get(name, 0)) for name in ("n_scored", "n_unscored", "n_subjects"))
    by_seed, reason = tuple(row.get("by_seed", ())), str(row.get("reason", ""))
    return SweepNumber(value, low, high, scored, unscored, subjects, by_seed, reason, number(row.get("p")))


def settled(
    labels: Mapping[str, str],
    evidence: Sequence[Evidence],
    signs: Iterable[bool | None],
    says: Mapping[Verdict, str],
) -> Case:
    """A case decided by the signs of its evidence; ``says`` has the text of each verdict."""
    verdict: Verdict = decide(signs)
    return Case(labels, verdict, says.get(verdict, "not settled"), tuple(evidence))


@dataclass(frozen=True)
class SweepReport:
    """A sweep's report, and its findings for a terminal.

    Attributes:
        results: the paper's own tables.
    """

    report: Report
    findings: tuple[Finding, ...]
    results: Any = None

    @property
    def broken(self) -> tuple[str, ...]:
        """Warnings about broken models; also the first caveats of the page."""
        return tuple(self.results.warnings) if self.results is not None else ()

    def verdicts(self) -> list[dict[str, str]]:
        """The findings as data: name, context, verdict."""
        return [{"finding": f.name, "context": f.context, "verdict": f.verdict} for f in self.findings]

    def view(self) -> ResultView:
        """The first screen's table of each split, and the findings, for the terminal."""
        parts = self.results.request.parts if self.results is not None else ()
        tables = [titled(part.title, ModelsScreen(part.content).table()) for part in parts]
        findings = titled("Findings", findings_table(self.findings))
        view = ResultView(
            {"findings": self.verdicts(), **({"broken": list(self.broken)} if self.broken else {})},
            [*tables, findings, unmeasured(self.findings), comparisons(self.findings)],
            self.broken,
        )
        if self.results is None:
            return view
        return with_provenance(view, self.results.provenance, self.results.extractor)
