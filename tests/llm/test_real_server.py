"""Against `transformers serve` with a tiny local model: it ignores the schema and log-probabilities silently."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from medunlearn.llm import Client, Message, Request, ServerSettings, Store, decide

START = 180.0  # seconds; six on an idle machine


@pytest.fixture(scope="module")
def served(tiny_base: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and model of the server."""
    folder = tmp_path_factory.mktemp("served")
    tiny_base.model.save_pretrained(folder / "model")
    tiny_base.tokenizer.save_pretrained(folder / "model")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder / "model")]
    words += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, folder / "log")
        yield f"http://127.0.0.1:{port}/v1", str(folder / "model")
    finally:
        process.terminate()
        process.wait(20)


def _wait(health: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START
    while time.monotonic() < until:
        try:
            if httpx.get(health, trust_env=False, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        if process.poll() is not None:
            break
        time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")


def test_a_real_server(served: tuple[str, str], label: Callable[..., Request], tmp_path: Path) -> None:
    url, model = served
    settings = ServerSettings(base_url=url, model=model, model_name="tiny", corrections=1, concurrency=2)
    decision = decide(url, data_use="credentialed")
    texts = [Request(f"t{n}", f"Patient {n} Ana Silva", max_tokens=6, seed=1) for n in range(4)]
    chat = Request("chat", (Message("user", "Which drug?"),), max_tokens=6)
    with Store(tmp_path) as store, Client(settings, decision, store=store) as client:
        outcomes = list(client.stream([*texts, chat]))
        assert sorted(outcome.id for outcome in outcomes) == ["chat", "t0", "t1", "t2", "t3"]
        by_id = {outcome.id: outcome for outcome in outcomes}
        for text in texts:
            outcome = by_id[text.id]
            assert outcome.status == "answered"
            assert outcome.text
            assert 1 <= outcome.usage.answer_tokens <= 6
            assert outcome.usage.estimated_tokens == 0
        assert by_id["chat"].status in ("answered", "invalid")  # random weights may say nothing but line ends
        # It takes no notice of the schema, and a model of random weights matches none: no value, and a reason.
        labelled = client.ask(label())
        assert (labelled.status, labelled.value) == ("invalid", None)
        assert labelled.usage.requests == 2
        sent = client.spent.requests
        assert all(outcome.stored for outcome in client.stream([*texts, chat, label()]))
        assert client.spent.requests == sent
        missed = client.ask(Request("p", "Patient Ana", max_tokens=6, log_probs=0))
        assert missed.status == "failed"
        assert "no log-probabilities" in missed.reason
