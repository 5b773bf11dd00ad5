"""Render a report as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from medunlearn.reports.blocks import Figure, Report, Section, Table
from medunlearn.reports.figures import FIGURE_SIZES
from medunlearn.reports.provenance import watermarked
from medunlearn.reports.row_data import DRAWN_ROWS, is_large, row_data
from medunlearn.reports.svg import figure_svg
from medunlearn.reports.svg_marks import ON_PAGE

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_UNIT = r"( ?(%|s|MiB|GiB|min.*|h .*))?(e[+−-]?\d+)?( ?\(.*\))?"
_NUMBER = re.compile(rf"[+−-]?[\d.,]+{_UNIT}|–|unscored|reference|not measured|")
_LONG = 48


def to_html(report: Report) -> str:
    """The page with style, script and drawings in one string.

    The script is allowed only by its hash (content security policy), so injected text never runs.
    """
    report = watermarked(report)
    script = asset("page.js").decode()
    anchors = _anchors(report)
    page = (
        _environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            anchors={id(block): anchor for anchor, block in anchors.items()},
            contents=[(anchor, block.title) for anchor, block in anchors.items()],
            style=asset("page.css").decode(),
            script=script,
            script_hash=script_hash(script),
        )
    )
    return _shown(page)


def _shown(html: str) -> str:
    """HTML with control characters written out."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", html)


_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""HTML allows none of them, and a terminal that shows the page's source obeys them."""


@cache
def _environment() -> Environment:
    """The template environment, which escapes all values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("medunlearn.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "identity": id,
        "drawings": drawings,
        "prose": prose,
        "flags": flags,
        "column_kinds": column_kinds,
        "unique_values": _options,
        "row_values": _row_values,
        "is_large": is_large,
        "row_data": lambda table, cell: row_data(table, lambda each: _shown(str(cell(each)).strip())),
    }
    environment.globals["drawn_rows"] = DRAWN_ROWS
    return environment


def _anchors(report: Report) -> dict[str, Section]:
    """Anchor -> top-level section of the report, with unique anchors."""
    anchors: dict[str, Section] = {}
    for block in report.blocks:
        if isinstance(block, Section):
            name = block.name or re.sub(r"[^a-z0-9]+", "-", block.title.lower()).strip("-") or "section"
            numbers = (name if n == 1 else f"{name}-{n}" for n in range(1, len(report.blocks) + 2))
            anchors[next(candidate for candidate in numbers if candidate not in anchors)] = block
    return anchors


def column_kinds(table: Table) -> list[str]:
    """CSS class of each column: ``number`` is right-aligned, ``long`` may wrap; the first column is always text."""
    kinds = []
    for place in range(len(table.columns)):
        texts = {row[place].text for row in table.rows}
        if place and all(_NUMBER.fullmatch(text) for text in texts):
            kinds.append("number")
        else:
            kinds.append("text long" if any(len(text) > _LONG for text in texts) else "text")
    return kinds


def _options(values: Sequence[str | tuple[str, ...]]) -> list[str]:
    """Distinct values of a filter menu, in row order."""
    every = (value if isinstance(value, tuple) else (value,) for value in values)
    return list(dict.fromkeys(option for options in every for option in options))


def _row_values(filters: Mapping[str, Sequence[str | tuple[str, ...]]], row: int) -> str:
    return json.dumps({name: values[row] for name, values in filters.items()})


def drawings(figure: Figure) -> list[tuple[str, Any]]:
    """Drawings of a figure for the page, by class: one for wide screens, where it needs another on narrow ones."""
    from markupsafe import Markup

    return [
        (name, Markup(figure_svg(figure.spec, width, height, figure.label, ON_PAGE)))
        for name, (width, height) in FIGURE_SIZES[figure.size].items()
    ]


def prose(text: str) -> Markup:
    """Our own sentences as HTML: text in backticks is code, and no flag or date breaks after its hyphens.

    Not for the words of records and responses, whose backticks are theirs.
    """
    from markupsafe import Markup

    parts = _CODE.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(flags(part)) if place % 2 else flags(part)
        for place, part in enumerate(parts)
    )


def flags(text: str) -> Markup:
    """Text as HTML in which no flag (``--out``) or ISO date breaks after its hyphens; its characters stay."""
    from markupsafe import Markup, escape

    return Markup(_FLAG.sub(r'<span class="flag">\g<0></span>', str(escape(text))))


_CODE = re.compile(r"`([^`\n]+)`")
_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*|\b\d{4}-\d\d-\d\d\b")


def script_hash(script: str) -> str:
    """The script's hash in the form of a content security policy, which allows only these scripts."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def asset(name: str) -> bytes:
    """A file of the page."""
    return files("medunlearn.reports").joinpath("assets", name).read_bytes()
