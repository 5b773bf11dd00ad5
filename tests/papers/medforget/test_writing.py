"""MedForget's questions by a language model: what it writes is checked, what it lacks comes of templates."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_server import FakeServer

from medunlearn.errors import MedunlearnError
from medunlearn.judging.writing import Source
from medunlearn.llm.guard import RemoteRefusedError
from medunlearn.papers.medforget.assemble import build_medforget, plan_medforget
from medunlearn.papers.medforget.prompts import MedforgetParaphrase
from medunlearn.synthetic.mimic_layout import write_mimic_layout

SIZE = {"synthetic": 2, "institutions": 1, "studies": 1, "text_only": True, "seed": 1}


def writer(body: dict[str, Any]) -> str:
    """A careful model: first words as the answer, the last one as the gap; other words in front of a question."""
    text = body["messages"][1]["content"]
    if section := re.search(r"<section>\n(.*?)\n</section>", text, re.DOTALL):
        words = section[1].split()
        last = words[-1].strip(".")
        return json.dumps({
            "generation": {"question": "What is told about the picture here?", "answer": section[1]},
            "cloze": {"statement": "What stands last in this part is [blank].", "answer": last},
            "classification": {
                "question": "Which of these is told in this part?",
                "options": ["Broken wrist bone", " ".join(words[:4]), "Stones in a kidney"],
                "answer_index": 1,
            },
        })  # fmt: skip
    question = re.search(r"<question>\n(.*?)\n</question>", text, re.DOTALL)
    assert question is not None
    return json.dumps({"question": f"Kindly answer the following, if you can: {question[1]}"})


def values(server: FakeServer, **more: Any) -> dict[str, Any]:
    return {**SIZE, "llm": {"base_url": server.base_url, "model": "m", "backoff_seconds": 0.01}, **more}


def test_what_a_model_wrote_is_asked_and_other_words_too(tmp_path: Path) -> None:
    with FakeServer(answer=writer) as server:
        plans = plan_medforget(values(server), tmp_path / "b")
        assert server.count == 0
        built = build_medforget(values(server), tmp_path / "b")
    by_kind = Counter((q.kind, q.fold, q.provenance.split(":")[1]) for q in built.benchmark.questions)
    for kind in ("generation", "cloze", "classification"):
        assert by_kind[kind, "train", "llm"] == by_kind[kind, "rephrase", "llm"] == 8
    assert by_kind["identity", "train", "template"] == 6
    for question in built.benchmark.questions:
        if question.kind == "classification":
            assert question.answer_index is not None
            assert question.options[question.answer_index] == question.answer
            assert question.question.endswith(f"C) {question.options[2]}")
        if question.kind == "cloze":
            assert question.question.count("[blank]") == 1
        if question.fold == "rephrase" and question.kind != "identity":
            assert question.question.startswith("Kindly answer")
    assert built.facts["prompts"] == ["medforget_section@1", "medforget_paraphrase@1"]
    assert {name: plan.requests for name, plan in plans.items()} == {
        "medforget_section": 8,
        "medforget_paraphrase": 24,
    }


def test_what_a_model_gives_wrongly_is_filled_by_templates_and_counted(tmp_path: Path) -> None:
    def careless(body: dict[str, Any]) -> str:
        items = json.loads(writer(body))
        if "cloze" in items and "findings" in body["messages"][1]["content"].lower():
            items["cloze"]["answer"] = "somewhere else"
        return json.dumps(items)

    with FakeServer(answer=careless) as server:
        built = build_medforget(values(server), tmp_path / "b")
    rejects = pd.read_parquet(tmp_path / "b" / "rejects.parquet")
    assert Counter(rejects["status"]) == {"invalid": 2}
    assert all(name.endswith("-findings") for name in rejects["id"])
    own = [q for q in built.benchmark.questions if q.record_id in set(rejects["id"]) and q.fold == "train"]
    assert {q.provenance.split(":")[1] for q in own} == {"template"}
    assert built.benchmark.notes["by templates instead"] == {"medforget_section@1: invalid": 2}


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("How large is the heart?", "What size does the heart have?", ""),
        ("How large is the heart?", "Tell what size the heart has.", "question mark"),
        ("How large is the heart?", "How old is the patient, really?", "an identifying fact"),
        ("How old is the patient?", "What is the patient's age?", ""),
        ("How large is the heart?", "How large is Ann Lee's heart?", "a known identifier"),
        ("How large is Ann Lee's heart?", "What size has the heart of Ann Lee?", ""),
    ],
)
def test_other_words_are_a_question_still_and_name_nobody_new(before: str, after: str, problem: str) -> None:
    source = Source("s", {"question": before, "answer": "enlarged"}, ("Ann Lee",))
    message = MedforgetParaphrase().wrong(source, {"question": after})
    assert (problem in message) if problem else not message


def test_a_build_that_was_cut_off_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    with FakeServer(answer=writer) as server:
        short = values(server) | {"llm": {**values(server)["llm"], "budget_requests": 5}}
        with pytest.raises(MedunlearnError, match="What came back is kept"):
            build_medforget(short, tmp_path / "b")
        assert not (tmp_path / "b" / "benchmark.yaml").exists()
        built = build_medforget(values(server), tmp_path / "b")
        assert built.facts["requests sent now"] == 32 - 5
        again = build_medforget(values(server), tmp_path / "b")
        assert again.benchmark.fingerprint == built.benchmark.fingerprint


def test_credentialed_reports_stay_on_this_machine(tmp_path: Path) -> None:
    folder = write_mimic_layout(tmp_path / "m", patients=2, studies=1, image_size=0)
    away = {"base_url": "https://llm.example.org/v1", "model": "m"}
    settings = {"institutions": 1, "patients": 2, "studies": 1, "text_only": True, "mimic_cxr": folder, "llm": away}
    with pytest.raises(RemoteRefusedError, match="credentialed"):
        build_medforget(settings, tmp_path / "b")
    assert not (tmp_path / "b").exists()
