"""Cost of a stage in closed form, by the shape of its model: FLOPs, memory, disk, seconds."""
