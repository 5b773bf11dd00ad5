"""The memorization audit: probes of texts, what a model says to them, and what of it is the text's."""
