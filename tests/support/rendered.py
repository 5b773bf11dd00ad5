"""A report of runs in each format, for tests."""

from __future__ import annotations

from typing import Any

from medunlearn.reports.content import ReportContent
from medunlearn.reports.html import to_html
from medunlearn.reports.json import to_data
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.unlearning import unlearning_report


def page_of(content: ReportContent) -> str:
    return to_html(unlearning_report(content))


def markdown_of(content: ReportContent) -> str:
    return to_markdown(unlearning_report(content))


def data_of(content: ReportContent) -> dict[str, Any]:
    return to_data(unlearning_report(content))
