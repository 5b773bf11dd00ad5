"""Readers of files that users have: one file a source."""
