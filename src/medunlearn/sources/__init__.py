"""Readers of files that users have: one file per source."""
