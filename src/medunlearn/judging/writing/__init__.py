"""Writing tasks for a language model: one file per task with its prompt, and their registry.

- :mod:`task`: the base of all tasks; :mod:`answer_rules` and :mod:`word_overlap` check answers.
- :mod:`writing` runs a task on many sources: results in order, and every reject with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from medunlearn.judging.writing.task import Sampling, Source, WritingTask
from medunlearn.judging.writing.writing import Reject, WritingOutput, estimate_task, reasons, save_rejects, write
from medunlearn.registry import resolve

TASKS: Mapping[str, str] = {
    "amnesia_questions": "medunlearn.papers.amnesia.prompts:AmnesiaQuestions",
    "disease_label": "medunlearn.papers.amnesia.prompts:DiseaseLabel",
    "lume_biography": "medunlearn.papers.lume.prompts:LumeBiography",
    "lume_question": "medunlearn.papers.lume.prompts:LumeQuestion",
    "lume_story": "medunlearn.papers.lume.prompts:LumeStory",
    "lume_verify": "medunlearn.papers.lume.prompts:LumeVerify",
    "medforget_paraphrase": "medunlearn.papers.medforget.prompts:MedforgetParaphrase",
    "medforget_section": "medunlearn.papers.medforget.prompts:MedforgetSection",
    "sensitive_content": "medunlearn.audit.judge:SensitiveContent",
    "memorized_kind": "medunlearn.audit.judge:MemorizedKind",
}


def task_class(name: str) -> type[WritingTask]:
    """The class behind a name, a dotted path or a plug-in.

    Raises:
        UnknownNameError: names the nearest valid name.
    """
    cls: type[WritingTask] = resolve("tasks", name, TASKS)
    return cls


__all__ = [
    "TASKS",
    "Reject",
    "Sampling",
    "Source",
    "WritingOutput",
    "WritingTask",
    "estimate_task",
    "reasons",
    "save_rejects",
    "task_class",
    "write",
]
