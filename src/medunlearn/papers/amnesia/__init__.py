"""AMNESIA (Davoudi et al. 2026)."""
