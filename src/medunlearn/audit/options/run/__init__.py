"""Regenerated answer options and accuracy by option probability: a local model, a server, stored responses."""

from medunlearn.audit.options.run.audit import OptionsAudit, audit_options

__all__ = ["OptionsAudit", "audit_options"]
