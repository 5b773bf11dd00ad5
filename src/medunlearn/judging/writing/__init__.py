"""Writing tasks for a language model: one file per task with its prompt, and their registry.

- :mod:`task`: the base of all tasks; :mod:`answer_rules` and :mod:`word_overlap` check answers.
- :mod:`writing` runs a task on many sources: results in order, and every reject with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from medunlearn.judging.writing.task import Sampling, Source, WritingTask
from medunlearn.judging.writing.writing import Reject, WritingOutput, estimate_task, reasons, save_rejects, write
from medunlearn.paper import from_papers
from medunlearn.registry import resolve

TASKS: Mapping[str, str] = {
    "sensitive_content": "medunlearn.audit.judge:SensitiveContent",
    "memorized_kind": "medunlearn.audit.judge:MemorizedKind",
}


def task_targets() -> dict[str, str]:
    """Every writing task by name with its target: ours, and those of papers."""
    return {**from_papers("tasks"), **TASKS}


def task_class(name: str) -> type[WritingTask]:
    """The class behind a name, a dotted path or a plug-in.

    Raises:
        UnknownNameError: names the nearest valid name.
    """
    cls: type[WritingTask] = resolve("tasks", name, task_targets())
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
    "task_targets",
    "write",
]
