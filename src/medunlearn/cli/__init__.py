"""The command line: one thin file per verb. What a verb does is a call in Python under the same name."""
