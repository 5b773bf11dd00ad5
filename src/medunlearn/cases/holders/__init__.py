"""Every file that still holds a named subject: what to look for, how files are read, and the log."""
