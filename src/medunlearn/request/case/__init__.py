"""Deletion requests: keys, pseudonyms, the ledger, evidence, its signature, its page and its verification."""
