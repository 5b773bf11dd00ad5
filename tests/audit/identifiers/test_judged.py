"""Table 10 by a judge, from the command: a sample is asked about, and what has no answer is not "none"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fake_server import FakeServer

from medunlearn.cli.main import app

TEXTS = {
    "a": ("Ada Vane smokes daily. Her daughter Eve called from Tarn Street. Hemoglobin was 9.1.", "Ada Vane"),
    "b": ("Ben Rook has a cough. Seen by Dr. Olm. Given aspirin at home.", "Ben Rook"),
    "c": ("Cy Dane walks well. No more was said of the knee.", "Cy Dane"),
}
PIECES = {
    "Ada": [
        ("names", "Eve"),
        ("names", "Ada Vane"),
        ("abuse_history", "smokes daily"),
        ("laboratory_finding", "9.1"),
    ],
    "Ben": [("physician_name", "Olm"), ("medication", "aspirin")],
}


def answer(body: dict[str, Any]) -> str:
    """Pieces of two texts; of the third one that does not stand in it."""
    text = body["messages"][1]["content"]
    pieces = next((told for name, told in PIECES.items() if name in text), [("stigma", "is tall")])
    return json.dumps({"pieces": [{"category": category, "quote": quote} for category, quote in pieces]})


def run(*words: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, f"{words}\n{result.output}"
    return result


@pytest.fixture
def said(tmp_path: Path) -> Path:
    rows = [
        {
            "record_id": name,
            "text": text,
            "prefix": "",
            "response": text,
            "identifiers": [{"type": "name", "value": declared}],
        }
        for name, (text, declared) in TEXTS.items()
    ]
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "said.jsonl"


def test_a_judge_fills_table_10(said: Path, tmp_path: Path) -> None:
    words = ("audit", "identifiers", "find", said, "--out", tmp_path / "out", "--detectors=[]", "--replicates=50")
    with FakeServer(answer=answer) as server:
        judge = ("--llm", server.base_url, "--llm.model", "m", "--llm.corrections=0")
        plan = json.loads(run(*words, *judge, "--dry-run", "--json").stdout)
        assert plan["estimate"]["requests"] == 3
        assert not (tmp_path / "out").exists()
        found = json.loads(run(*words, *judge, "--json").stdout)["judged"]
        asked = len(server.seen)
        again = json.loads(run(*words, *judge, "--json").stdout)["judged"]
        assert again == found
        assert len(server.seen) == asked
    assert (found["model"], found["responses"], sum(found["unanswered"].values())) == ("m", 2, 1)
    rows = {row["name"]: row["frequency"] for row in found["table10"] if row["frequency"]}
    # Eve is a name that nobody declared; Ada Vane was found already, so that she was not missed.
    assert rows == {"names": 1, "abuse_history": 1, "laboratory_finding": 1, "physician_name": 1, "medication": 1}
    per = next(row["per_response"] for row in found["table10"] if row["name"] == "medication")
    assert per == 0.5
    # Without --llm what the judge said is still shown, by its name; and no text of it.
    shown = run(*words).stdout
    assert "by the judge m, in 2 responses" in " ".join(shown.split())
    assert "aspirin" not in shown
    assert (tmp_path / "out" / "sensitive_judged.parquet").stat().st_mode & 0o077 == 0


def test_a_sample_is_judged_and_other_responses_are_not_taken_for_it(said: Path, tmp_path: Path) -> None:
    words = (
        "audit",
        "identifiers",
        "find",
        said,
        "--out",
        tmp_path / "out",
        "--detectors=[]",
        "--replicates=20",
        "--judged=1",
    )
    with FakeServer(answer=answer) as server:
        run(*words, "--llm", server.base_url, "--llm.model", "m", "--llm.corrections=0", "--quiet")
        assert len(server.seen) == 1
    rows = said.read_text().replace("smokes daily. Her", "smokes weekly. Her")
    said.write_text(rows)
    assert json.loads(run(*words, "--json").stdout)["judged"] is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--llm", "http://models.example/v1", "--llm.model", "m"), "--allow-remote-llm"),
        (("--llm", "http://127.0.0.1:9/v1"), "--llm.model is missing"),
        (("--llm", "http://127.0.0.1:9/v1", "--llm.model", "m", "--least-rouge=1"), "Give a lower least_rouge"),
        (("--dry-run",), "--llm is missing"),
    ],
)
def test_what_is_wrong_is_said(said: Path, tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    told = run("audit", "identifiers", "find", said, "--out", tmp_path / "out", "--detectors=[]", *words, code=2)
    assert why in " ".join(told.stderr.split())
