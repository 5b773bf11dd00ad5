"""Records, questions, hierarchy, splits, and how they are kept on disk."""
