"""Slots of a machine or cluster, and the engines that run calls in them."""
