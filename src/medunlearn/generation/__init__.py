"""Generation: batched decoding with shared prefixes, continuations, option ratings, a server backend."""
