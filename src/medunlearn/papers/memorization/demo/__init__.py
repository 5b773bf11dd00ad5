"""The audit's demo: a tiny model trained on invented texts, audited as it learns and after further fine-tuning."""

from medunlearn.papers.memorization.demo.demo import Shown, demo_audit

__all__ = ["Shown", "demo_audit"]
