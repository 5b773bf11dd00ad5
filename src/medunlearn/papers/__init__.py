"""Papers: what only one paper needs, a folder each."""
