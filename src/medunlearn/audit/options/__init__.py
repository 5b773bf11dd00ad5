"""Regenerated answer options: one option of a question is removed, and the model is asked to restore it.

Source: the memorization paper, Section 3.2 ("answer option regeneration measures") and Table 5.
"""
