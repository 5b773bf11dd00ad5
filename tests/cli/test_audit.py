"""``medunlearn audit`` as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from row_files import write_lines

Run = Callable[..., Any]
SMALL = ("--prefixes=8", "--max-new-tokens=40", "--replicates=20")
SECRET = "Quillfeather"


def text(record: int) -> str:
    """A text of its own for each record, since wording that several hold extracts nobody."""
    values = (f"and that value {place} of {record} was {place + 7 + 50 * record}" for place in range(12))
    return f"Doctor {SECRET} wrote that the fever of the ninth day had gone down by noon {' '.join(values)}"


TEXT = text(0)


def rows(copied: int = 2, of: int = 4) -> list[dict[str, Any]]:
    """Prefixes of eight words; so many responses say what follows."""
    return [
        {
            "record_id": f"r{place}",
            "prefix": " ".join(words[:8]),
            "reference": " " + " ".join(words[8:]),
            "response": " " + " ".join(words[8:] if place < copied else words[8:20] * 4),
        }
        for place in range(of)
        for words in [text(place).split()]
    ]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    file = tmp_path / "said.jsonl"
    write_lines(file, rows())
    return file


def test_stored_responses_with_no_torch(stored: Path, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom medunlearn.cli.main import app\n"
        f"words = ['audit', '--responses', {str(stored)!r}, '--out', {str(tmp_path / 'a')!r}]\n"
        "try: app([*words, '--replicates=20'])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split()[-2:] == ["False", "False"]
    assert "said: 2 of 4 records can be extracted." in process.stdout
    assert "repeats 30 words in a row" in " ".join(process.stdout.split())
    assert SECRET not in process.stdout + process.stderr


def test_json_is_for_machines(medunlearn: Run, stored: Path, tmp_path: Path) -> None:
    result = medunlearn(
        "audit", "--responses", stored, "--out", tmp_path / "a", "--json", "--paper-bootstrap", *SMALL
    )
    payload = json.loads(result.stdout)
    (run,) = (row for row in payload["table"] if row["measure"] == "run_30")
    assert (run["value"], run["n_scored"], run["unit"], run["prefix_tokens"]) == (0.5, 4, "words", 8)
    assert payload["results"]["unit"]["name"] == "words and punctuation marks"
    assert {row["measure"] for row in payload["paper_bootstrap"]} >= {"run_30", "bleu"}
    assert SECRET not in result.stdout


def test_prefixes_of_different_lengths_are_no_length(medunlearn: Run, tmp_path: Path) -> None:
    texts = rows()
    texts[0]["prefix"] += " and one more"
    stored = write_lines(tmp_path / "said.jsonl", texts)
    medunlearn("audit", "--responses", stored, "--out", tmp_path / "a", "--quiet", *SMALL)
    medunlearn("report", tmp_path / "a", "--out", tmp_path / "report", "--quiet")
    page = (tmp_path / "report" / "report.md").read_text()
    assert "mixed lengths" in page
    assert "prefix 0" not in page
    assert "prefix of 0" not in page


def test_stored_responses_in_the_place_of_a_model(medunlearn: Run, stored: Path, tmp_path: Path) -> None:
    assert f"--responses {stored}" in medunlearn("audit", stored, "--out", tmp_path / "a", code=2).text


def test_text_is_shown_when_asked_for(medunlearn: Run, stored: Path, tmp_path: Path) -> None:
    out = ("audit", "--responses", stored, "--out", tmp_path / "a", *SMALL)
    plain, with_text = medunlearn(*out), medunlearn(*out, "--show-text")
    assert "ninth" not in plain.stdout
    assert "ninth" in with_text.stdout
    assert medunlearn(*out, "--quiet").stdout == ""


def test_inspect_shows_an_audit(medunlearn: Run, stored: Path, tmp_path: Path) -> None:
    medunlearn("audit", "--responses", stored, "--baseline", stored, "--out", tmp_path / "a", *SMALL)
    assert "longest_run" not in medunlearn("inspect", tmp_path / "a").stdout
    result = medunlearn("inspect", tmp_path / "a", "--all").stdout
    assert "words and punctuation marks" in " ".join(result.split())
    assert "longest_run" in result
    assert "difference" in result
    assert "ninth" not in result


def test_measures_are_listed(medunlearn: Run) -> None:
    result = medunlearn("list", "measures", "--json")
    assert {"run_30", "bleu", "extraction_strength"} <= {row["name"] for row in json.loads(result.stdout)}


def test_a_server_and_named_corpora(medunlearn: Run, tmp_path: Path) -> None:
    for name, words in (("a", TEXT), ("b", TEXT.replace("fever", "cough"))):
        (tmp_path / f"{name}.txt").write_text(words)

    def knows_one(body: dict[str, Any]) -> str:
        prompt = body["prompt"]
        return TEXT[len(prompt) :] if TEXT.startswith(prompt) else " no idea"

    words = ("audit", "m@", f"seen={tmp_path / 'a.txt'}", f"other={tmp_path / 'b.txt'}", "--out", tmp_path / "out")
    with FakeServer(answer=knows_one) as server:
        result = medunlearn(
            *(server.base_url if word == "m@" else word for word in words), "--model-name", "m", "--all", *SMALL
        )
        # Requests are sent at the same time, and come in either order.
        prompts = sorted(body["prompt"] for body, _ in server.seen)
        assert prompts == [TEXT[:47].replace("fever", "cough"), TEXT[:47]]
    assert "seen, greedy" in result.stdout
    assert "other, greedy" in result.stdout
    table = json.loads(
        medunlearn("audit", server.base_url, *words[2:], "--model-name", "m", *SMALL, "--json").stdout
    )
    runs = {row["corpus"]: row["value"] for row in table["table"] if row["measure"] == "run_30"}
    assert runs == {"seen": 1.0, "other": 0.0}
    info = json.loads((tmp_path / "out" / "run.json").read_text())
    assert info["results"]["model"]["guard"]["on_this_machine"]
    assert SECRET not in (tmp_path / "out" / "run.json").read_text()


def test_a_corpus_may_be_called_as_a_setting_is(
    medunlearn: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"{name} {TEXT}")
    words = ("--unseen", "unseen", "--model-name=m", "--json", "--out", tmp_path / "out", *SMALL)
    with FakeServer(answer=lambda body: TEXT) as server:
        medunlearn("audit", server.base_url, "notes=a.txt", "unseen=b.txt", *words)
    assert json.loads((tmp_path / "out" / "unseen.json").read_text()) == {"corpora": ["unseen"]}
    settings = medunlearn("audit", "model", "a.txt", "out=a.txt", "--out", tmp_path / "x", code=2).text
    assert "settings are flags, --out a.txt" in settings


def test_credentialed_text_does_not_leave(medunlearn: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    words = (tmp_path / "a.txt", "--model-name=m", "--out", tmp_path / "out", *SMALL)
    assert "--allow-remote-llm" in medunlearn("audit", "http://models.example/v1", *words, code=2).text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "name a MODEL and a CORPUS"),
        (("model",), "name a CORPUS"),
        (("model", "corpus.txt", "prefixs=8"), "Did you mean --prefixes?"),
        (("--responses", "nowhere.jsonl"), "There is no file"),
        (("model", "--responses", "x.jsonl"), "leave these out"),
        (("http://127.0.0.1:1/v1", "corpus.txt"), "--model-name is missing"),
        (("model", "corpus.txt", "--model-name", "m"), "is not a server address"),
    ],
)
def test_wrong_words(medunlearn: Run, tmp_path: Path, words: tuple[str, ...], reason: str) -> None:
    assert reason in medunlearn("audit", *words, "--out", tmp_path / "out", code=2).text


def test_a_table_of_something_else(medunlearn: Run, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("question,answer\nWhy?,So.\n")
    result = medunlearn("audit", "--responses", tmp_path / "x.csv", "--out", tmp_path / "out", code=2)
    assert "suffix" in result.text
    assert "answer" in result.text


def test_the_demo_on_invented_texts(medunlearn: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medunlearn.papers.memorization.demo.COPIES", (0, 1, 2, 3))
    monkeypatch.setattr("medunlearn.papers.memorization.demo.OTHER_TEXTS", 1)
    result = medunlearn("demo", "audit", "--out", tmp_path / "demo", "--texts", 2, "--epochs", 2, "--json")
    payload = json.loads(result.stdout)
    findings = {row["statement"]: row for row in payload["findings"]}
    # Two texts of four kinds for each number of copies; with two epochs nearly nothing is memorized.
    assert [row["n"] for row in findings.values()][:5] == [16, 16, 16, 24, 24]
    assert next(row["n"] for name, row in findings.items() if name.startswith("memorized tokens fall")) > 20
    measured = [row for row in findings.values() if row["low"] is not None]
    assert len(measured) >= 5
    assert all(row["low"] <= row["difference"] <= row["high"] for row in measured)
    assert {row["verdict"] for row in measured} <= {"holds", "does not hold", "open"}
    assert {row["measure"] for row in payload["persistence"]} == {"only_before", "common", "only_after", "retained"}
    assert Path(payload["report"]).exists()
    assert "Did you mean 'audit'" in medunlearn("demo", "audits", code=2).text
