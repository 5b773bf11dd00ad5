"""A model's utility by lm-evaluation-harness, and our benchmarks as tasks of it."""
