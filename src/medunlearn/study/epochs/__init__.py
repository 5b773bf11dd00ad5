"""Evaluation after each epoch, the best epoch, early stopping."""
