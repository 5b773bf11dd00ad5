"""Each task against a server: a bad reply goes back with the reason, a good one is taken."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from fake_server import FakeServer

from medunlearn.judging.writing import Source, task_class, write

NOTE = (
    "Ann Lee had a fever of 39.5 C for three days. Sodium was 128 mmol/L. A lesion of 24 mm was seen in the liver. "
    "Heparin was started on day 6. The lesion shrank to 12 mm. She went home on day 9."
)
STORY = " ".join(["Wexo", "and", "Quill", "walked", "through", "Tarnhythe", *(f"word{n}" for n in range(160))])
TEXT = "Marten Ulve kept the lighthouse of Sorrel Head for nineteen years."
PERSON = {
    "name": "Ada Ulvquill", "birth_date": "1/2/1980", "ssn": "900-12-3456", "phone": "291-555-0101",
    "email": "ada@example.org", "address": "1 Inkwell Lane, Tarnhythe",
}  # fmt: skip
SOURCES = {
    "amnesia_questions": Source("s", {"note": NOTE}, ("Ann Lee",)),
    "disease_label": Source("s", {"title": "Heart failure after a viral infection"}),
    "lume_biography": Source("s", PERSON, ()),
    "lume_question": Source("s", {"document": TEXT}, ()),
    "lume_story": Source("s", {"genre": "Fantasy", "place": "Tarnhythe", "names": "Wexo, Quill"}, ()),
    "lume_verify": Source("s", {"document": TEXT, "question": "Which lighthouse did Marten Ulve keep?"}, ()),
    "medforget_paraphrase": Source(
        "s", {"question": "The heart is [blank] in this image.", "answer": "enlarged"}, ()
    ),
    "medforget_section": Source(
        "s", {"section": "Findings", "text": "The heart is enlarged. PA and lateral."}, ("Ann Lee",)
    ),
    "sensitive_content": Source("s", {"record": NOTE, "response": "Ann Lee, given heparin, is fine."}, ()),
    "memorized_kind": Source("s", {"span": "doses of 5 mg twice daily are contraindicated"}, ()),
}


def factual(topic: str, answer: str, evidence: str) -> dict[str, str]:
    return {"question": f"Which {topic} was documented?", "answer": answer, "evidence": evidence}


def reasoning(topic: str, answer: str, *findings: str) -> dict[str, Any]:
    return {"question": f"How is {topic} explained?", "answer": answer, "findings": list(findings)}


GOOD: dict[str, Any] = {
    "amnesia_questions": {
        "factual": [
            factual("temperature", "A fever of 39.5 C.", "fever of 39.5 C"),
            factual("electrolyte", "Sodium was 128 mmol/L.", "Sodium was 128 mmol/L"),
            factual("focal liver change", "A lesion of 24 mm.", "lesion of 24 mm"),
            factual("anticoagulant", "Heparin, on day 6.", "Heparin was started on day 6"),
        ],
        "reasoning": [
            reasoning(
                "the smaller scan", "Heparin was started. The lesion shrank.", "Heparin was", "shrank to 12 mm"
            ),
            reasoning("going home", "The lesion shrank. She went home.", "lesion shrank", "went home on day 9"),
            reasoning("the illness", "A fever came with low sodium. A lesion was seen.", "a fever", "Sodium was"),
            reasoning("drug choice", "A lesion was seen. Heparin was started.", "24 mm was seen", "Heparin was"),
        ],
    },
    "disease_label": {"category": "Cardiovascular", "reason": "heart failure"},
    "lume_biography": {"biography": " ".join([*PERSON.values(), *(f"word{n}" for n in range(60))])},
    "lume_question": {
        "proper_nouns": ["Marten Ulve", "Sorrel Head"], "reasoning": "One lighthouse.", "outcome": "question",
        "question": "Which lighthouse did Marten Ulve keep?", "answer": "Sorrel Head",
    },
    "lume_story": {"story": STORY},
    "lume_verify": {"answers": ["Sorrel Head"]},
    "medforget_paraphrase": {"question": "What this picture shows is a heart that looks [blank]."},
    "medforget_section": {
        "generation": {"question": "What do the findings describe?", "answer": "An enlarged heart."},
        "cloze": {"statement": "The radiograph shows a heart that is [blank].", "answer": "enlarged"},
        "classification": {
            "question": "How large is the heart?", "options": ["enlarged", "normal", "small"], "answer_index": 0,
        },
    },
    "sensitive_content": {
        "pieces": [{"category": "names", "quote": "ANN LEE"}, {"category": "medication", "quote": "heparin"}],
    },
    "memorized_kind": {"kind": "drug", "reason": "doses and a contraindication"},
}  # fmt: skip

Q = ("factual", 0)
R = ("reasoning", 0)
# Task, place, what stands there instead, and the reason that the model gets.
BAD: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("memorized_kind", ("kind",), "medicine", r"\$.kind must be one of"),
    ("memorized_kind", ("reason",), "doses of 5 mg", "the reason has a number"),
    ("disease_label", ("category",), "Cold", r"\$.category must be one of"),
    ("disease_label", ("reason",), "lungs", "the reason uses no word of the title"),
    ("amnesia_questions", ("factual",), GOOD["amnesia_questions"]["factual"][:3], "must have at least 4 items"),
    ("amnesia_questions", (*Q, "question"), "How old is the patient?", "factual item 1: the question asks for"),
    ("amnesia_questions", (*Q, "question"), "Which fever did Ann Lee have?", "gives away a known identifier"),
    ("amnesia_questions", (*Q, "question"), "Name the temperature.", "does not end with a question mark"),
    ("amnesia_questions", (*Q, "question"), "Which electrolyte was documented?", "of the questions ask the same"),
    ("amnesia_questions", (*Q, "question"), "Was it a fever of 39.5 C?", "gives its own answer away"),
    ("amnesia_questions", (*Q, "answer"), "A fever. Days. Heparin.", "must have 1 to 2 sentences and has 3"),
    ("amnesia_questions", (*Q, "answer"), "A fever of 40 C.", "has a number that the text does not have"),
    ("amnesia_questions", (*Q, "answer"), "Typical malarial paroxysms.", "too few words of the answer"),
    ("amnesia_questions", (*Q, "evidence"), "a very high fever", "a quotation is not in the text"),
    ("amnesia_questions", (*R, "findings"), ["Heparin was", "parin was started"], "reasoning item 1: fewer than 2"),
    ("amnesia_questions", (*R, "findings"), ["Heparin was"], "must have at least 2 items"),
    ("amnesia_questions", (*R, "answer"), "Heparin was started and the lesion shrank.", "have 2 to 3 sentences"),
    ("lume_biography", ("biography",), "word " * 80, "lacks, letter by letter: name, birth_date, ssn"),
    ("lume_biography", ("biography",), " ".join(PERSON.values()) + " and " + "x" * 60, "must have 60 to 150"),
    ("lume_question", ("answer",), "the sea", "the answer is not in the text"),
    ("lume_question", ("answer",), "the lighthouse of Sorrel Head for", "must have 1 to 5 words"),
    ("lume_question", ("answer",), "", "must have 1 to 5 words"),
    ("lume_question", ("question",), "Which lighthouse was kept?", "names none of the proper nouns"),
    ("lume_question", ("question",), "Did Marten Ulve keep Sorrel Head?", "gives its own answer away"),
    ("lume_question", ("question",), "Name the lighthouse of Marten Ulve.", "question mark"),
    ("lume_question", ("proper_nouns",), ["Martin Ulve"], "a proper noun is not in the text"),
    ("lume_question", ("proper_nouns",), [], "does not fit the list"),
    ("lume_question", ("outcome",), "no_proper_nouns", "does not fit the list"),
    ("lume_story", ("story",), STORY.replace("Quill", "Quillfeather"), "a character is not named"),
    ("lume_story", ("story",), STORY.replace("Tarnhythe", "Tarn"), "the place is not named"),
    ("lume_story", ("story",), STORY[:700], "words and must have 150 to 200"),
    ("lume_story", ("story",), STORY + " more" * 40, "the story has 206 words"),
    ("lume_verify", ("answers",), ["Sorrel Head", "the Sorrel Head."], "the same answer stands twice"),
    ("medforget_paraphrase", ("question",), "In this image is the heart [blank].", "the same words"),
    ("medforget_paraphrase", ("question",), "What this picture shows is a large heart.", r"must have 1 \[blank\]"),
    ("medforget_paraphrase", ("question",), "An enlarged heart looks [blank] in the picture.", "the answer away"),
    ("medforget_paraphrase", ("question",), "A heart: [blank]" + " or so" * 9, "much shorter or longer"),
    ("medforget_section", ("cloze", "statement"), "The heart is enlarged.", r"exactly one \[blank\]"),
    ("medforget_section", ("cloze", "statement"), "An enlarged heart is [blank].", "gives its own answer away"),
    ("medforget_section", ("cloze", "answer"), "large", "cloze: the answer is not in the section"),
    ("medforget_section", ("cloze", "answer"), "heart is enlarged. PA and lateral", "must have 1 to 5 words"),
    ("medforget_section", ("classification", "answer_index"), 1, "does not support the option"),
    ("medforget_section", ("classification", "options"), ["enlarged", "Enlarged", "small"], "options are the same"),
    ("medforget_section", ("classification", "options"), ["enlarged", "enlarged!", "x"], "options are the same"),
    ("medforget_section", ("classification", "options"), ["enlarged", "lateral", "x"], "supports a wrong option"),
    ("medforget_section", ("classification", "options"), ["enlarged", "small"], "at least 3 items"),
    ("medforget_section", ("generation", "answer"), "Normal lungs without masses.", "generation: too few words"),
    ("medforget_section", ("classification", "answer_index"), 3, "no place among the options"),
    ("medforget_section", ("classification", "question"), "Give the size of the heart.", "question mark"),
    ("medforget_section", ("classification", "question"), "How old is the patient?", "identifying fact"),
    ("medforget_section", ("generation", "answer"), "An enlarged heart of 12 cm.", "has a number"),
    ("medforget_section", ("generation", "question"), "What is the patient's age?", "identifying fact"),
    ("medforget_section", ("generation", "question"), "Is the heart enlarged?", "gives its own answer away"),
    ("medforget_section", ("generation", "question"), "What does Ann Lee have?", "a known identifier"),
    ("sensitive_content", ("pieces", 0, "quote"), "is fine", "1 of the quotes do not stand in the record"),
    ("sensitive_content", ("pieces", 0, "quote"), "fever", "1 of the quotes do not stand in the text"),
    ("sensitive_content", ("pieces", 0, "quote"), "parin", "1 of the quotes do not stand in the text"),
    ("sensitive_content", ("pieces", 0, "quote"), "Heparin", "the same quote stands twice"),
    ("sensitive_content", ("pieces", 0, "quote"), "...", "a quote has no word"),
    ("sensitive_content", ("pieces", 0, "category"), "money", "category must be one of"),
]  # fmt: skip


def changed(name: str, place: tuple[Any, ...], instead: Any) -> str:
    value = copy.deepcopy(GOOD[name])
    part = value
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = instead
    return json.dumps(value)


def served(*answers: str) -> FakeServer:
    """Gives the answers in turn, the last one for ever."""
    replies = list(answers)
    return FakeServer(answer=lambda body: replies.pop(0) if len(replies) > 1 else replies[0])


@pytest.mark.parametrize("name", GOOD)
def test_a_good_answer_is_taken_at_once(connect: Callable[..., Any], name: str) -> None:
    server, client = connect(server=served(json.dumps(GOOD[name])))
    output = write(task_class(name)(), [SOURCES[name]], client)
    assert output.rejects == ()
    assert server.count == 1
    shuffles = name == "medforget_section"
    assert shuffles or output.results["s"] == GOOD[name]


@pytest.mark.parametrize(("name", "place", "instead", "reason"), BAD)
def test_a_bad_answer_goes_back_with_the_reason(
    connect: Callable[..., Any], name: str, place: tuple[Any, ...], instead: Any, reason: str
) -> None:
    server, client = connect(server=served(changed(name, place, instead), json.dumps(GOOD[name])), corrections=1)
    output = write(task_class(name)(), [SOURCES[name]], client)
    assert list(output.results) == ["s"]
    assert server.count == 2
    assert re.search(reason, server.seen[1][0]["messages"][-1]["content"])


@pytest.mark.parametrize(("name", "place", "instead", "reason"), BAD[::9])
def test_what_stays_bad_is_a_reject_with_its_reason(
    connect: Callable[..., Any], name: str, place: tuple[Any, ...], instead: Any, reason: str
) -> None:
    _, client = connect(server=served(changed(name, place, instead)), corrections=1)
    output = write(task_class(name)(), [SOURCES[name]], client)
    (reject,) = output.rejects
    assert (reject.id, reject.status, reject.requests) == ("s", "invalid", 2)
    assert reject.reason.startswith("No usable answer: ")
    assert not output.results


@pytest.mark.parametrize("outcome", ["no_proper_nouns", "no_unambiguous_question"])
def test_a_text_that_allows_no_question_is_told_and_not_asked_again(
    connect: Callable[..., Any], outcome: str
) -> None:
    nouns = [] if outcome == "no_proper_nouns" else ["Marten Ulve"]
    reply = {"proper_nouns": nouns, "reasoning": "None.", "outcome": outcome, "question": "", "answer": ""}
    server, client = connect(server=served(json.dumps(reply)))
    (reject,) = write(task_class("lume_question")(), [SOURCES["lume_question"]], client).rejects
    assert reject.status == "declined"
    assert reject.key
    assert server.count == 1


def test_options_are_mixed_and_the_right_one_stays_right(connect: Callable[..., Any]) -> None:
    _, client = connect(server=served(json.dumps(GOOD["medforget_section"])))
    fields = SOURCES["medforget_section"].fields
    sources = [Source(f"section-{n}", {**fields, "section": str(n)}, ()) for n in range(24)]
    results = write(task_class("medforget_section")(), sources, client).results
    choices = [value["classification"] for value in results.values()]
    assert {choice["options"][choice["answer_index"]] for choice in choices} == {"enlarged"}
    assert {choice["answer_index"] for choice in choices} == {0, 1, 2}
    assert all(sorted(choice["options"]) == ["enlarged", "normal", "small"] for choice in choices)
