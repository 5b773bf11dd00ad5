"""Prompts of MedForget's sections and paraphrases."""
