"""A model behind a completions endpoint: what is sent, what is kept, and what stays here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer

from medunlearn.data.responses import ResponseStore
from medunlearn.generation.decodings import GREEDY, Decoding
from medunlearn.generation.server import Lacking, ServerPrompt, continue_on_server
from medunlearn.llm import RemoteRefusedError, ServerSettings, decide

PROMPTS = [ServerPrompt(f"r{place}@5", f"The note of patient {place} says", ()) for place in range(5)]


def say(body: dict[str, Any]) -> str:
    return f" that {body['prompt'].split()[4]} is well"


def run(
    url: str, folder: Path, decodings: tuple[Decoding, ...] = (GREEDY,), **settings: Any
) -> tuple[Lacking, Any]:
    server = ServerSettings(base_url=url, model="m", backoff_seconds=0, retries=1, give_up_after=3)
    store = ResponseStore(folder / "responses", {})
    lacking = continue_on_server(
        server,
        decide(url, data_use="credentialed"),
        PROMPTS,
        decodings,
        store,
        lambda keys, texts: [tuple(range(len(text.split()))) for text in texts],
        folder=folder / "llm",
        max_new_tokens=7,
        **settings,
    )
    return lacking, store.read()


def test_text_in_text_out(tmp_path: Path) -> None:
    with FakeServer(answer=say) as server:
        lacking, stored = run(server.base_url, tmp_path, (GREEDY, Decoding(1.0, 10)), samples=2, seed=4)
        bodies = [body for body, _ in server.seen]
        again, _ = run(server.base_url, tmp_path, (GREEDY, Decoding(1.0, 10)), samples=2, seed=4)
        assert server.count == len(bodies) == 15
    assert lacking == again == Lacking({}, 0)
    assert stored["r3@5", "greedy", 0].response == " that 3 is well"
    assert stored["r3@5", "greedy", 0].response_tokens == (0, 1, 2, 3)
    assert {key[1:] for key in stored} == {("greedy", 0), ("top_k_10", 0), ("top_k_10", 1)}
    greedy, samples = ([body for body in bodies if ("seed" in body) == drawn] for drawn in (False, True))
    assert all(body["temperature"] == 0 and "seed" not in body for body in greedy)
    assert all(body["temperature"] == 1 and body["top_k"] == 10 for body in samples)
    assert len({body["seed"] for body in samples}) == 10
    assert all(body["max_tokens"] == 7 and "messages" not in body for body in bodies)


def test_nucleus_sampling_is_asked_of_the_server(tmp_path: Path) -> None:
    with FakeServer(answer=say) as server:
        run(server.base_url, tmp_path, (Decoding(0.7, None, 0.9),))
        bodies = [body for body, _ in server.seen]
    assert all((body["temperature"], body["top_p"]) == (0.7, 0.9) and body["top_k"] == 0 for body in bodies)


def test_what_fails_has_a_reason_and_is_asked_again(tmp_path: Path) -> None:
    def sulk(body: dict[str, Any], nth: int) -> str:
        return "error_500" if "patient 2" in body["prompt"] else "well"

    with FakeServer(sulk, answer=say) as server:
        lacking, stored = run(server.base_url, tmp_path)
    assert list(lacking.reasons) == [("r2@5", "greedy", 0)]
    assert lacking.may_come == 1
    assert len(stored) == 4
    with FakeServer(answer=say) as server:
        lacking, stored = run(server.base_url, tmp_path)
        assert server.count == 1
    assert len(stored) == 5


def test_credentialed_text_stays_here(tmp_path: Path) -> None:
    with pytest.raises(RemoteRefusedError, match="credentialed"):
        run("http://models.example:8000/v1", tmp_path)
    assert not (tmp_path / "responses").exists()


def test_what_the_server_says_of_its_answer_is_kept(tmp_path: Path) -> None:
    with FakeServer(["cut_off"], answer=lambda body: "patient is well today") as server:
        _, stored = run(server.base_url, tmp_path)
        bodies = [body for body, _ in server.seen]
    kept = stored["r1@5", "greedy", 0]
    assert (kept.finish_reason, kept.finished, kept.cut, kept.content) == ("length", False, True, "text")
    assert kept.prompt_tokens == len(bodies[0]["prompt"]) // 4
    assert kept.completion_tokens == len(kept.response) // 4
    assert (kept.served_model, kept.refusal, kept.reasoning) == ("m", None, None)
