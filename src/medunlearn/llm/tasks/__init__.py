"""What a language model is asked to write: one file a task, its prompt beside it, and their dictionary.

- :mod:`task` says what a task is; :mod:`rules` and :mod:`words` are what code checks answers with.
- :mod:`writing` asks a task of many sources: results in order, and every reject with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from medunlearn.llm.tasks.task import Sampling, Source, Task
from medunlearn.llm.tasks.writing import Reject, Written, estimated, reasons, save_rejects, write
from medunlearn.lookup import resolve

TASKS: Mapping[str, str] = {
    "amnesia_questions": "medunlearn.llm.tasks.amnesia_questions:AmnesiaQuestions",
    "disease_label": "medunlearn.llm.tasks.disease_label:DiseaseLabel",
    "lume_biography": "medunlearn.llm.tasks.lume_biography:LumeBiography",
    "lume_question": "medunlearn.llm.tasks.lume_question:LumeQuestion",
    "lume_story": "medunlearn.llm.tasks.lume_story:LumeStory",
    "lume_verify": "medunlearn.llm.tasks.lume_verify:LumeVerify",
    "medforget_paraphrase": "medunlearn.llm.tasks.medforget_paraphrase:MedforgetParaphrase",
    "medforget_section": "medunlearn.llm.tasks.medforget_section:MedforgetSection",
    "sensitive_content": "medunlearn.llm.tasks.sensitive_content:SensitiveContent",
    "memorized_kind": "medunlearn.llm.tasks.memorized_kind:MemorizedKind",
}


def task_class(name: str) -> type[Task]:
    """The class behind a name, a dotted path or a plug-in.

    Raises:
        UnknownNameError: says the nearest right name.
    """
    found: type[Task] = resolve("tasks", name, TASKS)
    return found


__all__ = [
    "TASKS",
    "Reject",
    "Sampling",
    "Source",
    "Task",
    "Written",
    "estimated",
    "reasons",
    "save_rejects",
    "task_class",
    "write",
]
