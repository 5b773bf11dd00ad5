"""Helpers of the papers' own page templates, until each is a list of blocks."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from medunlearn.reports.figures import TEMPLATE
from medunlearn.reports.html import script_hash as script_hash
from medunlearn.reports.html import script_json

if TYPE_CHECKING:
    from jinja2 import Environment


def templates() -> Environment:
    """The pages' templates, which escape what they are given."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("medunlearn.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = {"template": TEMPLATE}
    environment.filters["templated"] = lambda spec: spec | {"layout": template | spec["layout"]}
    environment.filters["json"] = script_json
    return environment


@cache
def plotly_source() -> str:
    """plotly.js, line ends as a browser reads them (its hash is of those)."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


def asset(name: str) -> str:
    """A style sheet or script of the pages."""
    return files("medunlearn.reports").joinpath("templates", name).read_text(encoding="utf-8")
