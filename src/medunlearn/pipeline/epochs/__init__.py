"""Evaluation after each epoch, best epoch, early stop."""
