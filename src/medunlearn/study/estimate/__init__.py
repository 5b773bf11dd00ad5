"""Cost of a run before it starts: tokens, FLOPs, memory, disk."""
