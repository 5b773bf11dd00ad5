"""Top-k diagnostic accuracy: an ordered list from a response, names compared, the place of the right one."""
