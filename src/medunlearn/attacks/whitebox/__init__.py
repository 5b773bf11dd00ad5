"""White-box attacks: what the hidden states still hold, whatever a model says."""
