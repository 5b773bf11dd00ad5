"""Offline rehearsal server: answers every prompt of builds and judges in a form that passes their checks.

Every command that takes a server's address takes ``--llm rehearsal``, and asks none. For other clients a server:

    python -m medunlearn.judging.rehearsal --port 8000

Texts come from the grammar of :mod:`medunlearn.synthetic`, questions refer to sentences by number, and labels and
verdicts are random: no result means anything, and every answer carries the rehearsal's fingerprint
(:mod:`medunlearn.data.origins`). The same prompt always gets the same answer.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from typing import Any

import httpx
from numpy.random import Generator

from medunlearn.data.origins import FINGERPRINT
from medunlearn.errors import InputError
from medunlearn.judging.writing import answer_rules as rules
from medunlearn.judging.writing.word_overlap import content, holds
from medunlearn.seeds import generator
from medunlearn.synthetic.biographies import tell_person
from medunlearn.synthetic.people import Person
from medunlearn.synthetic.stories import Plot, tell

Parts = Mapping[str, str]
Schema = Mapping[str, Any]
Answer = dict[str, Any]
LONGEST_REASON, LONGEST_QUOTE, LONGEST_SECTION = 300, 600, 1500  # characters, as the schemas have them
WRONG_LABELS, BAD_QUESTIONS = 0.1, 0.05  # shares that a rehearsed judge finds
_TAGGED = re.compile(r"<(\w+)>\n(.*?)\n</\1>", re.DOTALL)
_LABELLED = re.compile(r"^([A-Z][A-Za-z -]+): (.+)$", re.MULTILINE)
_SCHEMA_IN_WORDS = re.compile(r"JSON schema:\n(\{.*\})\s*$", re.DOTALL)
_NEXT_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_MARKS = ".,;:!?()[]\"'"
_PHRASE = re.compile(r"(?<=[a-z,] )(([A-Z]\w{2,}(?: [A-Z]\w{2,})*)(?:[^\w.!?\[\]]+\w+){2})")


def rehearse(body: Mapping[str, Any]) -> str:
    """The answer to the body of a request: JSON if it has a schema, else a few words."""
    if "prompt" in body:
        return f" pretended {_digest(str(body['prompt']))}"
    first = next(message["content"] for message in body["messages"] if message["role"] == "user")
    schema = schema_of(body)
    if schema is None:
        return f"pretended {_digest(first)}"
    answer = _ANSWERS.get(frozenset(schema.get("properties", ())))
    if answer is None:
        return json.dumps(drawn_value(schema, first))
    parts = dict(_LABELLED.findall(first)) | dict(_TAGGED.findall(first))
    # A correction is asked for in a longer conversation, and draws anew.
    turns = [len(body["messages"])] if len(body["messages"]) > 2 else []
    return json.dumps(answer(parts, schema, generator("rehearsal", str(body["model"]), first, *turns)))


def schema_of(body: Mapping[str, Any]) -> Schema | None:
    """The schema requested in a chat: from its field, or from the text of a message."""
    field = body.get("response_format", {}).get("json_schema")
    if field:
        return dict(field["schema"])
    matches = (_SCHEMA_IN_WORDS.search(message["content"]) for message in body["messages"])
    return next((dict(json.loads(match[1])) for match in matches if match), None)


def drawn_value(schema: Schema, seed: str) -> Any:
    """A value that matches a plain schema (objects, lists, enums, texts, numbers), deterministic in the seed."""
    draw = int(hashlib.sha256(seed.encode()).hexdigest(), 16)
    if "enum" in schema:
        return schema["enum"][draw % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        return {name: drawn_value(part, f"{seed}/{name}") for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [drawn_value(schema["items"], f"{seed}/{place}") for place in range(schema.get("minItems", 1))]
    if kind in ("integer", "number"):
        low = schema.get("minimum", 0)
        return low + draw % (int(schema.get("maximum", low + 9)) - int(low) + 1)
    if kind == "boolean":
        return bool(draw % 2)
    return f"pretended {draw % 10**8:08d}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _label(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    categories = [name for name in schema["properties"]["category"]["enum"] if name != "Other"]
    return {"category": str(draw.choice(categories)), "reason": parts["title"][:LONGEST_REASON]}


def _note_questions(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    """Four passages, and four pairs of passages, of the note."""
    passages = _passages(parts["note"])
    places = sorted(int(place) for place in draw.permutation(len(passages))[:4])
    pairs = list(combinations(places, 2))[:4]
    return {
        "factual": [
            {
                "question": f"What does passage {n + 1} say?",
                "answer": f"{_statement(passages[n])}.",
                "evidence": passages[n],
            }
            for n in places
        ],
        "reasoning": [
            {
                "question": f"What do passage {n + 1} and passage {m + 1} say together?",
                "findings": [passages[n], passages[m]],
                "answer": f"There is {_statement(passages[n])} also. There is {_statement(passages[m])} also.",
            }
            for n, m in pairs
        ],
    }


def _passages(note: str) -> list[str]:
    """At least four quotations from different places of a note: its sentences, or runs of words of a short one."""
    passages = _apart([sentence.strip() for sentence in _NEXT_SENTENCE.split(note)], note)
    for parts in (5, len(note)):
        if len(passages) < 4:
            passages = _apart(_runs(note, parts), note)
    return passages


def _runs(note: str, parts: int) -> Iterator[str]:
    """Runs of at least one in so many ``parts`` of a note's words, as short as can be asked about."""
    words = [(match.start(), match.end()) for match in re.finditer(r"\S+", note)]
    begin = 0
    for place in range(len(words)):
        quote = note[words[begin][0] : words[place][1]]
        if _is_quotable(quote) and place - begin + 1 >= len(words) // parts:
            yield quote
            begin = place + 1


def _apart(quotes: Iterable[str], note: str) -> list[str]:
    """The quotable ones that are in different places of the note."""
    apart = list[str]()
    for quote in quotes:
        if _is_quotable(quote) and not rules.quotations([*apart, quote], note, least=len(apart) + 1):
            apart.append(quote)
    return apart


def _is_quotable(quote: str) -> bool:
    says_something = any(not word[0].isdigit() for word in content(_statement(quote)))
    return says_something and 3 <= len(quote) <= LONGEST_QUOTE and not rules.identifiers([quote], ())


def _statement(quote: str) -> str:
    """A quotation's words in lower case, without names, numbers and marks: one sentence that identifies nobody."""
    words = [word.strip(_MARKS) for word in quote.split()]
    plain = [word for word in words if word.isalpha() and word == word.lower()]
    return " ".join(plain if content(" ".join(plain)) else [word.lower() for word in words if word.isalpha()])


def _story(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    return {"story": tell(Plot(parts["Genre"], parts["Place"], tuple(parts["Characters"].split(", "))), draw).text}


def _biography(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    born = datetime.strptime(parts["Date of birth"], "%B %d, %Y").date()
    contact = (parts["Social security number"], parts["Telephone"], parts["E-mail"], parts["Home address"])
    return {"biography": tell_person(Person(parts["Name"], "female", born, *contact), draw)}


def _text_question(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    """Question for the word after a proper noun and two more words, which the rehearsed verifier can answer."""
    phrases = sorted(set(_PHRASE.findall(parts["text"])))
    for place in draw.permutation(len(phrases)):
        phrase, noun = phrases[place]
        question, answer = f"Which word follows [{phrase}] in the text?", _word_after(phrase, parts["text"])
        if answer and not holds(question, answer):
            fields: Answer = {"proper_nouns": [noun], "question": question, "answer": answer, "outcome": "question"}
            break
    else:
        fields = {"proper_nouns": [], "question": "", "answer": "", "outcome": "no_proper_nouns"}
    return {"reasoning": "Drawn.", **fields}


def _text_answers(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    match = re.search(r"\[(.+)\]", parts["question"], re.DOTALL)
    answer = _word_after(match[1], parts["text"]) if match else ""
    return {"answers": [answer] if answer else []}


def _word_after(phrase: str, text: str) -> str:
    match = re.search(rf"{re.escape(phrase)}[^\w.!?]+(\w+)", text)
    return match[1] if match else ""


def _section(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    text, words = parts["section"], parts["section"].split()
    gaps = [word for word in re.findall(r"[A-Za-z]{3,}", text) if not holds(_GAP, word)]
    options = ["Fracture of the wrist", "Stones in a kidney"]
    options.insert(place := int(draw.integers(3)), " ".join(words[:4]))
    return {
        "generation": {"question": "What is told about the picture here?", "answer": text[:LONGEST_SECTION]},
        "cloze": {"statement": _GAP, "answer": str(draw.choice(gaps)) if gaps else words[-1]},
        "classification": {"question": "Which of these is told here?", "options": options, "answer_index": place},
    }


_GAP = "One of its words is [blank]."


def _judged_label(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    own = parts["assigned_category"]
    others = [name for name in schema["properties"]["correct_category"]["enum"] if name != own]
    wrong = draw.random() < WRONG_LABELS
    verdict = {"verdict": "Unsupported", "correct_category": str(draw.choice(others))}
    return {"reasoning": "Drawn.", **(verdict if wrong else {"verdict": "Supported", "correct_category": own})}


def _judged_criteria(parts: Parts, schema: Schema, draw: Generator) -> Answer:
    """Criteria of a question or a document; the verdict is the last property."""
    *criteria, verdict = (name for name in schema["properties"] if name != "reasoning")
    failed = draw.choice(criteria) if draw.random() < BAD_QUESTIONS else None
    return {"reasoning": "Drawn.", **{name: name != failed for name in criteria}, verdict: failed is None}


# By the properties of the answer's schema.
_ANSWERS: Mapping[frozenset[str], Callable[[Parts, Schema, Generator], Answer]] = {
    frozenset({"category", "reason"}): _label,
    frozenset({"factual", "reasoning"}): _note_questions,
    frozenset({"story"}): _story,
    frozenset({"biography"}): _biography,
    frozenset({"proper_nouns", "reasoning", "outcome", "question", "answer"}): _text_question,
    frozenset({"answers"}): _text_answers,
    frozenset({"generation", "cloze", "classification"}): _section,
    frozenset({"question"}): lambda parts, schema, draw: {"question": f"Please answer: {parts['question']}"},
    frozenset({"reasoning", "verdict", "correct_category"}): _judged_label,
    frozenset({"reasoning", "clear", "correct", "derivable", "meaningful", "valid"}): _judged_criteria,
    frozenset({"reasoning", "complete", "own", "answered", "fit"}): _judged_criteria,
    frozenset({"kind", "reason"}): lambda parts, schema, draw: {
        "kind": str(draw.choice(schema["properties"]["kind"]["enum"])),
        "reason": "Drawn.",
    },
    frozenset({"pieces"}): lambda parts, schema, draw: {"pieces": []},
}


class RehearsalTransport(httpx.AsyncBaseTransport):
    """Answers a client's requests in its own process, without a connection."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        content = json.dumps(completion(body, rehearse(body))).encode()
        return httpx.Response(200, headers={"content-type": "application/json"}, stream=_Content(content))


class _Content(httpx.AsyncByteStream):
    """Content of a response in one part."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = json.dumps(completion(body, rehearse(body))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        pass


def completion(body: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The server's answer in OpenAI's format; a token is four characters."""
    chat = "messages" in body
    prompt = "".join(message["content"] for message in body["messages"]) if chat else str(body["prompt"])
    counts = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
    content = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return {
        "id": "rehearsal",
        "model": body["model"],
        "system_fingerprint": FINGERPRINT,
        "choices": [{"index": 0, "finish_reason": "stop", **content}],
        "usage": counts | {"total_tokens": sum(counts.values())},
    }


def serve(port: int = 0) -> ThreadingHTTPServer:
    """An HTTP server on the loopback interface, already listening; ``server_port`` is its port.

    Raises:
        InputError: the port is taken.
    """
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    except (OSError, OverflowError) as error:
        raise InputError(f"Port {port} cannot be used: {error}. Choose another one with --port.") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m medunlearn.judging.rehearsal", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    try:
        server = serve(parser.parse_args().port)
    except InputError as error:
        sys.exit(f"error: {error}")
    with suppress(KeyboardInterrupt):
        print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
