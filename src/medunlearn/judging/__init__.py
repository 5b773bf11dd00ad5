"""Judging with language models: prompts, panels of judges, and the people who check them.

- :mod:`label`, :mod:`question`, :mod:`document`, :mod:`factuality`: one task a file, with prompt,
  version, schema and rules.
- :mod:`task` is what a task is; :mod:`cases` what is judged, and where it is read from; :mod:`sampling` draws some.
- :mod:`judges` reads who judges; :mod:`panel` asks them; :mod:`verdicts` is what comes back, and the majority.
- :mod:`tables` counts verdicts and agreement; :mod:`human` compares with people's labels, which :mod:`sheet` asks
  for and :mod:`labels` reads; :mod:`words` writes it all down as Markdown.
"""

from __future__ import annotations

from medunlearn.errors import UnknownNameError
from medunlearn.judging import document, factuality, label, question
from medunlearn.judging.task import JudgingTask

TASKS: dict[str, JudgingTask] = {
    task.name: task for task in (label.TASK, question.TASK, document.TASK, factuality.TASK)
}


def get_task(name: str) -> JudgingTask:
    """The judging task of a name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in TASKS:
        raise UnknownNameError("judging task", name, TASKS)
    return TASKS[name]
