"""Search for every file that still contains a named subject: traces, readers of file formats, and the log."""
