"""LLM judges: prompts, panels of judges, and human annotators who check them.

- :mod:`tasks`: judging tasks, a YAML file each. :mod:`cases`: read and sampled.
- :mod:`judges`: the members of a panel. :mod:`panel` asks them, :mod:`panel_run` records it as a run;
  :mod:`rated_responses` judges responses of models and puts the ratings into their scores.
- :mod:`panel_tables`: majority, distributions and agreement. :mod:`sections`: the same for reports.
- :mod:`labels`: sheets for annotators, also those of audits, blank and filled in. :mod:`sheet`: the sheet of a
  panel's cases as a page, too. :mod:`annotators` compares; :mod:`rater_agreement`: rows of all agreement tables.
- :mod:`writing`: tasks that write. :mod:`rehearsal`: a server that answers all of this offline.
"""
