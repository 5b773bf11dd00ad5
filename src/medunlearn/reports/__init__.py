"""Reports: a list of blocks as one self-contained HTML page, as Markdown, and as JSON."""
