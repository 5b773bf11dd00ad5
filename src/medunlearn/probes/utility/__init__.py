"""A model's utility by lm-evaluation-harness, and export of benchmarks as its tasks."""
