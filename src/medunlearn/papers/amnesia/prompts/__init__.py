"""Prompts of AMNESIA's questions and disease labels."""
