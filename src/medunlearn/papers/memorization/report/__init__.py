"""The report of audits: the memorization paper's figures and tables from one's own, and its findings as rules."""

from medunlearn.papers.memorization.report.cases import Case, Finding
from medunlearn.papers.memorization.report.content import AuditContent, Audited, Shown
from medunlearn.papers.memorization.report.findings import findings, findings_text
from medunlearn.papers.memorization.report.recommendations import Recommendation, recommendations
from medunlearn.papers.memorization.report.write import write_audit_content

__all__ = [
    "AuditContent",
    "Audited",
    "Case",
    "Finding",
    "Recommendation",
    "Shown",
    "findings",
    "findings_text",
    "recommendations",
    "write_audit_content",
]
