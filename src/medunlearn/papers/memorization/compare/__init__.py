"""Audits side by side: numbers, differences, trends, places, persistence, kinds; and their report.

- :mod:`frames` reads an audit's folder; :mod:`ratios`, :mod:`trends` and :mod:`places` compute tidy tables of it.
- :mod:`sorting` adds the kinds of memorized spans to an audit; :mod:`sensitive` counts identifiers.
- :mod:`gather` puts everything into the content of a report; :mod:`report` writes it.
"""

from medunlearn.papers.memorization.compare.frames import AuditFrames, frames, is_audit
from medunlearn.papers.memorization.compare.report import audit_content, write_audit_report
from medunlearn.papers.memorization.compare.sorting import judge_spans, read_spans, sort_spans, span_sheet

__all__ = [
    "AuditFrames",
    "audit_content",
    "frames",
    "is_audit",
    "judge_spans",
    "read_spans",
    "sort_spans",
    "span_sheet",
    "write_audit_report",
]
