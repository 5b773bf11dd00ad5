"""Reports of sweeps: the evaluated models, their numbers under shared draws, and the parts that papers share."""
