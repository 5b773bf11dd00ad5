"""The tables of the report as plain cells, for HTML and Markdown alike; in percent, as the paper has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from medunlearn.papers.amnesia.report.content import Contrast, Measured
from medunlearn.papers.medforget.report.cases import Finding
from medunlearn.papers.medforget.report.content import (
    BY_NAME,
    CLASSIFICATION,
    CLOZE,
    FACTUALITY,
    GEN_SCORE,
    GROUPS,
    IDENTIFIERS,
    IDENTITIES,
    LEVELS,
    RETRAINED_MODEL,
    ROUGE,
    TARGET_MODEL,
    LevelContent,
    Measure,
    Scope,
    Who,
    flat,
    unlearned,
)
from medunlearn.papers.medforget.report.published import TABLE_3, TABLE_5, methods, published
from medunlearn.reports.tables import Cell, Table
from medunlearn.reports.words import ABSENT, UNSCORED

GIVEN = {
    "none": "no identifier",
    "study": "study",
    "patient": "patient, study",
    "institution": "institution, patient, study",
}
Look = Callable[[Scope | str, Who, str, str], Measured | None]


def table_3(content: LevelContent) -> Table:
    """Generation, classification and cloze on the four sets; with intervals, target and retrained model."""
    return _levels_table(content, content.tasks)


def table_5(content: LevelContent) -> Table:
    """ROUGE-L, factuality and Gen Score apart; those that were measured."""
    return _levels_table(content, tuple(content.measured(ROUGE, FACTUALITY, GEN_SCORE)))


def _levels_table(content: LevelContent, measures: Sequence[Measure]) -> Table:
    rows = []
    for who in everyone(content):
        for scope in content.scopes:
            if content.has(scope.split, who):
                cells = [
                    cell(content.number(scope.split, who, group.name, measure.name))
                    for group in GROUPS
                    for measure in measures
                ]
                rows.append((Cell(who[1] or who[0]), Cell(scope.split), *cells))
    return Table(_heads(measures), tuple(rows))


def _heads(measures: Sequence[Measure]) -> tuple[Cell, ...]:
    sets = [
        Cell(f"{group.title} {'↓' if group.lower else '↑'}", measure.title)
        for group in GROUPS
        for measure in measures
    ]
    return (Cell("Model"), Cell("Split"), *sets)


def published_table(number: int) -> Table:
    """The paper's Table 3 or 5 in the same form."""
    measures = {3: TABLE_3, 5: TABLE_5}[number]
    lines: list[tuple[Who, str]] = [(TARGET_MODEL, "")]
    lines += [(unlearned(method), level) for method in methods() for level in reversed(LEVELS)]
    rows = tuple(
        (
            Cell(who[1] or "target (vanilla)"),
            Cell(level or ABSENT),
            *(cell(published(number, level, who, group.name, one.name)) for group in GROUPS for one in measures),
        )
        for who, level in lines
    )
    return Table(_heads(measures), rows)


def attack_table(content: LevelContent) -> Table | None:
    """Figure 6's numbers: one row a model and split, the identifiers given in columns."""
    measures = [one for one in content.tasks if one.name in set(content.attacked["measure"])]
    steps = [(measure, step) for measure in measures for step in IDENTIFIERS]
    rows = []
    for who in everyone(content):
        for scope in content.scopes:
            found = [content.attack(scope.split, who, step, measure.name) for measure, step in steps]
            if any(one is not None for one in found):
                rows.append((Cell(who[1] or who[0]), Cell(scope.split), *(cell(one) for one in found)))
    heads = [Cell(measure.title, f"given {GIVEN[step]}") for measure, step in steps]
    return Table((Cell("Model"), Cell("Split"), *heads), tuple(rows)) if rows else None


def identity_table(content: LevelContent) -> Table | None:
    """What is left of a level's names and sections, after unlearning on the level and on the flat split."""
    measures = content.measured(*IDENTITIES, *content.tasks)
    rows = []
    for scope in content.levels:
        for who in _with_flat(content):
            if content.has(scope.split, who):
                name = f"{who[1]}, unlearned on {scope.partner}" if who[0] == "flat" else who[1] or who[0]
                found = (content.number(scope.split, who, "forget", measure.name) for measure in measures)
                rows.append((Cell(scope.split), Cell(name), *(cell(one) for one in found)))
    heads = [Cell(measure.title, "forget set") for measure in measures]
    return Table((Cell("Split"), Cell("Model"), *heads), tuple(rows)) if rows else None


def _with_flat(content: LevelContent) -> list[Who]:
    pairs = [(unlearned(method), flat(method)) for method in content.methods]
    return [TARGET_MODEL, RETRAINED_MODEL, *(who for pair in pairs for who in pair)]


def retrained_table(content: LevelContent) -> Table | None:
    """Unlearned minus retrained model, on the four sets."""
    rows = []
    for method in content.methods:
        for scope in content.scopes:
            found = [
                content.contrast("over retrained", scope.split, method, group.name, measure.name)
                for group in GROUPS
                for measure in content.tasks
            ]
            if any(one.value is not None for one in found):
                rows.append((Cell(method), Cell(scope.split), *(difference(one) for one in found)))
    return Table(_heads(content.tasks), tuple(rows)) if rows else None


def scopes_table(content: LevelContent) -> Table:
    """What each split forgets."""
    names = ("Split", "Forgets", "Nodes", "Sections", "Questions", "Flat split of the same amount")
    rows = tuple(
        (
            Cell(scope.split),
            Cell(scope.level),
            Cell(f"{scope.forget:,} of {scope.total:,}"),
            Cell(f"{scope.sections:,}"),
            Cell(f"{scope.questions:,}"),
            Cell(scope.partner or ABSENT),
        )
        for scope in content.scopes
    )
    return Table(tuple(Cell(name) for name in names), rows)


def cases_table(found: Finding) -> Table:
    """One row a case: where, verdict, what it says, and its numbers."""
    columns = tuple(
        Cell(name) for name in ("Split", "Method", "Measure", "Case", "What the numbers show", "Numbers")
    )
    rows = tuple(
        (
            Cell(case.split),
            Cell(case.method),
            Cell(case.measure),
            Cell(case.verdict),
            Cell(case.says),
            Cell("; ".join(map(str, case.evidence))),
        )
        for case in found.cases
    )
    return Table(columns, rows)


def everyone(content: LevelContent) -> list[Who]:
    """The references first."""
    return [TARGET_MODEL, RETRAINED_MODEL, *(unlearned(method) for method in content.methods)]


def cell(found: Measured | None) -> Cell:
    """A number in percent with its interval; a dash where nothing was asked, ``unscored`` where no score came."""
    if found is None:
        return Cell(ABSENT)
    one = found.reading
    if one.value is None:
        return Cell(UNSCORED)
    span = "" if one.low is None or one.high is None else f"[{100 * one.low:.1f}, {100 * one.high:.1f}]"
    unscored = f"{one.n_unscored:,} unscored" if one.n_unscored else ""
    return Cell(f"{100 * one.value:.1f}", ", ".join(part for part in (span, unscored) if part))


def difference(found: Contrast) -> Cell:
    """A difference in percent points with its interval, or why there is none."""
    if found.value is None:
        return Cell(ABSENT, found.reason)
    span = "" if found.low is None or found.high is None else f"[{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return Cell(f"{100 * found.value:+.1f}", span or found.reason)


def measures_text(content: LevelContent) -> Iterator[str]:
    """What each number of this report is made of."""
    generation = content.generation
    if generation is GEN_SCORE:
        yield "Gen Score: 75 parts factuality (rated 1 to 10 by judges, over 10) and 25 parts ROUGE-L."
    else:
        yield "Generation is ROUGE-L (F-measure) alone: no judge rated the answers, so there is no Gen Score."
    yield f"{BY_NAME[CLASSIFICATION.name].title}: the right option is the most probable; a guess: 1 / options."
    yield f"{CLOZE.title}: the filled gap is the reference but for case and surrounding space."
