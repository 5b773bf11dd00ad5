"""The report of audits as blocks: the memorization paper's tables and figures from the user's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal

from medunlearn.audit.screen_blocks import answers, search_sections
from medunlearn.papers.memorization.report import figures as plots
from medunlearn.papers.memorization.report import tables
from medunlearn.papers.memorization.report.claims import findings
from medunlearn.papers.memorization.report.content import AuditContent, Row, prefix_words
from medunlearn.papers.memorization.report.recommendations import (
    Recommendation,
    largest_bound,
    missing_searches,
    recommendations,
)
from medunlearn.papers.memorization.report.tables import WORDS
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.blocks import (
    Block,
    Bullets,
    Cell,
    Details,
    Facts,
    Figure,
    Figures,
    Legend,
    Notice,
    Prose,
    Quotes,
    Report,
    Section,
    Spec,
    Statement,
    Table,
    Text,
    blocks,
    details,
    figures,
    section,
)
from medunlearn.reports.claims import NOT_MEASURABLE, Finding, findings_data, statements
from medunlearn.reports.provenance import provenance_data, provenance_lines, provenance_section

PUBLISHED = paper_yaml("memorization", "published")
_SOFT = frozenset(("ROUGE-L", "BLEU", "BERTScore", "BARTScore"))
_PUBLISHED_NAMES = {
    "only_before": "memorized before only",
    "only_after": "memorized after only",
    "run_30": "run of 30",
    "run_50": "run of 50",
}
_TONES: dict[str, Literal["good", "bad"]] = {"harmful": "bad", "beneficial": "good"}


def audit_report(content: AuditContent) -> Report:
    """Blocks and numbers of a report of audits. Spans are shown only with ``content.show_text``."""
    claims = findings(content)
    advice = recommendations(content, claims)
    nothing = Section("How much is memorized", (Text("No number was measured.", "empty"),))
    how_to_read = [*WORDS["how_to_read"], *([] if content.show_text else [WORDS["no_text"]])]
    read_first = (*provenance_lines(content.provenance), *content.caveats)
    caveats = Notice("Read this first", read_first) if read_first else None
    parts = blocks(
        caveats if content.problems else None,
        answers(content.screens),
        None if content.problems else caveats,
        search_sections(content.screens),
        section(
            "Recommendations",
            list(map(_advice, advice)) or _no_advice(content),
            _not_searched(content),
            note="Figure 8",
        ),
        section("How much is memorized", *_ratios(content)) or nothing,
        section("What is memorized", *_contents(content)),
        section("Through training", *_training_sections(content)),
        section("Examples", list(map(_example, content.shown_examples()))),
        section("How to read this", Prose(tuple(how_to_read))),
        provenance_section(content.provenance),
        section("Appendix: the paper's findings", *_findings(claims)),
        section("Appendix", *_appendix(content)),
        section("What the paper published", *_published_blocks(content), raised=True, name="published"),
    )
    return Report(content.title, parts, "Memorization audit", facts(content), data(content, claims, advice))


def _findings(claims: Sequence[Finding]) -> Iterator[Block | None]:
    """The paper's findings that have a case here, and the names of those that have none."""
    decided = [claim for claim in claims if any(case.verdict != NOT_MEASURABLE for case in claim.cases)]
    rest = [claim.name for claim in claims if claim not in decided]
    yield Text(WORDS["findings"]) if decided else None
    yield from statements(decided) if decided else ()
    if rest:
        yield Text(f"Without a case that could be measured here: {', '.join(rest)}.", "aside")


def facts(content: AuditContent) -> tuple[tuple[str, str], ...]:
    """The lines of the first screen."""
    prefixes = ", ".join(str(length) if length else "mixed" for length in content.prefixes)
    decodings = ", ".join(dict.fromkeys(content.tables["ratios"]["decoding"]))
    return (
        ("Models", ", ".join(model.label for model in content.models)),
        ("Corpora", ", ".join(content.corpora) or "none"),
        ("Prefixes", f"{prefixes} {'/'.join(dict.fromkeys(model.unit for model in content.models))}"),
        ("Decodings", decodings or "none"),
        *([("Records of patients", ", ".join(content.clinical))] if content.clinical else []),
        ("Data use", content.data_use),
        ("Intervals", "95%, over subjects"),
    )


def data(content: AuditContent, claims: Sequence[Finding], advice: Sequence[Recommendation]) -> dict[str, Any]:
    """Every number for ``report.json``; tables are column -> values."""
    names = sorted({row["measure"] for row in content.rows("ratios")})
    words = {name: tables.measure_words(name) for name in names}
    return {
        "models": [asdict(model) for model in content.models],
        **{name: getattr(content, name) for name in ("data_use", "clinical", "datasets", "replicates", "caveats")},
        "missing": [{"name": name, "how": how} for name, how in content.missing],
        "measures": {name: {"title": title, "meaning": text} for name, (title, text) in words.items()},
        "first_screens": [screen.data() for screen in content.screens],
        "findings": findings_data(claims),
        "recommendations": [asdict(recommendation) for recommendation in advice],
        "not_searched": missing_searches(content),
        **{name: table.to_dict("list") for name, table in content.tables.items()},
        "provenance": provenance_data(content.provenance),
        "show_text": content.show_text,
        "examples": content.shown_examples(),
        "published": PUBLISHED,
    }


def _no_advice(content: AuditContent) -> Text | None:
    """The upper bound of the measurements; None without any.

    "No measures needed" is stated only if every model was searched for identifiers.
    """
    bound, searched = largest_bound(content), content.searches.get("identifiers", ())
    if not bound:
        return None
    unsearched = [model.label for model in content.models if model.label not in searched]
    words = WORDS["no_search" if unsearched else "no_advice"]
    return Text(words.format(bound=bound, names=", ".join(unsearched)))


def _not_searched(content: AuditContent) -> Text | None:
    names = missing_searches(content)
    return Text(WORDS["not_searched"].format(names="; ".join(names))) if names else None


def _advice(advice: Recommendation) -> Statement:
    body = (Text(advice.advice), Text(f"Found: {advice.observed}", "aside"))
    return Statement(advice.group, _TONES.get(advice.group, "open"), advice.name.capitalize(), blocks=body)


def _ratios(content: AuditContent) -> Iterator[Section | None]:
    prefix = content.prefixes[0] if content.prefixes else 0
    table_2 = tables.crossed(content, "measures", prefix_tokens=prefix)
    words = details("Meaning of the measures", Bullets(tuple(tables.meanings(content))) if table_2 else None)
    yield _part("overview", *tables.crossed(content, "overview").values())
    yield _part("measures", table_2.values(), words, prefix=prefix or "mixed lengths")
    lines = _grid(plots.figure_1(content), "Ratio by prefix length")
    by_prefix = [Details(title, (table,)) for title, table in tables.crossed(content, "prefixes").items()]
    yield _part("prefixes", Legend(plots.legend(content)) if lines else None, lines, by_prefix)
    decodings = details("Ratios and differences from greedy", tables.listed(content, "decodings"))
    yield _part("decodings", _grid(plots.figure_2(content), "Ratio by decoding"), decodings)
    copies = details("Runs of 30 and 50 by copies", tables.crossed(content, "duplication").values())
    yield _part("copies", _grid(plots.figure_copies(content), "Ratio by copies"), copies)
    segments = (Section(title, (table,)) for title, table in tables.crossed(content, "positions").items())
    starts = _grid(plots.figure_3(content), "Start of runs")
    yield _part("positions", starts, details("Every way to count, by segment", segments))


def _contents(content: AuditContent) -> Iterator[Section | None]:
    agreement = details("Agreement of the ways of sorting", tables.listed(content, "agreement"))
    near = [Details(title, (Quotes(pair, reference=True),)) for title, pair in _near_texts(content)]
    yield _part("near", tables.listed(content, "near"), near)
    yield _part("kinds", tables.kinds_table(content) or _nothing(content, "kinds"), agreement)
    for table in ("table_9", "table_10"):
        yield _part(table, tables.listed(content, "identifiers", table=table) or _nothing(content, table))
    table_5, prompt = tables.fine_tuning_table(content)
    yield _part("fine_tuning", table_5, prompt=prompt)
    options = details("Every prompt and match", tables.listed(content, "options"))
    groups = details("Members and non-members", tables.crossed(content, "option_groups").values())
    yield _part("options", _grid(plots.figure_4(content), "Options given back"), options, groups)
    yield _part("answers", *tables.crossed(content, "answers").values())


def _training_sections(content: AuditContent) -> Iterator[Section | None]:
    shares = [
        Section(title, (table,)) if "by probe" in title else Details(title, (table,))
        for title, table in tables.crossed(content, "persistence").items()
    ]
    grid = _grid(plots.figure_5(content), "Ratio before and after")
    yield _part(
        "persistence",
        grid,
        Text(WORDS["shares"], "aside") if shares else None,
        shares,
    )
    accuracy = details("The numbers", tables.crossed(content, "accuracy").values())
    yield _part("accuracy", _grid(plots.figure_6(content.rows("accuracy")).items(), "Top-k accuracy"), accuracy)
    spec = plots.figure_7(content)
    label = "Memorization, validation loss and accuracy by epoch. The numbers are in the table below."
    numbers = details("The numbers by epoch", tables.crossed(content, "epochs").values())
    yield _part("epochs", Figure(spec, label, size="wide") if spec else None, numbers)


def _appendix(content: AuditContent) -> Iterator[Block | None]:
    yield details("Trends", tables.listed(content, "trends"))
    yield details("Every difference between models", tables.listed(content, "differences"))
    yield from (details(model.label, Facts(tuple(model.facts.items()))) for model in content.models)
    lines = tuple(f"{name}: {how}" for name, how in content.missing)
    yield section("Not in this report", Bullets(lines) if lines else None)


def _published_blocks(content: AuditContent) -> Iterator[Block | None]:
    yield Text(f"{PUBLISHED['setting']}: {WORDS['published']}")
    yield Text(beside(content), "aside")
    yield from (details(title, table) for title, table in published_tables())
    lines = tuple(f"{entry['at']}: {' '.join(entry['says'].split())}" for entry in PUBLISHED["contradictions"])
    yield section("Where the paper contradicts itself", Bullets(lines))


def _part(name: str, *parts: Block | Iterable[Block | None] | None, **values: object) -> Section | None:
    """A declared part, its remark first; None if it has nothing but the remark."""
    inside, part = blocks(*parts), WORDS["parts"][name]
    if not inside:
        return None
    text = Text(part["text"].format_map(values) if values else part["text"], "aside")
    return Section(part["title"].format_map(values), (text, *inside), part["note"])


def _nothing(content: AuditContent, part: str) -> Text | None:
    """Words for a search that was made and has no row; None if no model was searched."""
    stage, words = WORDS["nothing"][part]
    searched = content.searches.get(stage, ())
    return Text(words.format(models=", ".join(searched))) if searched else None


def _grid(specs: Iterable[tuple[str, Spec]], label: str) -> Figures | None:
    return figures(specs, label, columns=2)


def _example(span: Row) -> Details:
    note = f"{prefix_words(span['prefix_tokens'])}, run of {span['length']}, {span['kind']}"
    return Details("{model} on {corpus}".format_map(span), (Quotes((("Repeated", span["text"]),)),), note)


def _near_texts(content: AuditContent) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Title of each text that is nearly repeated, and the original beside the generated text."""
    for row in content.near_examples if content.show_text else ():
        title = tables.measure_words(row["measure"])[0]
        pair = ("Original text", row["original"]), ("Generated text", row["generated"])
        yield f"{row['model']} on {row['corpus']}: {title} = {row['value']:.2f}", pair


def published_tables() -> Iterator[tuple[str, Table]]:
    """Heading and published numbers of each table."""
    for table in (entry for name, entry in PUBLISHED.items() if name.startswith("table_")):
        columns = [*table["columns"], *map(str, table.get("prefixes", ()))]
        heads = (Cell(name, PUBLISHED["variants"].get(name, "")) for name in columns)
        yield table["title"], Table(tuple(heads), tuple(_published_row(columns, row) for row in table["rows"]))


def _published_row(columns: Sequence[str], row: Sequence[Any]) -> tuple[Cell, ...]:
    """Cells of a row; a model's name may be marked as a baseline."""
    notes = {"Model": "baseline"} if any(value is True for value in row) else {}
    values = [value for value in row if not isinstance(value, bool)]
    return tuple(
        Cell(_cell_text(name, value), notes.get(name, "")) for name, value in zip(columns, values, strict=True)
    )


def _cell_text(column: str, value: Any) -> str:
    if isinstance(value, str):
        return _PUBLISHED_NAMES.get(value, value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}" if column in _SOFT else f"{value:.2f}%"


def beside(content: AuditContent) -> str:
    """Names of the published columns comparable with this report, whose variant it contains."""
    measures = {row["measure"] for row in content.rows("ratios") if row["n_scored"]}
    measures |= {row["match"] for row in content.rows("options")}
    names = {"present": [name for name in PUBLISHED["variants"].values() if name in measures]}
    names["absent"] = [name for name in PUBLISHED["variants"].values() if name not in measures]
    texts = (WORDS["beside"][key].format(names=", ".join(listed)) for key, listed in names.items() if listed)
    return " ".join(texts)
