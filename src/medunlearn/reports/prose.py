"""A sentence of the papers' own page templates, until each is a list of blocks."""

NEEDS_SCRIPT = "This figure needs JavaScript. The same numbers stand in the tables."
