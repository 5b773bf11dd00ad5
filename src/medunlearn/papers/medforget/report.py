"""The report of a sweep over levels: MedForget's Tables 3 and 5, Figures 5 to 7 and findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.medforget.claims import findings
from medunlearn.papers.medforget.contrasts import contrasts
from medunlearn.papers.medforget.examples import level_examples
from medunlearn.papers.medforget.figures import Panels, figure_5, figure_6, published_figure_5
from medunlearn.papers.medforget.partitions import LEVELS
from medunlearn.papers.medforget.sweep import (
    GENERAL,
    GIVEN,
    GROUPS,
    LevelExample,
    LevelModels,
    LevelResults,
    Scope,
    level_numbers,
    scopes_of,
)
from medunlearn.papers.medforget.tables import (
    attack_table,
    identity_table,
    published,
    published_methods,
    published_numbers,
    published_table,
    retrained_table,
    scopes_table,
    table_3,
    table_5,
)
from medunlearn.papers.sweeps.figures import legend
from medunlearn.papers.sweeps.models import REFERENCES, TARGET_MODEL, SweepDraws, unlearned
from medunlearn.papers.sweeps.report import PUBLISHED, SweepFacts, SweepReport, SweepRequest
from medunlearn.pipeline.report.gather import caveats_of
from medunlearn.reports.blocks import (
    Bullets,
    Columns,
    Image,
    Prose,
    Quotes,
    Report,
    Section,
    Text,
    blocks,
    details,
    figures,
    section,
)
from medunlearn.reports.claims import FEWEST_SUBJECTS, statements
from medunlearn.reports.words import context_text
from medunlearn.results.evaluated import Evaluated

FINDINGS = "What MedForget found, as rules on the numbers of this sweep."
HOW_TO_READ: tuple[str, ...] = (
    "Each level's split forgets a share of its nodes with everything below them. Four sets are asked: what is"
    " to be forgotten, what is to stay, the first in other words on another view, and general questions about"
    " nobody here. On the first and third lower is better, on the others higher.",
    "The target model was trained on everything. The retrained model of a split never saw its forget set: a "
    "forgetting number is good where it comes close to the retrained model's, not where it is lowest.",
    "Numbers are percent. Intervals are 95%, by a bootstrap over patients; of fewer than five patients there "
    "is none. Differences draw the patients of both sides together, so that a patient in two forget sets is "
    "drawn once for both. Nothing is corrected for the number of comparisons.",
    "With a fixed number of epochs a larger forget set also means more unlearning steps.",
)
GEN_SCORE = "Gen Score: 75 parts factuality (rated 1 to 10 by judges, over 10) and 25 parts ROUGE-L."
NO_GEN_SCORE = "Generation is ROUGE-L (F-measure) alone: no judge rated the answers, so there is no Gen Score."
MEASURES = (
    "Class. Acc: the right option is the most probable; a guess: 1 / options. Cloze Acc: the filled gap is the "
    "reference but for case and surrounding space."
)
FIGURE_5 = (
    "One line a method over the levels of forgetting, from institution to section; star: target, diamond: "
    "retrained model of the level. Whiskers are intervals."
)
FIGURE_6 = (
    "Questions on forgotten sections with more and more names in front of them: none, the study's, the "
    "patient's too, the institution's too. Levels of unlearning from section to institution. Higher = more is"
    " reconstructed; the diamond is what a model says that never saw the sections."
)
FIGURE_7 = (
    'One question a level, drawn from its forget set by seed and not chosen for what models say. "Flat" is '
    "the same method after unlearning as many questions drawn without hierarchy."
)
FLAT_TEXT = (
    "The share of names and sections of the forgotten nodes that is left, after unlearning on the level and "
    "after unlearning as many questions drawn over the whole hospital. The flat model was asked to forget "
    "other questions, of which about the split's share lies in this forget set."
)
NO_TEXT = (
    "No text of a record, question or response is in this report but for Figure 7, which is there for invented "
    "data, or where text was asked for."
)
NOT_ATTACKED = "No model was attacked: a section attack in the sweep's file, with attacks: reconstruction, does it."
UNJUDGED = (
    "No judge rated the answers, so there is no factuality and no Gen Score: ROUGE-L, its other part, stands under "
    "its own name, and is not comparable with Gen Score. `medunlearn judge` adds both."
)
NO_GENERAL = "No general questions were asked: build the benchmark with --general FILE, and ask fold utility."


def sweep_report(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> SweepReport:
    """MedForget's report of a sweep's evaluated models."""
    return report_of(level_results(models, benchmark, request))


def level_results(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> LevelResults:
    """Every number and contrast of a sweep over levels.

    Responses under the reconstruction attack are looked for beside each model. Of several context modes the first
    is reported.
    """
    context = models[0].context if models else ""
    swept = LevelModels([model for model in models if model.context == context], benchmark)
    scopes = scopes_of(swept)
    draws = SweepDraws(swept, request.replicates, request.seed)
    return LevelResults(
        SweepFacts.of(swept, _caveats(swept, models, scopes), request),
        tuple(scopes.values()),
        level_numbers(draws, context, scopes, {group.name: group for group in GROUPS}, "group"),
        level_numbers(draws, context, scopes, GIVEN, "identifiers"),
        contrasts(draws, context, scopes),
        level_examples(swept, context, scopes, show_text=request.show_text),
        context,
    )


def _caveats(swept: LevelModels, models: Sequence[Evaluated], scopes: dict[str, Scope]) -> Iterator[str]:
    reported = [model for *_, seeds in swept for model in seeds.values()]
    yield from caveats_of(swept.benchmark.facts(), reported)
    if any(model.context != swept.contexts[0] for model in models):
        yield f"Models were asked in several context modes; this report shows {swept.contexts[0]} alone."
    table = swept.table
    if "gen_score" not in set(table["measure"]):
        yield UNJUDGED
    if GENERAL.fold not in set(table["fold"]):
        yield NO_GENERAL
    forgotten = table[(table["side"] == "forget") & (table["fold"] == "train")]
    patients = forgotten.groupby("split")["subject"].nunique()
    few = [scope.split for name, scope in scopes.items() if patients.get(name, 0) < FEWEST_SUBJECTS]
    if few:
        yield (
            f"Fewer than {FEWEST_SUBJECTS} patients are in the forget set of some splits ({', '.join(few)}): their "
            "numbers have no interval, and no finding can be settled by them."
        )
    levels = [scope for scope in scopes.values() if scope.level in LEVELS]
    if len({scope.sections for scope in levels}) > 1:
        amounts = ", ".join(f"{scope.split}: {scope.sections}" for scope in levels)
        yield (
            f"The levels forget different amounts (sections to forget: {amounts}), because a share of few nodes "
            "is rounded. Differences between levels mix the level with the amount."
        )


def report_of(results: LevelResults) -> SweepReport:
    """The report as blocks."""
    facts, claims = results.facts, findings(results)
    judged = results.tasks[0].name == "gen_score"
    measures = f"{GEN_SCORE if judged else NO_GEN_SCORE} {MEASURES}"
    parts = blocks(
        facts.notices(),
        section("Findings", Text(FINDINGS), statements(claims)),
        section("How to read this", Prose((*HOW_TO_READ, measures, NO_TEXT))),
        *_sections(results),
        _published(),
        section("Appendix", details("Splits", scopes_table(results), opened=True), facts.searched(opened=False)),
    )
    data = facts.data(
        claims,
        context=results.context,
        splits=[asdict(scope) for scope in results.scopes],
        numbers=results.numbers,
        attacked=results.attacked,
        contrasts=results.contrasts,
        examples=[
            {key: value for key, value in asdict(example).items() if key != "thumbnail"}
            for example in results.examples
        ],
        published=_published_data(),
    )
    splits = ", ".join(scope.split for scope in results.scopes)
    first = facts.first_screen(splits, ("Context mode", context_text(results.context)), "")
    return SweepReport(Report(facts.title, parts, "Sweep report", first, data), claims, results, by="method")


def _sections(results: LevelResults) -> Iterator[Section | None]:
    shown = [
        who
        for who in (*REFERENCES, *map(unlearned, results.methods))
        if any(results.has(scope.split, who) for scope in results.scopes)
    ]
    key = legend(results.methods, shown)
    over = retrained_table(results)
    yield section(
        "Four sets at each level of forgetting",
        *(Text(FIGURE_5, "aside"), key, _panels(figure_5(results), "By level"), table_3(results)),
        section("Generation, its parts apart", table_5(results), note="Table 5"),
        details("Every method minus the retrained model, percent points", over),
        note="Figure 5 and Table 3",
        name="levels",
    )
    attacked = attack_table(results)
    yield section(
        "Reconstruction from identifiers",
        blocks(Text(FIGURE_6, "aside"), key, _panels(figure_6(results), "Reconstruction"), attacked)
        if attacked
        else Text(NOT_ATTACKED, "empty"),
        note="Figure 6",
        name="reconstruction",
    )
    said = section("What models say", Text(FIGURE_7, "aside"), map(_example, results.examples))
    yield section(
        "Along the hierarchy and flat",
        *(Text(FLAT_TEXT, "aside"), identity_table(results), said if results.examples else None),
        note="Figure 7",
        name="flat",
    )


def _panels(rows: list[tuple[str, Panels]], label: str) -> list[Section | None]:
    return [section(title, figures(panels, f"{label}, {title}", 4)) for title, panels in rows]


def _example(example: LevelExample) -> Section | None:
    quotes = Quotes((("answer", example.answer), *example.outputs.items()), reference=True)
    image = (Image(example.thumbnail, "The image that is asked about"),)
    shown = Columns(image, (quotes,), "thumbnail") if example.thumbnail else quotes
    return section(f"{example.level}: {example.question}", shown, note=example.split)


def _published() -> Section | None:
    setting, names = str(published()["setting"]), published_methods()
    key = legend(names, [*map(unlearned, names), TARGET_MODEL])
    said = tuple(f"Figure {row['figure']}: {row['says']}" for row in published()["figures"])
    return section(
        "What the paper published",
        Text(f"{setting}: {PUBLISHED}"),
        Bullets(said),
        details("Figure 5, drawn from the paper's Table 3", key, _panels(published_figure_5(), "Published")),
        [details(f"Table {number}, %", published_table(number)) for number in (3, 5)],
        section("Where it does not agree with itself", Bullets(tuple(published()["contradictions"]))),
        note=setting,
        name="published",
        raised=True,
    )


def _published_data() -> dict[str, object]:
    tables = {
        f"table_{number}": [
            {"level": level, "role": who[0], "method": who[1], "group": group, "measure": measure, "value": value}
            for (level, who, group, measure), value in published_numbers(number).items()
        ]
        for number in (3, 5)
    }
    return {**{name: published()[name] for name in ("setting", "contradictions", "figures")}, **tables}
