"""What a model repeats of the text it was trained on. Works on stored responses, with neither model nor torch."""
