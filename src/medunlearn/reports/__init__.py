"""Reports: one self-contained HTML page, the same as Markdown, and its numbers as JSON."""

from medunlearn.reports.content import Example, ModelResult, ReportContent, Role
from medunlearn.reports.write import write_report

__all__ = ["Example", "ModelResult", "ReportContent", "Role", "write_report"]
