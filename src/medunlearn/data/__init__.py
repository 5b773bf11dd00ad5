"""Records, questions, hierarchy and splits, and their storage on disk."""
