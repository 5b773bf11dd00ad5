"""What the pretended model says to AMNESIA's prompts: accepted by the checks, copied and drawn, never clever.

With it a build or a panel can be rehearsed from the first command to the last. Labels and verdicts are drawn,
questions are about sentences by their number: none of it says anything about a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

from medunlearn.judging.writing import rules
from medunlearn.judging.writing.words import sentences
from medunlearn.seeds import generator

Parts = Mapping[str, str]
LONGEST_REASON, LONGEST_QUOTE = 300, 600  # characters, as the schemas have them
WRONG_LABELS, BAD_QUESTIONS = 0.1, 0.05  # shares that a pretended judge finds
_MATERIAL = re.compile(r"<(\w+)>\n(.*?)\n</\1>", re.DOTALL)
_IN_WORDS = re.compile(r"JSON schema:\n(\{.*\})\s*$", re.DOTALL)
_NEXT_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def rehearsed(body: Mapping[str, Any]) -> str | None:
    """The answer to a request's body; None where the prompt is none that is known here."""
    if "messages" not in body:
        return None
    first = next(message["content"] for message in body["messages"] if message["role"] == "user")
    parts = dict(_MATERIAL.findall(first))
    answer = _ANSWERS.get(frozenset(parts))
    schema = schema_of(body)
    if answer is None or schema is None:
        return None
    return json.dumps(answer(parts, schema, generator("rehearsal", str(body["model"]), first)))


def schema_of(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema that a chat asks for: in the field for it, or in the words of a message."""
    asked = body.get("response_format", {}).get("json_schema")
    if asked:
        return dict(asked["schema"])
    said = (_IN_WORDS.search(message["content"]) for message in body["messages"])
    return next((dict(json.loads(found[1])) for found in said if found), None)


def _label(parts: Parts, schema: Mapping[str, Any], draw: Any) -> dict[str, Any]:
    categories = [one for one in schema["properties"]["category"]["enum"] if one != "Other"]
    return {"category": str(draw.choice(categories)), "reason": parts["title"][:LONGEST_REASON]}


def _questions(parts: Parts, schema: Mapping[str, Any], draw: Any) -> dict[str, Any]:
    """Four sentences, and four pairs of sentences, of the note; fewer where it has fewer."""
    said = [one for one in _NEXT_SENTENCE.split(parts["note"]) if _can_be_quoted(one)]
    places = sorted(int(place) for place in draw.permutation(len(said))[:4])
    pairs = list(combinations(places, 2))[:4]
    return {
        "factual": [
            {"question": f"What does sentence {place + 1} say?", "answer": said[place], "evidence": said[place]}
            for place in places
        ],
        "reasoning": [
            {
                "question": f"What do sentence {one + 1} and sentence {other + 1} say together?",
                "findings": [said[one], said[other]],
                "answer": f"{said[one]} {said[other]}",
            }
            for one, other in pairs
        ],
    }


def _can_be_quoted(sentence: str) -> bool:
    whole = sentence.endswith((".", "!", "?")) and sentences(sentence) == 1
    return whole and 10 <= len(sentence) <= LONGEST_QUOTE and not rules.identifiers([sentence], ())


def _judged_label(parts: Parts, schema: Mapping[str, Any], draw: Any) -> dict[str, Any]:
    own = parts["assigned_category"]
    others = [one for one in schema["properties"]["correct_category"]["enum"] if one != own]
    wrong = draw.random() < WRONG_LABELS
    verdict = {"verdict": "Unsupported", "correct_category": str(draw.choice(others))}
    return {"reasoning": "Drawn.", **(verdict if wrong else {"verdict": "Supported", "correct_category": own})}


def _judged_question(parts: Parts, schema: Mapping[str, Any], draw: Any) -> dict[str, Any]:
    criteria = [name for name in schema["properties"] if name not in ("reasoning", "valid")]
    failed = draw.choice(criteria) if draw.random() < BAD_QUESTIONS else None
    return {"reasoning": "Drawn.", **{name: name != failed for name in criteria}, "valid": failed is None}


# By the names between the tags of a prompt.
_ANSWERS: Mapping[frozenset[str], Callable[[Parts, Mapping[str, Any], Any], dict[str, Any]]] = {
    frozenset({"title"}): _label,
    frozenset({"note"}): _questions,
    frozenset({"title", "assigned_category"}): _judged_label,
    frozenset({"note", "question", "answer"}): _judged_question,
}
