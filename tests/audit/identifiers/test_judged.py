"""Table 10 by a judge, from the command: a sample is asked about, and no answer is not "none"."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_server import FakeServer
from row_files import write_lines

Run = Callable[..., Any]
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
        ("family_relationship", "her daughter"),
    ],
    "Ben": [("physician_name", "Olm"), ("medication", "aspirin")],
}


def answer(body: dict[str, Any]) -> str:
    """Pieces of two texts; of the third one that is not in it."""
    text = body["messages"][1]["content"]
    pieces = next((own for name, own in PIECES.items() if name in text), [("stigma", "is tall")])
    return json.dumps({"pieces": [{"category": category, "quote": quote} for category, quote in pieces]})


@pytest.fixture
def find(tmp_path: Path, run: Run) -> Run:
    """``find(...)``: the command over responses that repeat their records in other writing."""
    rows = [
        {"record_id": name, "text": text, "response": text.replace("Ada Vane", "ADA  VANE")}
        | {"prefix": "Her daughter" if name == "a" else "", "identifiers": [{"type": "name", "value": declared}]}
        for name, (text, declared) in TEXTS.items()
    ]
    write_lines(tmp_path / "said.jsonl", rows)
    words = ("audit", "identifiers", "find", tmp_path / "said.jsonl", "--out", tmp_path / "out", "--detectors=[]")
    return lambda *more, code=0: run(*words, "--replicates=20", *more, code=code)


def test_a_judge_fills_table_10(find: Run, tmp_path: Path) -> None:
    with FakeServer(answer=answer) as server:
        judge = ("--llm", server.base_url, "--llm.model", "m", "--llm.corrections=0", "--json")
        plan = json.loads(find(*judge, "--dry-run").stdout)
        assert plan["estimate"]["requests"] == 3
        assert not (tmp_path / "out").exists()
        judged = json.loads(find(*judge).stdout)["judged"]
        requests = len(server.seen)
        assert json.loads(find(*judge).stdout)["judged"] == judged
        assert len(server.seen) == requests
    assert (judged["model"], judged["responses"], sum(judged["unanswered"].values())) == ("m", 2, 1)
    rows = {row["name"]: row["frequency"] for row in judged["table10"] if row["frequency"]}
    # Eve is a name that nobody declared; Ada Vane was found already; the daughter was in the prefix.
    assert rows == {"names": 1, "abuse_history": 1, "laboratory_finding": 1, "physician_name": 1, "medication": 1}
    assert next(row["per_response"] for row in judged["table10"] if row["name"] == "medication") == 0.5
    path = tmp_path / "out" / "sensitive_judged.parquet"
    assert path.stat().st_mode & 0o077 == 0
    findings = pd.read_parquet(path)
    assert set(findings["detector"]) == {"m"}
    assert findings.query("kind == 'names'")["value"].tolist() == ["Eve", "ADA  VANE"]
    assert findings.query("in_prefix")["value"].tolist() == ["Her daughter"]
    # Without --llm the judge's counts are still shown, under its name, and no text.
    output = find().stdout
    assert "by the judge m, in 2 responses" in " ".join(output.split())
    assert "aspirin" not in output


def test_a_sample_is_judged_and_other_responses_are_not_taken_for_it(find: Run, tmp_path: Path) -> None:
    with FakeServer(answer=answer) as server:
        judge = ("--llm", server.base_url, "--llm.model", "m", "--llm.corrections=0", "--quiet")
        find("--judged=1", *judge)
        assert len(server.seen) == 1
    table = tmp_path / "said.jsonl"
    table.write_text(table.read_text().replace("smokes daily. Her", "smokes weekly. Her"))
    assert json.loads(find("--judged=1", "--json").stdout)["judged"] is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--llm", "http://models.example/v1", "--llm.model", "m"), "--allow-remote-llm"),
        (("--llm", "http://127.0.0.1:9/v1"), "--llm.model is missing"),
        (("--llm", "http://127.0.0.1:9/v1", "--llm.model", "m", "--least-rouge=1"), "Give a lower --least-rouge"),
        (("--dry-run",), "--llm is missing"),
    ],
)
def test_mistakes_are_refused(find: Run, words: tuple[str, ...], why: str) -> None:
    assert why in " ".join(find(*words, code=2).stderr.split())
