"""Reports: a list of blocks as one self-contained HTML page, as Markdown, and as JSON."""

from medunlearn.reports.blocks import Report
from medunlearn.reports.content import Example, ModelResult, ReportContent, Role
from medunlearn.reports.unlearning import unlearning_report
from medunlearn.reports.write import write_report

__all__ = ["Example", "ModelResult", "Report", "ReportContent", "Role", "unlearning_report", "write_report"]
