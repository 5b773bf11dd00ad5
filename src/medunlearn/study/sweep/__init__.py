"""Sweeps: methods x splits x seeds, cell by cell in several processes (docs/scale.md)."""
