"""MedForget (Wu et al.)."""
