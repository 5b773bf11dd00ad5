"""MUSE (Shi et al. 2024)."""
