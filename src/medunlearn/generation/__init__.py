"""What a model says: greedy decoding in batches, and a store that keeps responses as they come."""
