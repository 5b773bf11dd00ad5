"""A benchmark from clinical notes alone: records, levels, probes made of the notes, splits."""
