"""Memorization in Large Language Models in Medicine (Li et al.)."""
