"""Papers: code that only one paper needs, one folder per paper."""
