"""Comparison of audits: numbers, differences, trends, positions, persistence, kinds; and their report."""

from medunlearn.audit.audit_tables import AuditTables, is_audit, read_tables
from medunlearn.audit.kinds.sorting import judge_spans, read_spans, sort_spans, span_sheet
from medunlearn.papers.memorization.compare.report import audit_content, write_audit_report

__all__ = [
    "AuditTables",
    "audit_content",
    "is_audit",
    "judge_spans",
    "read_spans",
    "read_tables",
    "sort_spans",
    "span_sheet",
    "write_audit_report",
]
