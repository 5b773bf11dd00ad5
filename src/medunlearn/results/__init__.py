"""Run folders, score tables, means and paired differences."""
