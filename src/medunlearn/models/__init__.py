"""Language models: load, build a tiny one, prompts, sequences, teacher-forced scores, the reference."""
