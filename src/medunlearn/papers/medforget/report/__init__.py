"""The report of a sweep over levels: MedForget's Tables 3 and 5, Figures 5 to 7, and its findings as rules."""

from medunlearn.papers.medforget.report.cases import Case, Finding
from medunlearn.papers.medforget.report.content import LevelContent, Said, Scope
from medunlearn.papers.medforget.report.findings import findings, findings_text
from medunlearn.papers.medforget.report.write import write_level_report

__all__ = [
    "Case",
    "Finding",
    "LevelContent",
    "Said",
    "Scope",
    "findings",
    "findings_text",
    "write_level_report",
]
