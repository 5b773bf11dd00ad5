"""The pretended model as a process: a build and its judging are rehearsed with it; a taken port is left alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from medunlearn.cli.main import app
from medunlearn.data.benchmark import Benchmark
from medunlearn.llm.pretend import PretendServer, pretend_value, rehearse


@pytest.fixture(scope="module")
def process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heeding}; from medunlearn.llm.pretend import main; main()"
    started = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None
        yield started, started.stdout.readline().strip()
    finally:
        started.kill()
        started.communicate()


def command(*words: object) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result


def test_a_build_and_a_panel_are_rehearsed(process: Any, own_notes: Any, tmp_path: Path) -> None:
    running, address = process
    pd.DataFrame(own_notes(8)).to_csv(tmp_path / "notes.csv", index=False)
    server = ("--llm", address, "--llm-model", "pretended")
    command("build", "amnesia", tmp_path / "notes.csv", *server, "--out", tmp_path / "b")
    assert Benchmark.load(tmp_path / "b").counts()["questions"] == 64
    judges = [f"  - {{base_url: '{address}', model: {name}}}" for name in ("one", "two", "three")]
    (tmp_path / "judges.yaml").write_text("\n".join(["judges:", *judges]))
    for task, cases in (("label", 8), ("question", 64)):
        words = ("--task", task, "--llm", tmp_path / "judges.yaml", "--out", tmp_path / task, "replicates=10")
        found = json.loads(command("judge", tmp_path / "b", *words, "--json").stdout)
        assert found["outcomes"] == {name: {"answered": cases} for name in ("one", "two", "three")}
    # Judges that never differ would show nothing of what agreement is.
    verdicts = pd.read_parquet(tmp_path / "question" / "judgements.parquet").groupby("case_id")["verdict"]
    assert verdicts.nunique().max() == 2

    port = address.rpartition(":")[2].removesuffix("/v1")
    words = [sys.executable, "-m", "medunlearn.llm.pretend", "--port", port]
    second = subprocess.run(words, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert second.stderr.startswith(f"error: Nothing can be served on port {port}")
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=20) == ("", "")
    assert running.returncode == 0


def test_a_schema_in_words_alone_is_kept_to() -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2, 3]}}, "required": ["n"]}
    said = f"Count.\n\nIt must match this JSON schema:\n{json.dumps(schema)}"
    body = {"model": "m", "messages": [{"role": "user", "content": said}]}
    assert json.loads(rehearse(body)) == pretend_value(schema, said)
    assert rehearse({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}).startswith("pretended ")


def test_a_server_that_is_told_of_a_taken_port_says_so() -> None:
    from medunlearn.errors import InputError

    with (
        PretendServer() as first,
        pytest.raises(InputError, match="Choose another one"),
        PretendServer(port=int(first.base_url.rpartition(":")[2].removesuffix("/v1"))),
    ):
        pass
