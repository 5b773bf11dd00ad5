"""Identifiers in what a model says: known ones traced to their records, others by detectors. No torch.

- :mod:`kinds` is what counts; :mod:`text` and :mod:`dates` are how values are compared.
- :mod:`known` finds declared identifiers, :mod:`fuzzy` those with a slip; :mod:`detectors` find undeclared ones.
- :mod:`findings` puts both in one table; :mod:`sensitive` adds what is no identifier and still private.
- :mod:`recall` measures a detector on labelled text; :mod:`tables` counts; :mod:`masking` hides values.
"""
