"""A benchmark from clinical notes only: records, levels, probes made from the notes, splits."""
