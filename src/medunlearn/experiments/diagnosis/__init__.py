"""The diagnosis case: what training watches, and top-k accuracy before and after it."""
