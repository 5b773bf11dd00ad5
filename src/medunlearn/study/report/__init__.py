"""Convert run folders into the content of a report."""
