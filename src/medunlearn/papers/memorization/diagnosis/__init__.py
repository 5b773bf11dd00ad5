"""Disease diagnosis: top-k accuracy and memorization by epoch."""
