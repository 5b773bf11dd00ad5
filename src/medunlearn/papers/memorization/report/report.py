"""The report of audits as blocks: the memorization paper's tables and figures from one's own numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from medunlearn.papers.memorization.report import figures as drawn
from medunlearn.papers.memorization.report import tables
from medunlearn.papers.memorization.report.claims import findings
from medunlearn.papers.memorization.report.content import AuditContent
from medunlearn.papers.memorization.report.published import contradictions, published, published_tables, setting
from medunlearn.papers.memorization.report.recommendations import Recommendation, recommendations
from medunlearn.reports.blocks import (
    Bullets,
    Details,
    Facts,
    Figure,
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
from medunlearn.reports.claims import Finding, findings_data, statements
from medunlearn.reports.words import count

HOW_TO_READ = (
    "A probe is a record cut at a prefix length: the model is given the prefix, and its continuation is compared "
    "with the true one. The memorization ratio is the share of probes whose response has 30 (50) consecutive "
    "tokens of the true continuation.",
    "A ratio alone says little. Models repeat set phrases, quotations and widespread text without having seen this "
    "corpus. The effect of training on it is the difference from a baseline on the same probes.",
    "Intervals are 95%, by a bootstrap over subjects (patients; records where no patient is known). Differences "
    "are paired on probes. No interval is corrected for the number of comparisons.",
    "Exact measures miss a changed word; approximate and semantic ones count text that is only alike. None of them "
    "says what was memorized: kinds and identifiers do.",
    "The paper tests with a rank-sum test between 100 means of 100 drawn texts each. With enough means that test "
    "calls any difference significant, true or not, so its p-values are not shown here. Shown is how large a "
    "difference is, with an interval that counts subjects.",
)
NO_TEXT = "No text of a record or a response is in this report, and no identifier."
FINDINGS = (
    "The paper's findings as rules on the numbers of these audits. A case is decided only where an interval leaves "
    "the threshold out, and where the model repeats more than its baselines."
)
TABLE_2 = (
    "One prefix length, greedy. Runs in percent of probes; under each number its interval. − is the paired "
    "difference from each baseline in points. BARTScore is a mean log-likelihood: closer to 0 is more alike."
)
FIGURE_1 = "Share of probes with a run of 30 (left) and of 50 (right) by prefix length; bands are intervals."
FIGURE_2 = "Each decoding beside greedy at the shortest prefix; whiskers are of the ratio, not of the difference."
COPIES = (
    "Greedy, by the number of copies of a record in the training text, where the audit knows it. Not paired: "
    "records with many copies may differ in more than that."
)
FIGURE_3 = (
    "Share of all responses in which a run of 30 starts in a segment, by prefix length. The table has the other "
    "ways to count, and the ratio among responses long enough to reach the segment: a response that ends early "
    "has no later one."
)
KINDS = (
    "Rules take evidence first (identifiers, declared corpora, set phrases that many records share), terms last. "
    "Terms are weak. A span without either has no kind. Trust a column as far as it agrees with a person."
)
TABLE_9 = (
    "In the response and in its record, and not in the prefix. Counts depend on the search and on the number of "
    "responses. Examples are shapes alone: x for a letter, # for a digit."
)
TABLE_10 = "Beyond standard identifiers, by term lists: a mention of a word, not a judgement of its harm."
TABLE_5 = "Removed answer options that the model gave back: exact (the same text) and relaxed (contained in it)."
FIGURE_5 = (
    "Share of probes with a run of 50 before (solid) and after (dashed) further fine-tuning, by prefix length."
)
TABLE_7 = (
    "Shares of the union of what was memorized before or after; they add up to 1. Retained is common over what "
    "was memorized before, the share that persisted: the paper does not print it. The union holds other probes at "
    "every prefix length, so columns are not steps of one thing."
)
FIGURE_7 = "Memorization, validation loss and accuracy after every epoch. The line marks the least validation loss."
PUBLISHED = "to compare with, not a target: other models, other texts, other tokenizers."

_TABLES = (
    *("ratios", "differences", "trends", "duplication", "positions", "persistence", "kinds", "agreement"),
    *("identifiers", "options", "option_differences", "epochs"),
)
_TONES: dict[str, Any] = {"harmful": "bad", "beneficial": "good"}


def audit_report(content: AuditContent) -> Report:
    """Blocks and numbers of a report of audits. Spans stand in it only where ``content.show_text``."""
    claims = findings(content)
    advice = recommendations(content, claims)
    parts = blocks(
        Notice("Read this first", content.caveats) if content.caveats else None,
        section(
            "Recommendations",
            [_advice(one) for one in advice] or Text("The audits call for no measure.", "empty"),
            note="Figure 8",
        ),
        section("Findings", Text(FINDINGS), statements(claims)),
        section("How to read this", Prose(HOW_TO_READ if content.show_text else (*HOW_TO_READ, NO_TEXT))),
        section("How much is memorized", *_ratios(content)) or _no_numbers(),
        section("What is memorized", *_contents(content)),
        section("Through training", *_training(content)),
        section("Examples", [_example(one) for one in content.shown_examples()]),
        section("Appendix", *_appendix(content)),
        section("What the paper published", *_published(), raised=True, name="published"),
    )
    return Report(content.title, parts, "Memorization audit", facts(content), data(content, claims, advice))


def facts(content: AuditContent) -> tuple[tuple[str, str], ...]:
    """The lines of the first screen."""
    prefixes = ", ".join(map(str, content.prefixes))
    decodings = ", ".join(dict.fromkeys(map(str, content.ratios["decoding"])))
    return (
        ("Models", ", ".join(model.label for model in content.models)),
        ("Corpora", ", ".join(content.corpora) or "none"),
        ("Prefixes", f"{prefixes} {'/'.join(dict.fromkeys(model.unit for model in content.models))}"),
        ("Decodings", decodings or "none"),
        ("Records of patients", ", ".join(content.clinical) or "no corpus was declared so"),
        ("Intervals", f"95%, {count(content.replicates, 'bootstrap draw')} of subjects"),
    )


def data(content: AuditContent, claims: Sequence[Finding], advice: Sequence[Recommendation]) -> dict[str, Any]:
    """Every number for ``report.json``; tables are column -> values."""
    names = sorted({str(row["measure"]) for row in content.rows("ratios")})
    words = {name: tables.measure_words(name) for name in names}
    return {
        "models": [asdict(model) for model in content.models],
        "clinical": content.clinical,
        "datasets": content.datasets,
        "replicates": content.replicates,
        "caveats": content.caveats,
        "missing": [{"name": name, "how": how} for name, how in content.missing],
        "measures": {name: {"title": title, "meaning": text} for name, (title, text) in words.items()},
        "findings": findings_data(claims),
        "recommendations": [asdict(one) for one in advice],
        **{name: _columns(getattr(content, name)) for name in _TABLES},
        "show_text": content.show_text,
        "examples": [asdict(one) for one in content.shown_examples()],
        "published": published(),
    }


def _columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): table[name].tolist() for name in table.columns}


def _advice(one: Recommendation) -> Statement:
    body = (Text(one.advice), Text(f"Found: {one.observed}", "aside"))
    return Statement(one.group, _TONES.get(one.group, "open"), one.name.capitalize(), blocks=body)


def _no_numbers() -> Section | None:
    return section("How much is memorized", Text("No number was measured.", "empty"))


def _ratios(content: AuditContent) -> Iterable[Section | None]:
    shortest = content.prefixes[0] if content.prefixes else 0
    table_2 = tables.table_2(content, shortest)
    words = details("Meaning of the measures", Bullets(tuple(tables.meanings(content))) if table_2 else None)
    by_prefix = [
        details(f"{corpus}: runs of 30 and 50 by prefix length", tables.table_8(content, corpus))
        for corpus in content.corpora
    ]
    positions = details("Every way to count, by segment", _titled(tables.position_tables(content)))
    yield _part(f"Every measure at a prefix of {shortest}", "Table 2", TABLE_2, table_2, words)
    lines = drawn.figure_1(content)
    yield _part(
        *("By prefix length", "Figure 1, Table 8", FIGURE_1),
        Legend(drawn.legend(content)) if lines else None,
        _grid(lines, "Ratio by prefix length"),
        by_prefix,
    )
    yield _part(
        *("By decoding", "Figure 2", FIGURE_2, _grid(drawn.figure_2(content), "Ratio by decoding")),
        details("Ratios and differences from greedy", tables.decoding_table(content)),
    )
    yield _part(
        *("By copies in the training text", "", COPIES, _grid(drawn.figure_copies(content), "Ratio by copies")),
        details("Runs of 30 and 50 by copies", tables.copies_table(content)),
    )
    yield _part("By position", "Figure 3", FIGURE_3, _grid(drawn.figure_3(content), "Start of runs"), positions)


def _contents(content: AuditContent) -> Iterable[Section | None]:
    agreement = details("Agreement of the ways of sorting", tables.agreement_table(content))
    yield _part("Kinds", "Table 3, Figure 8", KINDS, tables.kinds_table(content), agreement)
    yield _part("Identifiers", "Table 9", TABLE_9, tables.identifier_table(content, "table_9"))
    yield _part("Further sensitive content", "Table 10", TABLE_10, tables.identifier_table(content, "table_10"))
    yield _part("Removed answer options", "Table 5", TABLE_5, tables.table_5(content))


def _training(content: AuditContent) -> Iterable[Section | None]:
    shares = [
        Section(title, (table,)) if "by probe" in title else Details(title, (table,))
        for title, table in tables.table_7(content)
    ]
    yield _part(
        *("After further fine-tuning", "Figure 5, Table 7", FIGURE_5),
        _grid(drawn.figure_5(content), "Ratio before and after"),
        Text(TABLE_7, "aside") if shares else None,
        shares,
    )
    spec = drawn.figure_7(content)
    label = "Memorization, validation loss and accuracy by epoch. The numbers are in the table below."
    numbers = details("The numbers by epoch", tables.epoch_table(content))
    yield _part("By epoch", "Figure 7", FIGURE_7, Figure(spec, label, size="wide") if spec else None, numbers)


def _appendix(content: AuditContent) -> Iterable[Any]:
    yield details("Trends", tables.trend_table(content))
    yield details("Every difference between models", tables.difference_table(content))
    yield from (details(model.label, Facts(tuple(model.facts.items()))) for model in content.models)
    lines = tuple(f"{name}: {how}" for name, how in content.missing)
    yield section("Not in this report", Bullets(lines) if lines else None)


def _published() -> Iterable[Any]:
    yield Text(f"{setting()}: {PUBLISHED}")
    yield from (details(title, table) for title, table in published_tables())
    yield section(
        "Where the paper contradicts itself", Bullets(tuple(f"{at}: {says}" for at, says in contradictions()))
    )


def _part(title: str, note: str, text: str, *parts: Any) -> Section | None:
    """A section with a remark first; None where nothing but the remark would be in it."""
    inside = blocks(*parts)
    return Section(title, (Text(text, "aside"), *inside), note) if inside else None


def _grid(specs: list[tuple[str, Spec]], label: str) -> Any:
    return figures(specs, label, columns=2)


def _titled(pairs: Iterable[tuple[str, Table]]) -> list[Section]:
    return [Section(title, (table,)) for title, table in pairs]


def _example(one: Any) -> Details:
    note = f"prefix {one.prefix_tokens}, run of {one.length}, {one.kind}"
    return Details(f"{one.model} on {one.corpus}", (Quotes((("Repeated", one.text),)),), note)
