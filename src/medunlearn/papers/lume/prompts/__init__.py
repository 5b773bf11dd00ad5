"""Prompts of LUME's stories, biographies and questions."""
