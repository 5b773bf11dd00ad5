"""LUME (Ramakrishna et al. 2025)."""
