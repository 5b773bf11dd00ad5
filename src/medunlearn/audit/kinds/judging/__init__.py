"""Asking a language model about what an audit found: one judge, its guard, and the folder of its answers."""

from medunlearn.audit.kinds.judge import OneJudge, one_judge

__all__ = ["OneJudge", "one_judge"]
