"""MedForget into a folder: images drawn, checked or pointed to, questions by templates or a language model."""
