"""LUME's part of a report of runs: its findings (Section 3) as rules, and the SemEval-2025 score."""

from __future__ import annotations

from dataclasses import replace

from medunlearn.papers.lume.contrasts import contrasts, training_seed
from medunlearn.papers.lume.figures import paper_figures
from medunlearn.papers.lume.findings import DOCUMENTS, SEEDS, findings
from medunlearn.papers.lume.measured import Measured
from medunlearn.papers.lume.semeval import score_of
from medunlearn.reports.blocks import Cell, blocks, section
from medunlearn.reports.claims import Case, Finding, findings_data, without_broken
from medunlearn.reports.content import PaperPart
from medunlearn.reports.finding_blocks import findings_blocks
from medunlearn.reports.formatting import UNSCORED, decimal
from medunlearn.reports.provenance import undecided, without_drawn
from medunlearn.reports.table_blocks import grid
from medunlearn.results.evaluated import reference_of
from medunlearn.study.report.papers import GatheredRuns

FINDINGS = (
    "LUME's Section 3 as rules on the numbers of these runs. A case is decided only where an interval over "
    "documents leaves the threshold out, and stays open otherwise. "
    f"Fewer than {DOCUMENTS} documents or {SEEDS} training seeds decide nothing. No interval is corrected for the "
    "number of cases. A finding about a family of methods counts every method that declares it."
)
Scores = dict[str, dict[str, float | None]]
"""Model -> part of the SemEval-2025 Task 4 score -> value; None if it was not measured."""


def paper_part(runs: GatheredRuns) -> PaperPart:
    """LUME's findings and the SemEval-2025 Task 4 score, for models with an aggregate or an attack."""
    scores = {
        model.run.label: score.rows()
        for model, attacked in zip(runs.models, runs.attacked, strict=True)
        if (score := score_of(model, attacked)).task_aggregate is not None or score.membership_score is not None
    }
    broken = {
        model.label: f"{model.label}: {'; '.join(model.problems)}"
        for model in runs.content.models
        if model.problems
    }
    references = [
        broken[model.label] for model in runs.content.models if model.label in broken and model.role != "unlearned"
    ]

    def reason(case: Case, context: str) -> str:
        return next(iter(references), broken.get(case.labels.get("run", ""), ""))

    healthy = without_broken(findings(measured(runs)), reason)
    part = report_part(without_drawn(healthy, undecided(runs.content.benchmark)), scores)
    drawn = paper_figures(runs.content, runs.benchmark)
    return replace(part, blocks=(*drawn, *part.blocks), draws_epochs=len(runs.content.epochs) > 0)


def measured(runs: GatheredRuns) -> Measured:
    """The numbers used by the findings; models of several training seeds are compared with references of their own
    seed.
    """
    seeds = sorted({training_seed(model) for model in runs.models})
    references = {
        seed: reference_of(
            [model for model in runs.models if training_seed(model) == seed], runs.replicates, runs.seed
        )
        for seed in seeds
    }
    table = contrasts(runs.models, runs.benchmark, runs.replicates, runs.seed)
    content = runs.content
    return Measured(content.models, content.epochs, table, content.membership, references)


def report_part(rules: tuple[Finding, ...], scores: Scores) -> PaperPart:
    """Sections and numbers of findings and scores."""
    entries = (
        (Cell(part), model, Cell(UNSCORED if value is None else decimal(value)))
        for model, parts in scores.items()
        for part, value in parts.items()
    )
    parts = blocks(
        section("LUME's findings", *findings_blocks(rules, FINDINGS), name="findings"),
        section("SemEval-2025 Task 4, with its parts", grid("Part", entries, list(scores)), name="semeval"),
    )
    return PaperPart(parts, rules, {"findings": findings_data(rules), "semeval": scores})
