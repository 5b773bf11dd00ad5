"""The report of audits: the memorization paper's tables and figures for the user's audits, and its findings as
claims.
"""

from medunlearn.papers.memorization.report.claims import findings
from medunlearn.papers.memorization.report.content import AuditContent
from medunlearn.papers.memorization.report.recommendations import recommendations
from medunlearn.papers.memorization.report.report import audit_report

__all__ = ["AuditContent", "audit_report", "findings", "recommendations"]
