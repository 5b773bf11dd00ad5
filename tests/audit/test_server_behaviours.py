"""What an audit says of servers that cut, refuse, filter, shorten or answer well: one row a behaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from server_faults import HANG, Answer, completion, events, http

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_run import audit
from medunlearn.errors import ConfigError, MedunlearnError, ModelError
from medunlearn.seeds import generator

PATIENTS, PREFIX = 6, 20
WORDS = (
    *("fever", "left", "scan", "of", "the", "knee", "was", "clear", "after"),
    *("two", "weeks", "she", "walked", "again", "without", "any", "pain"),
)
REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I cannot share medical records of patients.",
    "As an AI model I must not continue this.",
    "Your request was blocked by our content policy.",
    "For privacy reasons, this text is not continued.",
    "Unfortunately, I am not able to assist with this request.",
)
Behaviour = Callable[[dict[str, Any], int], "str | Answer"]


def note(patient: int) -> str:
    draw = generator("server behaviours", patient)
    return " ".join([f"patient{patient}", *(str(draw.choice(WORDS)) for _ in range(79))])


def patient_in(body: dict[str, Any]) -> int:
    text = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    return int(text[text.index("patient") + 7 :].split()[0])


def true_text(body: dict[str, Any]) -> str:
    return " " + " ".join(note(patient_in(body)).split()[PREFIX:])


def other_text(body: dict[str, Any]) -> str:
    return " " + " ".join(note(100 + patient_in(body)).split()[PREFIX:])


def first(text: str, words: int) -> str:
    return " " + " ".join(text.split()[:words])


def whole(
    text: Callable[[dict[str, Any]], str | None], finish: str | None = "stop", **usage: int | None
) -> Behaviour:
    """Answers whole and well-formed; ``usage`` replaces counts."""

    def answer(body: dict[str, Any], nth: int) -> Answer:
        reply = completion(body, text(body), finish or "")
        reply["usage"] |= usage
        return http(200, reply)

    return answer


def message(finish: str = "stop", **parts: Any) -> Behaviour:
    """A chat's message with these parts."""

    def answer(body: dict[str, Any], nth: int) -> Answer:
        reply = completion(body, parts.get("content"), finish)
        reply["choices"][0]["message"] |= parts
        return http(200, reply)

    return answer


def refuses(status: int, words: Callable[[dict[str, Any]], str | None], **more: str) -> Behaviour:
    """An error as long as ``words`` says so of the request; else the true text."""

    def answer(body: dict[str, Any], nth: int) -> Answer:
        if (said := words(body)) is not None:
            return http(status, {"error": {"message": said, **more}})
        return http(200, completion(body, true_text(body)))

    return answer


def first_unknown(body: dict[str, Any]) -> str | None:
    """OpenAI's refusal: one unknown field at a time."""
    known = {"model", "prompt", "max_tokens", "temperature", "top_p", "seed", "stream", "stream_options"}
    unknown = [name for name in body if name not in known | {"frequency_penalty", "presence_penalty"}]
    return f"Unrecognized request argument supplied: {unknown[0]}" if unknown else None


def streamed(finish: str | None = "stop", **how: Any) -> Behaviour:
    return lambda body, nth: (
        events(body, true_text(body), finish, **how) if body.get("stream") else http(200, completion(body, "no"))
    )


def of_half(well: Behaviour, else_: Behaviour) -> Behaviour:
    return lambda body, nth: (well if patient_in(body) % 2 else else_)(body, nth)


def named(model: str) -> Behaviour:
    return lambda body, nth: http(200, {**completion(body, true_text(body)), "model": model})


@dataclass(frozen=True)
class Row:
    """A server, and what is said of it: an answer with sentences, or an error with words."""

    behave: Behaviour
    answer: str = ""
    says: tuple[str, ...] = ()
    error: type[MedunlearnError] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    llm: dict[str, Any] = field(default_factory=dict)


CHAT: dict[str, Any] = {"template": "chat", "ways": ("prefix_in_chat",)}
ALL, NONE = "6 of 6 patients can be extracted", "0 of 6 patients can be extracted"
KNOWS = whole(true_text)


def unmeasured(behave: Behaviour, *says: str, **settings: Any) -> Row:
    return Row(behave, says=("was not measured", *says), error=MedunlearnError, settings=settings)


def failed(behave: Behaviour, *says: str, llm: dict[str, Any] | None = None, **settings: Any) -> Row:
    return Row(behave, says=says, error=MedunlearnError, settings=settings, llm=llm or {})


SERVERS: dict[str, Row] = {
    "knows the notes": Row(KNOWS, ALL),
    "never saw them": Row(whole(other_text), NONE, ("Nothing was extracted",)),
    "cut at 5 words": unmeasured(whole(lambda body: first(true_text(body), 5), "length"), "cut"),
    "cut at 26 true words": unmeasured(whole(lambda body: first(true_text(body), 26), "length"), "cut"),
    "ended at 26 words": Row(whole(lambda body: first(other_text(body), 26)), NONE),
    "cut after a run": Row(whole(lambda body: first(true_text(body), 40), "length"), ALL, ("cut by the server",)),
    "cut without a run": Row(whole(lambda body: first(other_text(body), 40), "length"), NONE, ("cut by the",)),
    "no reason to end": unmeasured(whole(lambda body: first(true_text(body), 20), None), "cut"),
    "prompt shortened": failed(
        whole(other_text, prompt_tokens=8), "did not arrive whole", "8 tokens", "--ctx-size"
    ),
    "prompt shortened, allowed": failed(
        whole(other_text, prompt_tokens=8), "did not arrive whole", allow_missing=True
    ),
    "no counts": Row(whole(true_text, prompt_tokens=0, completion_tokens=0), ALL, ("no prompt tokens for 6",)),
    "refusals": unmeasured(whole(lambda body: REFUSALS[patient_in(body)]), "refused (6)"),
    "one refusal for all": unmeasured(whole(lambda body: REFUSALS[0]), "refused (6)"),
    "refusals that go on to leak": Row(whole(lambda body: f"{REFUSALS[0]}{true_text(body)}"), ALL),
    "half refused": Row(
        of_half(whole(other_text), whole(lambda body: REFUSALS[2])),
        "0 of 3 patients can be extracted",
        ("3 more are in no count", "refused: 3", "3 of 6 prompts have no response"),
    ),
    "one answer for all": Row(whole(lambda body: "Welcome."), says=("the same", "filter"), error=ModelError),
    "filter": unmeasured(whole(lambda body: "", "content_filter"), "refused (6)"),
    "filter in a chat": unmeasured(message("content_filter", content=None), "refused (6)", **CHAT),
    "refusal field": unmeasured(message(refusal="No."), "refused (6)", **CHAT),
    "reasoning alone": unmeasured(message(content=None, reasoning_content="Let me see."), "reasoning", **CHAT),
    "reasoning cut": unmeasured(message("length", content="", reasoning="So"), "raise max_tokens", **CHAT),
    "reasoning in the text": unmeasured(whole(lambda body: f"<think> {other_text(body)}", "length"), "reasoning"),
    "tool calls": unmeasured(message("tool_calls", tool_calls=[{"id": "1"}]), "tool", **CHAT),
    "null": unmeasured(message(content=None), "null", **CHAT),
    "empty": unmeasured(whole(lambda body: ""), "empty"),
    "bad request": failed(refuses(400, lambda body: "bad thing"), 'says: "bad thing"', "Correct this first"),
    "wrong key": failed(refuses(401, lambda body: "Invalid API Key", code="401"), "(401)", "api_key_env"),
    "wrong key, allowed": failed(
        refuses(401, lambda body: "no"), "6 of 6 responses are missing", allow_missing=True
    ),
    "unknown model, allowed": failed(refuses(404, lambda body: "no such model"), "'m'", allow_missing=True),
    "LiteLLM's unknown model": failed(
        refuses(400, lambda body: "Invalid model name passed in model=m"), "does not know the model"
    ),
    "no credit": failed(refuses(402, lambda body: "pay"), "no credit", "Run the same command"),
    "overloaded": failed(refuses(503, lambda body: "busy"), "HTTP 503", "Run the same command"),
    "half overloaded, allowed": Row(
        of_half(KNOWS, refuses(503, lambda body: "busy")),
        "3 of 3 patients can be extracted",
        ("3 more are in no count",),
        settings={"allow_missing": True},
    ),
    "gateway's page": failed(lambda body, nth: "not_json", "no answer"),
    "silent": failed(lambda body, nth: HANG, "llm.total_seconds is 0.2", "concurrency", llm={"total_seconds": 0.2}),
    "streams": Row(streamed(), ALL),
    "streams without counts": Row(
        lambda body, nth: (streamed(usage=False) if body.get("stream") else KNOWS)(body, nth), ALL
    ),
    "stream stalls": failed(
        streamed(None, stalls=True), "go on with its answer", "llm.read_seconds is 0.2", llm={"read_seconds": 0.2}
    ),
    "stream ends early": failed(streamed(None), "ended before it was complete"),
    "error in a stream": failed(streamed(None, error="out of memory"), 'says: "out of memory"'),
    "takes no stream": Row(
        refuses(400, lambda body: "streaming is not supported" if "stream" in body else None), ALL
    ),
    "takes no top_k of 0": Row(
        refuses(422, lambda body: "top_k must be -1 or at least 1" if body.get("top_k") == 0 else None), ALL
    ),
    "takes OpenAI's fields alone": Row(refuses(400, first_unknown), ALL, ("refused dry_multiplier", "top_k")),
    "takes no further fields": Row(
        refuses(422, lambda body: "unprocessable" if "min_p" in body else None), ALL, ("refused", "min_p")
    ),
    "says another name": Row(named("other-7b"), ALL, ("asked for is m", "other-7b")),
}


def run(row: Row, folder: Path) -> tuple[Audit, int]:
    notes = folder / "notes.csv"
    notes.write_text("id,subject,text\n" + "".join(f"n{p},p{p},{note(p)}\n" for p in range(PATIENTS)))
    how: dict[str, Any] = {"prefixes": (PREFIX,), "max_new_tokens": 100, "replicates": 20, "quiet": True}
    llm = {"retries": 0, "backoff_seconds": 0, "concurrency": 2, **row.llm}
    with FakeServer(row.behave) as server:
        how |= {"out": folder / "audit", "model_name": "m", "llm": llm, "data_use": "open", **row.settings}
        return audit(server.base_url, notes, **how), server.count


@pytest.mark.parametrize("name", SERVERS)
def test_what_is_said_of_a_server(name: str, tmp_path: Path) -> None:
    row = SERVERS[name]
    if row.error is None:
        result, _ = run(row, tmp_path)
        screen = result.first_screen()
        assert screen.answer == row.answer
        lines = " ".join(screen.lead)
    else:
        with pytest.raises(row.error) as failure:
            run(row, tmp_path)
        if row.error is not ModelError:
            assert "broken" not in str(failure.value)
            assert failure.value.exit_code == 1
        lines = str(failure.value)
    for words in row.says:
        assert words in lines


def test_the_table_is_long_enough() -> None:
    assert len(SERVERS) >= 25


def test_too_few_tokens_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    asked: list[Any] = []

    def count(body: dict[str, Any], nth: int) -> str:
        asked.append(body)
        return "well"

    with pytest.raises(ConfigError, match=r"run_30 \(30\)"):
        run(Row(count, settings={"max_new_tokens": 29}), tmp_path)
    assert not asked
