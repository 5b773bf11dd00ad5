"""``build amnesia NOTES``: what must not leave, what must not be overwritten, and mistakes on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer

from medunlearn.data.benchmark import Benchmark

Medunlearn = Callable[..., Any]
FAST = "--llm.backoff-seconds=0.01"


def test_notes_stay_on_this_machine_unless_permitted(medunlearn: Medunlearn, notes: Path, tmp_path: Path) -> None:
    away = ("--llm", "https://llm.example.com/v1", "--llm.model", "m", "--out", tmp_path / "b")
    said = medunlearn("build", "amnesia", notes, *away, code=2)
    assert "the data is credentialed: it stays here" in said.text
    assert "--allow-remote-llm" in said.text
    assert not (tmp_path / "b").exists()
    medunlearn("build", "amnesia", notes, *away, "--allow-remote-llm", "--dry-run")
    medunlearn("build", "amnesia", notes, *away, "--data-use", "open", "--dry-run")


def test_known_identifiers_keep_open_notes_here(
    write_csv: Any, medunlearn: Medunlearn, own_notes: Any, tmp_path: Path
) -> None:
    rows = [{**row, "identifiers": "Ann Lee; HX-77" if n == 3 else ""} for n, row in enumerate(own_notes(6))]
    file = write_csv(tmp_path / "n.csv", rows)
    away = (
        "--llm",
        "https://llm.example.com/v1",
        "--llm.model",
        "m",
        "--data-use",
        "open",
        "--out",
        tmp_path / "b",
    )
    assert "1 records carry identifiers" in medunlearn("build", "amnesia", file, *away, code=2).text


def test_another_benchmark_is_refused_before_anything_is_asked(
    asked: Any, medunlearn: Medunlearn, notes: Path, bench: Path, canned: Any, tmp_path: Path
) -> None:
    out = tmp_path / "b"
    with FakeServer(answer=canned) as server:
        words = ("build", "amnesia", notes, *asked(server), "--out")
        assert "holds another benchmark" in medunlearn(*words, bench, code=2).text
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.txt").write_text("mine")
        assert "is not empty and holds no benchmark" in medunlearn(*words, tmp_path / "mine", code=2).text
        assert server.count == 0
        medunlearn(*words, out)
        assert "holds another benchmark" in medunlearn(*words, out, "--seed", 1, code=2).text
        assert "holds this benchmark already" in medunlearn(*words, out, "--again", code=2).text
        medunlearn(*words, tmp_path / "c", "--store", out / "llm", "--again")
        medunlearn(*words, tmp_path / "d", "--store", out / "llm", "--seed", 1)
        assert server.count == 24
    assert Benchmark.load(tmp_path / "c").fingerprint == Benchmark.load(out).fingerprint


HERE = ("NOTES", "--llm", "http://127.0.0.1:1/v1", "--llm.model", "m")
MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no file": (("none.csv", *HERE[1:]), "There is no file none.csv"),
    "no server": (("NOTES",), "llm is missing"),
    "no model": (("NOTES", "--llm", "http://127.0.0.1:1/v1"), "--llm.model NAME is missing"),
    "nothing": ((), "give either NOTES"),
    "a setting alone": (("--other=keep",), "give either NOTES"),
    "both": (("--synthetic", "5", "--llm", "http://127.0.0.1:1/v1"), "There is no setting 'llm'"),
    "a column": ((*HERE, "--text", "txt"), "Did you mean 'text'?"),
    "a price": ((*HERE, "--llm.price", "3"), "is not PROMPT,ANSWER"),
    "no price": (
        (*HERE, "--llm.budget-money", "3"),
        "budget_money needs a price",
    ),
    "a key": ((*HERE, "--llm.concurency=3"), "Did you mean 'concurrency'?"),
    "a sample": ((*HERE, "--limit", "99"), "the file holds 12"),
    "no number": ((*HERE, "--limit", "some"), "limit='some': value error, give a number, or all"),
    "use": ((*HERE, "--data-use", "secret"), "data_use='secret'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_fix(medunlearn: Medunlearn, notes: Path, tmp_path: Path, name: str) -> None:
    words, said = MISTAKES[name]
    given = [str(notes) if word == "NOTES" else word for word in words]
    assert said in medunlearn("build", "amnesia", *given, "--out", tmp_path / "b", code=2).text
    assert not (tmp_path / "b").exists()


def test_no_way_to_tell_a_disease(write_csv: Any, medunlearn: Medunlearn, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "n.csv", [{"text": "One."}, {"text": "Two."}])
    words = ("--llm", "http://127.0.0.1:1/v1", "--llm.model", "m", "--out", tmp_path / "b")
    said = medunlearn("build", "amnesia", file, *words, code=2).text
    assert "--title" in said
    assert "--disease" in said
