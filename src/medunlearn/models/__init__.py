"""Language models: loading, a tiny model, prompts, sequences, teacher-forced scores, the reference."""
