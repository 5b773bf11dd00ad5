"""The report of a sweep: AMNESIA's Figures 2 to 4 and Table 2 from one's own runs, and its findings as rules."""

from medunlearn.reports.sweep.cases import Case, Evidence, Finding
from medunlearn.reports.sweep.content import Contrast, Measured, Step, SweepContent
from medunlearn.reports.sweep.findings import findings, findings_text
from medunlearn.reports.sweep.write import write_sweep_report

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
