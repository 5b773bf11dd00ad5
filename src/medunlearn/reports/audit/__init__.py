"""The report of audits: the memorization paper's figures and tables from one's own, and its findings as rules."""

from medunlearn.reports.audit.cases import Case, Finding
from medunlearn.reports.audit.content import AuditContent, Audited, Shown
from medunlearn.reports.audit.findings import findings, findings_text
from medunlearn.reports.audit.recommendations import Recommendation, recommendations
from medunlearn.reports.audit.write import write_audit_content

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
