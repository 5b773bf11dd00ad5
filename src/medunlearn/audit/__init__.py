"""Memorization audit: probes, verbatim and approximate measures, identifiers, kinds, answer options.

Stored responses are audited without a model or torch.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """This package as the callable ``mu.audit``: importing it sets the attribute ``audit`` of ``medunlearn``."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from medunlearn.audit.audit_run import audit

        return audit(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage
