"""What comes of a sweep: from its evaluated models to the content of its report (``reports/sweep/`` shows it)."""
