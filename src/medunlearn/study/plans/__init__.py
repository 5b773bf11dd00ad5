"""Plans: what a command would do, as far as it stands on disk, what it costs, and whether it fits here."""
