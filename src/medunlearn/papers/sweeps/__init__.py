"""Reports of sweeps: evaluated models, their numbers with shared bootstrap draws, and parts common to papers."""
