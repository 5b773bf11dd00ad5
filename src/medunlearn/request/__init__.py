"""`forget`: carries out a deletion request, from model and notes to the signed case."""
