"""The diagnosis case: top-k accuracy and memorization by epoch."""
