"""The report of a sweep: AMNESIA's Figures 2 to 4 and Table 2 from one's own runs, and its findings as rules."""

from medunlearn.papers.amnesia.report.cases import Case, Evidence, Finding
from medunlearn.papers.amnesia.report.content import Contrast, Measured, Step, SweepContent
from medunlearn.papers.amnesia.report.findings import findings, findings_text
from medunlearn.papers.amnesia.report.write import write_sweep_report

__all__ = [
    "Case",
    "Contrast",
    "Evidence",
    "Finding",
    "Measured",
    "Step",
    "SweepContent",
    "findings",
    "findings_text",
    "write_sweep_report",
]
