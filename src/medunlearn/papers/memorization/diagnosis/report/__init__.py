"""The report of the diagnosis case: top-k accuracy, overall and by specialty, and what happened epoch by epoch."""
