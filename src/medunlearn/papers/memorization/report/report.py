"""The report of audits as blocks: the memorization paper's tables and figures from one's own numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal

from medunlearn.audit.screen_blocks import (
    answers,
    cases_section,
    identifiers_section,
    missing_section,
    ways_section,
)
from medunlearn.papers.memorization.declared import declared
from medunlearn.papers.memorization.report import figures as plots
from medunlearn.papers.memorization.report import tables
from medunlearn.papers.memorization.report.claims import findings
from medunlearn.papers.memorization.report.content import AuditContent, Row
from medunlearn.papers.memorization.report.published import beside, published_tables
from medunlearn.papers.memorization.report.recommendations import (
    Recommendation,
    largest_bound,
    missing_searches,
    recommendations,
)
from medunlearn.reports.blocks import (
    Block,
    Bullets,
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
    Text,
    blocks,
    details,
    figures,
    section,
)
from medunlearn.reports.claims import NOT_MEASURABLE, Finding, findings_data, statements

_TONES: dict[str, Literal["good", "bad"]] = {"harmful": "bad", "beneficial": "good"}


def audit_report(content: AuditContent) -> Report:
    """Blocks and numbers of a report of audits. Spans stand in it only where ``content.show_text``."""
    words, claims = declared("report"), findings(content)
    advice = recommendations(content, claims)
    nothing = Section("How much is memorized", (Text("No number was measured.", "empty"),))
    how_to_read = [*words["how_to_read"], *([] if content.show_text else [words["no_text"]])]
    caveats = Notice("Read this first", content.caveats) if content.caveats else None
    parts = blocks(
        caveats if content.problems else None,
        answers(content.screens),
        None if content.problems else caveats,
        ways_section(content.screens),
        identifiers_section(content.screens),
        missing_section(content.screens) if content.screens else None,
        cases_section(content.screens) if content.screens else None,
        section(
            "Recommendations",
            list(map(_advice, advice)) or _no_advice(content),
            _not_searched(content),
            note="Figure 8",
        ),
        section("How much is memorized", *_ratios(content)) or nothing,
        section("What is memorized", *_contents(content)),
        section("Through training", *_training(content)),
        section("Examples", list(map(_example, content.shown_examples()))),
        section("How to read this", Prose(tuple(how_to_read))),
        section("Appendix: the paper's findings", *_findings(claims)),
        section("Appendix", *_appendix(content)),
        section("What the paper published", *_published(content), raised=True, name="published"),
    )
    return Report(content.title, parts, "Memorization audit", facts(content), data(content, claims, advice))


def _findings(claims: Sequence[Finding]) -> Iterator[Block | None]:
    """The paper's findings that have a case here, and the names of those that have none."""
    decided = [claim for claim in claims if any(case.verdict != NOT_MEASURABLE for case in claim.cases)]
    rest = [claim.name for claim in claims if claim not in decided]
    yield Text(declared("report")["findings"]) if decided else None
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
        "show_text": content.show_text,
        "examples": content.shown_examples(),
        "published": declared("published"),
    }


def _no_advice(content: AuditContent) -> Text | None:
    """The upper bound of what was measured; None where nothing was.

    That nothing calls for a measure is said only where every model was searched for identifiers.
    """
    bound, searched = largest_bound(content), content.searches.get("identifiers", ())
    if not bound:
        return None
    unsearched = [model.label for model in content.models if model.label not in searched]
    words = declared("report")["no_search" if unsearched else "no_advice"]
    return Text(words.format(bound=bound, names=", ".join(unsearched)))


def _not_searched(content: AuditContent) -> Text | None:
    names = missing_searches(content)
    return Text(declared("report")["not_searched"].format(names="; ".join(names))) if names else None


def _advice(advice: Recommendation) -> Statement:
    body = (Text(advice.advice), Text(f"Found: {advice.observed}", "aside"))
    return Statement(advice.group, _TONES.get(advice.group, "open"), advice.name.capitalize(), blocks=body)


def _ratios(content: AuditContent) -> Iterator[Section | None]:
    prefix = content.prefixes[0] if content.prefixes else 0
    table_2 = tables.crossed(content, "measures", prefix_tokens=prefix)
    words = details("Meaning of the measures", Bullets(tuple(tables.meanings(content))) if table_2 else None)
    yield _part("measures", table_2.values(), words, prefix=prefix)
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
    yield _part("kinds", tables.kinds_table(content), agreement)
    for table in ("table_9", "table_10"):
        yield _part(table, tables.listed(content, "identifiers", table=table))
    yield _part("options", tables.listed(content, "options"))


def _training(content: AuditContent) -> Iterator[Section | None]:
    shares = [
        Section(title, (table,)) if "by probe" in title else Details(title, (table,))
        for title, table in tables.crossed(content, "persistence").items()
    ]
    grid = _grid(plots.figure_5(content), "Ratio before and after")
    yield _part("persistence", grid, Text(declared("report")["shares"], "aside") if shares else None, shares)
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


def _published(content: AuditContent) -> Iterator[Block | None]:
    yield Text(f"{declared('published')['setting']}: {declared('report')['published']}")
    yield Text(beside(content), "aside")
    yield from (details(title, table) for title, table in published_tables())
    contradictions = declared("published")["contradictions"]
    lines = tuple(f"{entry['at']}: {' '.join(entry['says'].split())}" for entry in contradictions)
    yield section("Where the paper contradicts itself", Bullets(lines))


def _part(name: str, *parts: Block | Iterable[Block | None] | None, **values: object) -> Section | None:
    """A declared part with its remark first; None where nothing but the remark would be in it."""
    inside, part = blocks(*parts), declared("report")["parts"][name]
    if not inside:
        return None
    return Section(part["title"].format_map(values), (Text(part["text"], "aside"), *inside), part["note"])


def _grid(specs: Iterable[tuple[str, Spec]], label: str) -> Figures | None:
    return figures(specs, label, columns=2)


def _example(span: Row) -> Details:
    note = "prefix {prefix_tokens}, run of {length}, {kind}".format_map(span)
    return Details("{model} on {corpus}".format_map(span), (Quotes((("Repeated", span["text"]),)),), note)
