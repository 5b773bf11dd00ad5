"""The report of a sweep over levels: MedForget's Tables 3 and 5, Figures 5 to 7 and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pandas as pd

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.image_files import FILE
from medunlearn.data.storage import read_frame, sha256_of_json
from medunlearn.papers.medforget import tables
from medunlearn.papers.medforget.claims import findings
from medunlearn.papers.medforget.contrasts import contrasts
from medunlearn.papers.medforget.controls import control_sections, image_controls, private_results
from medunlearn.papers.medforget.figures import Panels, figure_5, figure_6, level_examples
from medunlearn.papers.medforget.measures import DRAWN_GEN_SCORE, GEN_SCORE, MEASURES
from medunlearn.papers.medforget.models import LevelModels
from medunlearn.papers.medforget.partitions import LEVELS
from medunlearn.papers.medforget.question_sets import GAP, SETS
from medunlearn.papers.medforget.sequence import sequence_numbers
from medunlearn.papers.medforget.sweep import LevelResults, LevelSweep
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.figures import legend
from medunlearn.papers.sweeps.models import REFERENCES, TARGET_MODEL, unlearned
from medunlearn.papers.sweeps.page import sweep_page
from medunlearn.papers.sweeps.results import SweepReport, SweepRequest
from medunlearn.reports.blocks import Bullets, Columns, Image, Quotes, Section, Text, details, figures, section
from medunlearn.results.evaluated import Evaluated
from medunlearn.statistics.intervals import MIN_SUBJECTS
from medunlearn.study.report.gather import caveats_of

CAPTIONS = paper_yaml("medforget", "report")["captions"]


def sweep_report(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> SweepReport:
    """MedForget's report on a sweep's evaluated models."""
    return report_of(
        level_results(models, benchmark, request),
        private_results(models, benchmark, request),
        image_controls(models, benchmark, request),
    )


def level_results(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> LevelResults:
    """Every number and contrast of a sweep over levels.

    Responses under the reconstruction attack are read from each model's run. If there are several context modes,
    the first is reported.
    """
    context = models[0].context if models else ""
    swept = LevelModels([model for model in models if model.context == context], benchmark)
    sweep = LevelSweep(swept, context, request)
    return LevelResults(
        splits=tuple(sweep.scopes.values()),
        numbers=sweep.numbers(),
        contrasts=contrasts(sweep),
        examples=level_examples(sweep, show_text=request.show_text),
        common=len(sweep.common),
        sequence=sequence_numbers([m for m in models if m.context == context], swept, MEASURES, request),
        **LevelResults.facts(swept, _caveats(sweep, models), request),
    )


def _caveats(sweep: LevelSweep, models: Sequence[Evaluated]) -> Iterator[str]:
    table = sweep.models.table
    reported = [model for *_, seeds in sweep.models for model in seeds.values()]
    yield from caveats_of(sweep.models.benchmark.facts(), reported)
    if any(model.context != sweep.context for model in models):
        yield f"Models were asked in several context modes; this report shows {sweep.context} alone."
    if not {GEN_SCORE.measure, DRAWN_GEN_SCORE.measure} & set(table["measure"]):
        yield CAPTIONS["unjudged"]
    if SETS["general"].fold not in set(table["fold"]):
        yield CAPTIONS["no_general"]
    else:
        yield CAPTIONS["general"].format(set=_general_set(sweep.models.benchmark))
    forgotten = table[(table["side"] == "forget") & (table["fold"] == "train")]
    patients = forgotten.groupby("split")["subject"].nunique()
    few = [scope.split for name, scope in sweep.scopes.items() if patients.get(name, 0) < MIN_SUBJECTS]
    if few:
        yield (
            f"Fewer than {MIN_SUBJECTS} patients are in the forget set of some splits ({', '.join(few)}): their "
            "numbers have no interval, and no finding can be settled by them."
        )
    if sweep.common:
        yield f"{CAPTIONS['common']} They are {len(sweep.common)}."
    levels = [scope for scope in sweep.scopes.values() if scope.level in LEVELS]
    if len({scope.sections for scope in levels}) > 1:
        amounts = ", ".join(f"{scope.split}: {scope.sections}" for scope in levels)
        yield (
            f"The levels forget different amounts (sections to forget: {amounts}), because a share of few nodes "
            "is rounded. Differences between levels mix the level with the amount."
        )


def _general_set(benchmark: Benchmark) -> str:
    """The general questions in words, with a hash of them and of their images' content."""
    questions = [question for question in benchmark.questions if question.fold == "utility"]
    table = benchmark.folder / FILE if benchmark.folder else None
    hashes: dict[str, str] = {}
    if table is not None and table.exists():
        images = read_frame(table, ("image", "sha256"))
        hashes = dict(zip(images["image"], images["sha256"], strict=True))
    pictures = [hashes.get(str(benchmark.record[question.record_id].image), "") for question in questions]
    content = [[q.question, q.answer, picture] for q, picture in zip(questions, pictures, strict=True)]
    return f"{len(questions):,} questions, {len(set(pictures) - {''}):,} pictures, {sha256_of_json(content)[:12]}"


def report_of(
    results: LevelResults, private: LevelResults | None = None, controls: pd.DataFrame | None = None
) -> SweepReport:
    """The report as blocks.

    Args:
        private: the same numbers for private questions only.
        controls: loss with other images (:func:`~.controls.image_controls`).
    """
    controls = pd.DataFrame() if controls is None else controls
    measures = f"{CAPTIONS[_generation_caption(results)]} {CAPTIONS['measures']}"
    published = paper_yaml("medforget", "published")
    names = [GAP, *(name for name, group in SETS.items() if not group.given)]
    data = {
        "context": results.contexts[0],
        "numbers": results.numbers[results.numbers["group"].isin(names)],
        "attacked": results.attacked,
        "sequence": results.sequence,
        "private": pd.DataFrame() if private is None else private.numbers,
        "image_control": controls,
        "examples": [
            {key: value for key, value in example.items() if key != "thumbnail"} for example in results.examples
        ],
        "published": {
            **{name: published[name] for name in ("setting", "variant", "methods", "contradictions", "figures")},
            **{
                f"table_{number}": tables.published_numbers(number).to_dict("records")
                for number in tables.PUBLISHED
            },
        },
    }
    return sweep_page(
        "medforget",
        results,
        findings(results),
        chain(_sections(results), control_sections(results, private, controls)),
        data,
        how_to_read=(*paper_yaml("medforget", "report")["how_to_read"], measures, CAPTIONS["no_text"]),
        published=_published_sections(),
        splits=tables.scopes_table(results),
        split_names=", ".join(scope.split for scope in results.splits),
        mode="Context mode",
        splits_open=True,
    )


def _generation_caption(results: LevelResults) -> str:
    """Key of the caption on what generation is measured by."""
    if results.tasks[0] == GEN_SCORE:
        return "gen_score"
    return "drawn" if results.shown_tasks[0] == DRAWN_GEN_SCORE else "no_gen_score"


def _sections(results: LevelResults) -> Iterator[Section | None]:
    everyone = (*REFERENCES, *map(unlearned, results.methods))
    models = [who for who in everyone if any(results.has(scope.split, who) for scope in results.splits)]
    key = legend(results.methods, models)
    figure = {number: Text(CAPTIONS[f"figure_{number}"], "aside") for number in (5, 6, 7)}
    by_level = _panels(figure_5(results, results.shown_tasks), "By level")
    by_code = tables.variants_table(results)
    varied_table = tables.varied_table(results)
    varied = (Text(CAPTIONS["varied"], "aside"), varied_table) if varied_table else ()
    modality = tables.modality_table(results)
    by_name = (Text(CAPTIONS["by_name"], "aside"), modality) if modality else ()
    variants = (Text(CAPTIONS["variants"], "aside"), by_code) if by_code else ()
    yield section(
        "Four sets at each level of forgetting",
        *(figure[5], key, by_level, Text(CAPTIONS["gap"], "aside"), tables.table_3(results)),
        section("On the sections that every level forgets", tables.common_table(results)),
        section("Words and views apart", *varied),
        section("With the image, and by name without it", *by_name),
        section("Generation, its parts apart", tables.table_5(results), note="Table 5"),
        details("By the published code's measures", *variants),
        details("Every method minus the retrained model, percent points", tables.retrained_table(results)),
        note="Figure 5 and Table 3",
        name="levels",
    )
    attacked = tables.attack_table(results)
    unattacked = Text(CAPTIONS["not_attacked"], "empty")
    yield section(
        "Reconstruction from identifiers",
        *((figure[6], key, _panels(figure_6(results), "Reconstruction"), attacked) if attacked else (unattacked,)),
        *((Text(CAPTIONS["brought_back"], "aside"), tables.brought_back_table(results)) if attacked else ()),
        note="Figure 6",
        name="reconstruction",
    )
    in_sequence = tables.sequence_table(results)
    yield section(
        "Requests in sequence",
        *((Text(CAPTIONS["sequence"], "aside"), in_sequence) if in_sequence else ()),
        name="sequence",
    )
    responses = section("What models say", figure[7], map(_example, results.examples))
    yield section(
        "Along the hierarchy and flat",
        *(Text(CAPTIONS["flat"], "aside"), tables.identity_table(results), responses if results.examples else None),
        note="Figure 7",
        name="flat",
    )


def _panels(rows: list[tuple[str, Panels]], label: str) -> list[Section | None]:
    return [section(title, figures(panels, f"{label}, {title}", 4)) for title, panels in rows]


def _example(example: Mapping[str, Any]) -> Section | None:
    quotes = Quotes((("answer", example["answer"]), *example["outputs"].items()), reference=True)
    image = (Image(example["thumbnail"], "The image that is asked about"),)
    content = Columns(image, (quotes,), "thumbnail") if example["thumbnail"] else quotes
    return section(f"{example['level']}: {example['question']}", content, note=example["split"])


def _published_sections() -> Iterator[Any]:
    results, published = tables.published_results(3), paper_yaml("medforget", "published")
    key = legend(results.methods, [*map(unlearned, results.methods), TARGET_MODEL])
    panels = _panels(figure_5(results, tables.PUBLISHED[3]), "Published")
    yield Text(f"Measures of the tables: {published['variant']}.")
    yield Bullets(tuple(f"Figure {row['figure']}: {row['says']}" for row in published["figures"]))
    yield details("Figure 5, drawn from the paper's Table 3", key, panels)
    yield from (details(f"Table {number}, %", tables.published_table(number)) for number in tables.PUBLISHED)
    yield section("Where it does not agree with itself", Bullets(tuple(published["contradictions"])))
