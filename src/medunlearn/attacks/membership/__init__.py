"""Membership inference: was this document in the training set? One file an attack.

Every score is so oriented that higher = more likely a member.
"""
