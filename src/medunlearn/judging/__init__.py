"""Judging with language models: prompts, panels of judges, and the people who check them.

- :mod:`tasks`: what is judged, and how; a YAML file a task. :mod:`cases`: read, and drawn.
- :mod:`judges`: who judges. :mod:`panel`: asks them. :mod:`run`: as a recorded run; :mod:`responses`: of models.
- :mod:`tables`: majority, distributions and agreement. :mod:`sections`: the same for reports.
- :mod:`sheet` asks people for labels, :mod:`labels` reads them, :mod:`people` compares.
- :mod:`writing`: tasks that write. :mod:`rehearsal`: a server that answers all of this offline.
"""
