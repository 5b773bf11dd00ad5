"""The first screen of audits as report blocks: answer, identifiers, searches not made, worst cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from medunlearn.audit.attacker_tiers import tier_rows
from medunlearn.audit.extraction import share_text
from medunlearn.audit.first_screen import FirstScreen
from medunlearn.audit.sampled_extraction import sample_rows
from medunlearn.audit.screen_sentences import bound, gap_text
from medunlearn.audit.way_extraction import way_rows
from medunlearn.audit.worst_cases import Piece, WorstCase, worst_first
from medunlearn.config.audit import PREFIX
from medunlearn.reports.blocks import (
    Bar,
    Bars,
    Block,
    Bullets,
    Cell,
    Columns,
    Headline,
    Section,
    Span,
    Table,
    Text,
    blocks,
    section,
)
from medunlearn.reports.formatting import count

SHOWN = 1000
"""Cases of a page; the worst. All are in report.json and in the audit's folder."""
NO_WORDS = "Text alone"
_MARKS = {"run": "run", "identifier": "identifier", "given": "given"}


def answers(screens: Sequence[FirstScreen]) -> tuple[Block, ...]:
    """The answer of each audited model, with bars of extracted subjects."""
    return blocks(block for screen in screens for block in _answer(screen, several=len(screens) > 1))


def _answer(screen: FirstScreen, *, several: bool) -> Iterator[Block]:
    label = screen.extraction.label
    headline = Headline(f"What {label} gives back" if several else label, screen.answer, screen.lead)
    bars = _bars(screen)
    yield Columns((headline,), bars, "answer") if bars else headline


def _bars(screen: FirstScreen) -> tuple[Block, ...]:
    if screen.extraction.problems:
        return ()
    grids: list[Block] = []
    several = len(screen.extraction.corpora) > 1
    for corpus in screen.extraction.corpora:

        def titled(words: str, name: str = corpus.corpus) -> str:
            return f"{name}: {words}" if several else f"{words[0].upper()}{words[1:]}"

        rows = [row for row in screen.groups if row[0] == corpus.corpus and row[2].n]
        if not corpus.members.n:
            continue
        bars = []
        for _, group, share, gap, _ in rows:
            low, high = share.limits
            interval = None if low is None or high is None else (low, high)
            values = (share_text(share), share.value or 0.0, bound(share))
            bars.append(Bar(group, *values, muted=gap is not None, interval=interval))
        grids.append(Bars(titled("extracted, with exact 95% intervals"), tuple(bars)))
        grids += [
            Text(titled(f"{rows[0][1]} minus {group}: {gap_text(gap, test)}."), "aside")
            for _, group, _, gap, test in rows
            if gap is not None
        ]
    return tuple(grids)


def search_sections(screens: Sequence[FirstScreen], most: int = SHOWN) -> tuple[Block, ...]:
    """Ways of asking, attackers, identifiers, searches not made, and the worst cases, ``most`` of them."""
    if not screens:
        return ()
    sections = (ways_section, tiers_section, identifiers_section, missing_section)
    return blocks((make(screens) for make in sections), cases_section(screens, most))


def ways_section(screens: Sequence[FirstScreen]) -> Section | None:
    """Number extracted by each way of asking, and the chance over samples compared with greedy decoding."""
    several = len({screen.extraction.label for screen in screens}) > 1
    parts: list[Block] = []
    for screen in screens:
        if several and (screen.ways or screen.samples):
            parts.append(Text(screen.extraction.label))
        parts += [_table(way_rows(screen.ways), cards=True)] if screen.ways else []
        parts += [Text(line, "aside") for line in screen.missed_sentences]
        parts += [_table(sample_rows(screen.samples, screen.extraction), cards=True)] if screen.samples else []
    sampled = any(screen.samples for screen in screens)
    note = Text(
        "The chance that at least one of k samples of every prompt extracts a subject, over all choices of k of "
        "the samples that were drawn; after (n, p)-discoverable extraction (Hayes et al. 2024), with a run of 30 "
        "in place of the whole text.",
        "aside",
    )
    return section("Ways of asking", parts, note if sampled else None)


def tiers_section(screens: Sequence[FirstScreen]) -> Section | None:
    """Extraction and inference by what the attacker knows of a patient."""
    several = len({screen.extraction.label for screen in screens if screen.tiers}) > 1
    parts: list[Block] = []
    for screen in screens:
        if screen.tiers:
            parts += [Text(screen.extraction.label)] if several else []
            parts.append(_table(tier_rows(screen.tiers, bound), cards=True))
    note = Text(
        "A way of asking counts where its prompt tells most: the columns in its braces, or the beginning of the "
        "note. AUROC: whether responses name a value of the attribute more often for patients who have it than for "
        "others; 0.5 is guessing. Values that the prompt held are left out.",
        "aside",
    )
    return section("Attackers by what they know", parts, note if parts else None)


def _table(rows: Sequence[Mapping[str, Cell | str]], **options: Any) -> Table:
    """A table from rows with the same columns."""
    cells = (tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row.values()) for row in rows)
    return Table(tuple(map(Cell, rows[0])), tuple(cells), **options)


def identifiers_section(screens: Sequence[FirstScreen]) -> Section | None:
    """Distinct identifiers by kind, for each searched model."""
    several = len(screens) > 1
    rows = [
        {
            **({"model": screen.extraction.label} if several else {}),
            "kind": kind.title,
            "distinct identifiers": f"{kind.identifiers:,}",
            "whose": f"{kind.subjects:,} of {screen.giveaway.subjects.n:,}",
        }
        for screen in screens
        if screen.giveaway is not None
        for kind in screen.giveaway.kinds
    ]
    table = _table(rows) if rows else None
    lines = [Text(line) for line in _labelled(screens, lambda screen: screen.identifier_sentences)]
    note = Text(
        "An identifier counts once a patient, in however many responses it is; one that the prompt held is none.",
        "aside",
    )
    return section("Identifiers given away", lines, table, note if lines else None)


def _labelled(screens: Sequence[FirstScreen], lines: Callable[[FirstScreen], Iterable[str]]) -> list[str]:
    """Lines on each model, prefixed with its label if there are several."""
    several = len(screens) > 1
    return [
        f"{screen.extraction.label}: {line}" if several else line for screen in screens for line in lines(screen)
    ]


def missing_section(screens: Sequence[FirstScreen]) -> Section | None:
    """Searches that no audit made, or only some, so that their absence is not read as a clean result."""
    labels: dict[str, list[str]] = {}
    for screen in screens:
        for line in screen.missing:
            labels.setdefault(line, []).append(screen.extraction.label)
    lines = (line if len(of) == len(screens) else f"{', '.join(of)}: {line}" for line, of in labels.items())
    return section("Not looked for", Text("Nothing is said of these, and nothing follows."), Bullets(tuple(lines)))


def cases_section(screens: Sequence[FirstScreen], most: int = SHOWN) -> Section | None:
    """The worst cases of all models in one table, with filters and a search box."""
    cases = [case for screen in screens for case in screen.cases]
    if not cases:
        measured = any(corpus.members.n for screen in screens for corpus in screen.extraction.corpora)
        nothing = "No response shares a run of 30 or an identifier of its record."
        unread = "No response could be read, so nothing is known of any case."
        return section("Worst cases", Text(nothing if measured else unread, "empty"))
    cases.sort(key=worst_first)
    visible = cases[:most]
    more = f" The {most:,} worst of {len(cases):,} are here; the JSON has all." if len(cases) > most else ""
    words = _words_note(visible)
    intro = Text(
        f"{count(len(cases), 'case')}: a row a patient of whom anything came out, most identifiers first, then the "
        f"longest run.{more} Patients have pseudonyms; the audit's folder alone says whose they are.{words}",
        "aside",
    )
    return section("Worst cases", intro, _cases_table(visible, screens[0].extraction.unit))


def _words_note(cases: Sequence[WorstCase]) -> str:
    with_text = sum(bool(case.response) for case in cases)
    if not with_text:
        return " Without --show-text, lengths and positions stand for the words."
    rest = f" in the {with_text:,} worst" if with_text < len(cases) else ""
    return (
        f" Words that the response repeats are marked{rest}, identifiers more strongly, and underlined in the "
        "prompt where it held them."
    )


def _cases_table(cases: Sequence[WorstCase], unit: str) -> Table:
    several_models = len({case.model for case in cases}) > 1
    several_corpora = len({case.corpus for case in cases}) > 1
    beside = any(case.baseline is not None for case in cases)
    text = any(case.response for case in cases)
    rows: list[dict[str, Cell | str]] = []
    for case in cases:
        row: dict[str, Cell | str] = {"patient": Cell(case.patient, "never seen" if case.unseen else "")}
        row |= {"model": case.model} if several_models else {}
        row |= {"corpus": case.corpus} if several_corpora else {}
        length = f"{case.length:,}" if case.length else ""
        row[f"{unit} in a row"] = Cell(length, "boilerplate" if case.boilerplate else "")
        row[f"from {unit.removesuffix('s')}"] = "" if case.in_response is None else f"{case.in_response:,}"
        row["identifiers"] = f"{case.identifiers:,}" if case.identifiers else ""
        with_title = case.prefix or case.way != PREFIX
        row["prompt"] = f"{case.prompt_title}, {case.decoding}" if with_title else case.decoding
        row["responses"] = f"{case.responses:,} of {case.of:,}"
        row |= {"baseline's run": f"{case.baseline:,}" if case.baseline else "none"} if beside else {}
        row["kinds"] = ", ".join(case.kinds)
        row |= {"words": _words(case)} if text else {}
        rows.append(row)
    filters: dict[str, list[str | tuple[str, ...]]] = {
        "kind": [case.kinds or (NO_WORDS,) for case in cases],
        "prompt" if any(case.way != PREFIX for case in cases) else "prefix": [case.prompts for case in cases],
        "decoding": [case.decodings for case in cases],
    }
    if several_models:
        filters["model"] = [case.model for case in cases]
    if any(case.unseen for case in cases):
        filters["patients"] = ["never seen" if case.unseen else "in the training text" for case in cases]
    filters = {name: values for name, values in filters.items() if len(set(values)) > 1}
    return _table(rows, filters=filters, search="search", cards=True)


def _words(case: WorstCase) -> Cell:
    if not case.response:
        return Cell("")
    prompt = [Span("… ", "muted"), *_spans(case.prompt, "muted")] if case.prompt else []
    return Cell.of(*prompt, Span(" ⟶ ", "muted"), *_spans(case.response, ""))


def _spans(pieces: Sequence[Piece], plain: str) -> list[Span]:
    return [Span(text, _MARKS.get(name, plain)) for text, name in pieces]  # type: ignore[arg-type]
