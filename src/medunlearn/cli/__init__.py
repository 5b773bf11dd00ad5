"""The command line: one thin file per verb. Each verb is implemented by a Python call of the same name."""
