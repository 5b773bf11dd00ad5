"""Every prompt: it is there, it shows what its task is about, its schema is one, and it says whose word counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from medunlearn.errors import InputError, UnknownNameError
from medunlearn.judging.writing import Sampling, Source, task_class, task_targets
from medunlearn.judging.writing.task import WritingPrompt
from medunlearn.llm.structured import check_schema

FIELDS = {
    "amnesia_questions": ("note",),
    "disease_label": ("title",),
    "lume_biography": ("name", "birth_date", "ssn", "phone", "email", "address"),
    "lume_question": ("document",),
    "lume_story": ("genre", "place", "names"),
    "lume_verify": ("document", "question"),
    "medforget_paraphrase": ("question", "answer"),
    "medforget_section": ("section", "text"),
    "sensitive_content": ("record", "response"),
    "memorized_kind": ("span",),
}


@pytest.mark.parametrize("name", task_targets())
def test_a_prompt_shows_its_fields_and_has_a_schema(name: str) -> None:
    task = task_class(name)()
    assert task.name == name
    assert task.version == f"{name}@{task.prompt.version}"
    check_schema(task.prompt.schema)
    source = Source("s", {field: f"<{field} {{{{ x }}}}>" for field in FIELDS[name]})
    request = task.request(source)
    system, user = request.prompt
    assert (system.role, user.role) == ("system", "user")
    # What stands in a record is shown as it is: it is no template.
    assert all(f"<{field} {{{{ x }}}}>" in user.content for field in FIELDS[name])
    assert request.max_tokens == task.prompt.max_tokens
    for field in FIELDS[name]:
        less = Source("s", {other: "x" for other in FIELDS[name] if other != field})
        with pytest.raises(InputError, match=f"a field that its source lacks: '{field}'"):
            task.request(less)


def test_sampling_overrides_the_prompt() -> None:
    task, source = task_class("lume_story")(), Source("s", {"genre": "g", "place": "p", "names": "n"})
    assert (task.request(source).temperature, task.request(source).seed) == (0.8, None)
    request = task.request(source, Sampling(temperature=None, max_tokens=9000, seed=5))
    assert (request.temperature, request.max_tokens, request.seed) == (None, 9000, 5)


def test_the_categories_are_table_1s() -> None:
    categories = task_class("disease_label")().prompt.schema["properties"]["category"]["enum"]
    assert len(categories) == 12
    assert categories[-1] == "Other"
    assert set(categories) >= {"Cancer", "Infectious/Immune", "Cardiovascular", "Anemia or Iron Deficiency"}


def test_a_prompt_with_keys_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("version: 1\nsystem: x\nuser: y\nschema: {}\nmax_tokens: 5\ntemprature: 0\n")
    with pytest.raises(InputError, match=r"wrong: \['temperature', 'temprature'\]"):
        WritingPrompt.read(tmp_path / "p.yaml")


def test_an_unknown_task() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'lume_story'"):
        task_class("lume_storry")
