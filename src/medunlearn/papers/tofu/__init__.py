"""TOFU (Maini et al. 2024)."""
