"""Membership inference: whether a document was in the training set. Higher scores = more likely a member."""
