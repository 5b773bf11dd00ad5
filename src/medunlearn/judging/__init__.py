"""LLM judges: prompts, panels of judges, and human annotators who check them.

- :mod:`tasks`: judging tasks, a YAML file each. :mod:`cases`: read and sampled.
- :mod:`judges`: the members of a panel. :mod:`panel` asks them, :mod:`panel_run` records it as a run;
  :mod:`rated_responses` judges responses of models and puts the ratings into their scores.
- :mod:`panel_tables`: majority, distributions and agreement. :mod:`sections`: the same for reports.
- :mod:`sheet` asks people for labels, :mod:`labels` reads them, :mod:`annotators` compares.
- :mod:`writing`: tasks that write. :mod:`rehearsal`: a server that answers all of this offline.
"""
