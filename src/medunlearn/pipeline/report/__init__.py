"""From run folders to the content of a report."""
