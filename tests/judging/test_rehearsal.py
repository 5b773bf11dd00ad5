"""The rehearsal server: every build and panel runs against it from its first command to its last."""

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
from click.testing import CliRunner

from medunlearn.cli.main import app
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.judging.rehearsal import drawn_value, rehearse, serve


@pytest.fixture(scope="module")
def process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    # A shell that starts the tests in the background has them ignore Ctrl-C.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heeding}; from medunlearn.judging.rehearsal import main; main()"
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


def panel(address: str, folder: Path) -> Path:
    judges = [f"  - {{base_url: '{address}', model: {name}}}" for name in ("one", "two", "three")]
    (folder / "judges.yaml").write_text("\n".join(["judges:", *judges]))
    return folder / "judges.yaml"


def test_amnesia_and_a_panel(process: Any, own_notes: Any, tmp_path: Path) -> None:
    _, address = process
    pd.DataFrame(own_notes(8)).to_csv(tmp_path / "notes.csv", index=False)
    server = ("--llm", address, "--llm.model", "rehearsal")
    command("build", "amnesia", tmp_path / "notes.csv", *server, "--out", tmp_path / "b")
    assert Benchmark.load(tmp_path / "b").counts()["questions"] == 64
    for task, cases in (("label", 8), ("question", 48)):
        words = ("--task", task, "--llm", panel(address, tmp_path), "--out", tmp_path / task, "--replicates=10")
        result = json.loads(command("judge", tmp_path / "b", *words, "--json").stdout)
        assert result["outcomes"] == {name: {"answered": cases} for name in ("one", "two", "three")}
    # Judges that never differ would show nothing of what agreement is.
    verdicts = pd.read_parquet(tmp_path / "question" / "judgements.parquet").groupby("case_id")["verdict"]
    assert verdicts.nunique().max() == 2


def test_lume_with_verifiers(process: Any, tmp_path: Path) -> None:
    from medunlearn.papers.lume.new import build_new

    sizes = {"stories": 12, "personal_biographies": 12, "public_biographies": 6, "nonmembers": 2}
    llm = {"base_url": process[1], "model": "rehearsal"}
    values = {"new": True, **sizes, "llm": llm, "verifiers": panel(process[1], tmp_path)}
    built = build_new(values, tmp_path / "b")
    assert built.rejects == ()
    assert len(built.benchmark.records) == sum(sizes.values())
    assert sum(q.provenance.startswith("llm:lume_question") for q in built.benchmark.questions) == 12
    judge = ("--task", "document", "--llm", panel(process[1], tmp_path), "--out", tmp_path / "d", "--replicates=10")
    assert json.loads(command("judge", tmp_path / "b", *judge, "--json").stdout)["outcomes"]["one"] == {
        "answered": sum(sizes.values())
    }


def test_medforget(process: Any, tmp_path: Path) -> None:
    from medunlearn.papers.medforget.assemble import build_medforget

    llm = {"base_url": process[1], "model": "rehearsal"}
    sizes = {"synthetic": 8, "institutions": 2, "studies": 2, "text_only": True}
    built = build_medforget({**sizes, "llm": llm}, tmp_path / "b")
    assert built.facts["rejects"] == {}
    questions = [q for q in built.benchmark.questions if q.kind != "identity"]
    assert len(questions) == 384
    assert all(q.provenance.split(":")[1] == "llm" for q in questions)


def test_a_taken_port_and_an_interruption(process: Any) -> None:
    running, address = process
    port = address.rpartition(":")[2].removesuffix("/v1")
    words = [sys.executable, "-m", "medunlearn.judging.rehearsal", "--port", port]
    second = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith(f"error: Port {port} cannot be used")
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=20) == ("", "")
    assert running.returncode == 0


def test_a_schema_in_words_alone_is_followed() -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2, 3]}}, "required": ["n"]}
    prompt = f"Count.\n\nIt must match this JSON schema:\n{json.dumps(schema)}"
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
    assert json.loads(rehearse(body)) == drawn_value(schema, prompt)
    assert rehearse({"model": "m", "messages": [{"role": "user", "content": "Hello"}]}).startswith("pretended ")


def test_a_port_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match="Choose another one"):
        serve(port=70_000)
