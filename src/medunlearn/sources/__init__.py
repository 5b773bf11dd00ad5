"""Readers of users' files: one file per source."""
