"""LUME's findings (Section 3) as rules on the numbers of one's own runs, epoch by epoch."""

from medunlearn.papers.lume.report.cases import Case, Evidence, Finding
from medunlearn.papers.lume.report.findings import findings, findings_text
from medunlearn.reports.verdicts import Verdict

__all__ = ["Case", "Evidence", "Finding", "Verdict", "findings", "findings_text"]
