"""Identifiers in responses: declared ones traced to their records, others found by detectors. No torch.

- :mod:`kinds`: kinds of identifiers, and masking. :mod:`normalized_text`: words, numbers, dates that compare equal.
- :mod:`known` finds declared identifiers, :mod:`fuzzy` those with a slip; :mod:`detectors` find undeclared ones.
- :mod:`outputs`: the responses. :mod:`findings`: what is in them, in one table. :mod:`sensitive`: further private
  content; :mod:`sensitive_judge`: by an LLM.
- :mod:`search`: a whole search. :mod:`leak_tables`: counts. :mod:`review`: by people. :mod:`recall`: of detectors
  on :mod:`labelled_notes`.
"""
