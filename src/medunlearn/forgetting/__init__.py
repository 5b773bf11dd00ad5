"""`forget`: a deletion request from the model and the notes to the case."""
