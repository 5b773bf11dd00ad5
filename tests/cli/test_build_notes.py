"""``build amnesia NOTES``: a person's notes to a benchmark, what is left out, what a budget stops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fake_server import FakeServer
from row_files import write_csv

from medunlearn.data.benchmark import Benchmark

Medunlearn = Callable[..., Any]
LOCAL = ("--llm", "http://127.0.0.1:1/v1", "--llm.model", "m")
FAST = "--llm.backoff-seconds=0.01"


Build = Callable[..., Any]


@pytest.fixture
def build(medunlearn: Medunlearn, notes: Path, server_flags: Any, tmp_path: Path) -> Build:
    """``build(server, *words)``: the notes, or another ``file``, into ``tmp_path/bench``."""

    def command(server: FakeServer, *words: object, file: object = notes, **how: Any) -> Any:
        out = how.pop("out", tmp_path / "bench")
        return medunlearn("build", "amnesia", file, *server_flags(server), "--out", out, *words, **how)

    return command


def rejects(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "rejects.parquet").to_pylist()
    return rows


def test_notes_become_a_benchmark(build: Build, canned: Any, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    with FakeServer(answer=canned) as server:
        result = build(server)
        assert server.count == 24
        assert "24 requests sent now" in result.text
        assert "12 records, 12 subjects, 96 questions" in result.text
        benchmark = Benchmark.load(out)
        assert {record.groups["disease"] for record in benchmark.records} == {
            "Cancer", "Infectious/Immune", "Cardiovascular",
        }  # fmt: skip
        assert benchmark.counts()["questions_holdout"] == 24
        assert set(benchmark.splits) >= {"random_05", "random_25", "cancer_10", "infectious_10"}
        assert benchmark.data_use == "credentialed"
        before = {file.name: file.read_bytes() for file in out.glob("*.parquet")}

        again = build(server)
        assert "0 requests sent now" in again.text
        assert server.count == 24
        assert {file.name: file.read_bytes() for file in out.glob("*.parquet")} == before
    for folder in (out, out / "llm"):
        assert folder.stat().st_mode & 0o077 == 0, "others may read it"
    facts = json.loads((out / "build.json").read_text())
    assert facts["status"] == "complete"
    assert facts["prompts"] == ["disease_label@1", "amnesia_questions@1"]
    assert facts["llm"]["guard"]["on_this_machine"] is True
    assert facts["notes"]["chosen"] == 12
    labels = pq.read_table(out / "labels.parquet").to_pylist()
    assert (labels[0]["category"], labels[0]["title"]) == ("Cancer", "A rare tumor after operation 0")
    evidence = {row["question_id"]: row["quotes"] for row in pq.read_table(out / "evidence.parquet").to_pylist()}
    assert set(evidence) == {question.question_id for question in benchmark.questions}
    text = benchmark.record["n000"].text
    assert all(quote in text for name, quotes in evidence.items() if name.startswith("n000") for quote in quotes)


def test_what_is_left_out_is_listed_with_its_reason(
    build: Build, own_notes: Any, canned: Any, tmp_path: Path
) -> None:
    """A bad row, a title that fits no disease, no title, and a note that the model never asks well about."""
    rows = own_notes(12, ("tumor", "sepsis", "infarction", "odd"))
    rows[4]["title"] = " "
    rows[5]["text"] = rows[5]["text"].replace("Pain", "PAIN")
    rows += [{**rows[0], "id": "empty", "text": ""}, dict(rows[1])]

    def answer(body: dict[str, Any]) -> str:
        return str(canned(body)).replace("5", "6") if "PAIN" in str(body["messages"][1]) else str(canned(body))

    file, out = write_csv(tmp_path / "n.csv", rows), tmp_path / "bench"
    with FakeServer(answer=answer) as server:
        file.write_text(file.read_text() + "n099,too few\n")
        refused = build(server, file=file, code=2)
        assert "n.csv:16: has 2 cells" in refused.text
        assert server.count == 0
        assert not out.exists()
        result = build(server, "--skip-bad-rows", file=file)
    assert "8 were left out; they are listed in" in result.text
    assert [(row["task"], row["id"], row["status"]) for row in rejects(out)] == [
        ("notes", "n.csv:14", "excluded"),
        ("notes", "n.csv:15", "excluded"),
        ("notes", "n.csv:16", "excluded"),
        ("notes", "n004", "excluded"),
        *(("disease_label@1", name, "excluded") for name in ("n003", "n007", "n011")),
        ("amnesia_questions@1", "n005", "invalid"),
    ]
    assert "a number that the text does not have" in rejects(out)[-1]["reason"] or "word for word" in str(
        rejects(out)
    )
    benchmark = Benchmark.load(out)
    assert [record.record_id for record in benchmark.records] == [f"n{n:03d}" for n in (0, 1, 2, 6, 8, 9, 10)]
    assert benchmark.notes["left out"]["amnesia_questions@1: invalid"] == 1


def test_other_can_be_kept(build: Build, own_notes: Any, canned: Any, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "n.csv", own_notes(8, ("tumor", "odd")))
    with FakeServer(answer=canned) as server:
        build(server, "--other=keep", file=file)
    benchmark = Benchmark.load(tmp_path / "bench")
    assert benchmark.notes["patients by disease"] == {"Cancer": 4, "Other": 4}
    assert not [name for name in benchmark.splits if name.startswith("other")]


def test_when_no_note_comes_through_it_says_why(build: Build, tmp_path: Path) -> None:
    with FakeServer(answer=lambda body: "I am a teapot.") as server:
        result = build(server, code=1)
    assert "All notes were rejected" in result.text
    assert "12 x disease_label@1: invalid: No usable answer: the answer holds no JSON value." in result.text
    assert len(rejects(tmp_path / "bench")) == 12


def test_columns_diseases_of_ones_own_and_a_sample(
    build: Build, own_notes: Any, canned: Any, tmp_path: Path
) -> None:
    rows = [
        {"key": row["id"], "letter": row["text"], "who": f"p{n // 2}", "icd": ("I21", "C50")[n // 2 % 2]}
        for n, row in enumerate(own_notes(12))
    ]
    file = write_csv(tmp_path / "n.csv", rows)
    flags = {"id": "key", "text": "letter", "patient": "who", "disease": "icd"}
    columns = [f"--{name}-column={column}" for name, column in flags.items()]
    with FakeServer(answer=canned) as server:
        build(server, *columns, "--limit", 8, file=file)
        assert server.count == 8
    benchmark = Benchmark.load(tmp_path / "bench")
    assert len(benchmark.records) == 8
    assert {record.groups["disease"] for record in benchmark.records} <= {"I21", "C50"}
    assert len({record.groups["patient"] for record in benchmark.records}) < 8


def pmc(count: int) -> list[dict[str, Any]]:
    """Rows as PMC-Patients-V2 has them."""
    return [
        {
            "patient_id": str(n), "patient_uid": f"77{n}-1", "PMID": f"77{n}", "file_path": "a.xml",
            "title": f"Rare tumor {n}", "patient": f"This is patient {n}.", "age": [[60.0, "year"]], "gender": "F",
            "relevant_articles": {}, "similar_patients": {},
        }
        for n in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "requests"), [((), 4), (("--limit", "all"), 9), (("--limit", "6"), 6), (("--limit=6",), 6)]
)
def test_of_pmc_patients_as_many_are_drawn_as_the_paper_drew(
    medunlearn: Medunlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], requests: int
) -> None:
    from medunlearn.papers.amnesia import notes

    assert notes.PAPER_SAMPLE == 8820
    monkeypatch.setattr(notes, "PAPER_SAMPLE", 4)
    (tmp_path / "PMC-Patients-V2.json").write_text(json.dumps(pmc(9)))
    words = ("--llm", "http://127.0.0.1:1/v1", "--llm.model", "m", "--out", tmp_path / "b", "--dry-run", "--json")
    plan = json.loads(medunlearn("build", "amnesia", tmp_path / "PMC-Patients-V2.json", *words, *more).stdout)
    assert plan["disease_label"]["requests"] == requests


def test_notes_from_a_hub(
    build: Build, own_notes: Any, canned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    file = write_csv(tmp_path / "notes.csv", own_notes(6))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *args, **more: str(file))
    with FakeServer(answer=canned) as server:
        build(server, "--diseases=Cancer", file="hub:me/notes/notes.csv")
    benchmark = Benchmark.load(tmp_path / "bench")
    assert benchmark.source == "hub:me/notes/notes.csv"
    assert {name.rsplit("_", 1)[0] for name in benchmark.splits} == {"random", "cancer"}
    assert benchmark.data_use == "credentialed"


def test_a_dry_run_sends_and_writes_nothing(build: Build, canned: Any, tmp_path: Path) -> None:
    with FakeServer(answer=canned) as server:
        words = (server, "--llm.price", "1,2")
        result = build(*words, "--dry-run")
        assert "disease_label: 12 requests to send" in result.text
        assert "amnesia_questions: 12 requests to send" in result.text
        assert "money: about" in result.text
        assert (server.count, (tmp_path / "bench").exists()) == (0, False)
        plan = json.loads(build(*words, "--dry-run", "--json").stdout)
        built = json.loads(build(*words, "--json").stdout)
        assert "0 requests to send, 12 need none" in build(*words, "--dry-run").text
    spent = built["build"]["llm"]
    assert 0 < spent["money"] <= sum(part["most"]["money"] for part in plan.values())
    assert spent["requests"] == sum(part["requests"] for part in plan.values())


def test_a_budget_stops_the_build_and_a_larger_one_goes_on(build: Build, canned: Any, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    with FakeServer(answer=canned) as server:
        result = build(server, "--llm.budget-requests", 9, code=1)
        assert "the budget of 9 requests would be exceeded" in result.text
        assert "goes on from there" in result.text
        assert server.count == 9
        assert not (out / "benchmark.yaml").exists()
        assert json.loads((out / "build.json").read_text())["status"] == "incomplete"
        assert {row["status"] for row in rejects(out)} == {"not_sent"}
        assert len(rejects(out)) == 12
        # The budget is the build's, not the command's.
        build(server, "--llm.budget-requests", 9, code=1)
        assert server.count == 9
        build(server, "--llm.budget-requests", 24)
        assert server.count == 24
    assert rejects(out) == []


def test_notes_that_a_server_fails_on_are_left_out_only_when_told(
    build: Build, canned: Any, tmp_path: Path
) -> None:
    def behave(body: dict[str, Any], nth: int) -> str:
        return "context_length" if "grade 7 " in str(body["messages"][1]) else "well"

    with FakeServer(behave, answer=canned) as server:
        result = build(server, FAST, code=1)
        assert "1 requests were not completed" in result.text
        assert "--leave-out-failed" in result.text
        build(server, FAST, "--leave-out-failed")
    assert [(row["id"], row["status"]) for row in rejects(tmp_path / "bench")] == [("n007", "failed")]
    assert len(Benchmark.load(tmp_path / "bench").records) == 11


def test_the_same_in_python_and_in_an_experiment(own_notes: Any, canned: Any, tmp_path: Path) -> None:
    import medunlearn as mu
    from medunlearn.errors import ConfigError
    from medunlearn.study.benchmark_builds import from_section

    file = write_csv(tmp_path / "n.csv", own_notes(6))
    with FakeServer(answer=canned) as server:
        llm = {"base_url": server.base_url, "model": "m"}
        built = mu.build.amnesia(notes=file, llm=llm, out=tmp_path / "b")
        section = {"builder": "amnesia", "notes": str(file), "llm": llm, "store": str(tmp_path / "b" / "llm")}
        assert from_section(section, tmp_path / "c").fingerprint == built.fingerprint
        assert server.count == 12
    with pytest.raises(ConfigError, match="out=FOLDER is missing"):
        mu.build.amnesia(notes=file, llm=llm)
    with pytest.raises(ConfigError, match=r"either --synthetic N .* or NOTES"):
        mu.build.amnesia()


# What must not leave, what must not be overwritten, and mistakes on the command line.


def test_notes_stay_on_this_machine_unless_permitted(medunlearn: Medunlearn, notes: Path, tmp_path: Path) -> None:
    away = ("--llm", "https://llm.example.com/v1", "--llm.model", "m", "--out", tmp_path / "b")
    result = medunlearn("build", "amnesia", notes, *away, code=2)
    assert "the data is credentialed: it stays here" in result.text
    assert "--allow-remote-llm" in result.text
    assert not (tmp_path / "b").exists()
    medunlearn("build", "amnesia", notes, *away, "--allow-remote-llm", "--dry-run")
    medunlearn("build", "amnesia", notes, *away, "--data-use", "open", "--dry-run")


def test_known_identifiers_keep_open_notes_here(medunlearn: Medunlearn, own_notes: Any, tmp_path: Path) -> None:
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
    server_flags: Any, medunlearn: Medunlearn, notes: Path, bench: Path, canned: Any, tmp_path: Path
) -> None:
    out = tmp_path / "b"
    with FakeServer(answer=canned) as server:
        words = ("build", "amnesia", notes, *server_flags(server), "--out")
        assert "contains another benchmark" in medunlearn(*words, bench, code=2).text
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.txt").write_text("mine")
        assert "is not empty and contains no benchmark" in medunlearn(*words, tmp_path / "mine", code=2).text
        assert server.count == 0
        medunlearn(*words, out)
        assert "contains another benchmark" in medunlearn(*words, out, "--seed", 1, code=2).text
        assert "contains this benchmark already" in medunlearn(*words, out, "--again", code=2).text
        medunlearn(*words, tmp_path / "c", "--store", out / "llm", "--again")
        medunlearn(*words, tmp_path / "d", "--store", out / "llm", "--seed", 1)
        assert server.count == 24
    assert Benchmark.load(tmp_path / "c").fingerprint == Benchmark.load(out).fingerprint


HERE = ("NOTES", *LOCAL)
MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "no file": (("none.csv", *HERE[1:]), "There is no file or folder none.csv"),
    "no server": (("NOTES",), "llm is missing"),
    "no model": (("NOTES", "--llm", "http://127.0.0.1:1/v1"), "--llm.model NAME is missing"),
    "nothing": ((), "give either --synthetic N"),
    "a setting alone": (("--other=keep",), "give either --synthetic N"),
    "both": (("--synthetic", "5", "--llm", "http://127.0.0.1:1/v1"), "There is no setting 'llm'"),
    "a column": ((*HERE, "--text-column", "txt"), "Did you mean 'text'?"),
    "a price": ((*HERE, "--llm.price", "3"), "is not PROMPT,ANSWER"),
    "no price": ((*HERE, "--llm.budget-money", "3"), "budget_money needs a price"),
    "a key": ((*HERE, "--llm.concurency=3"), "Did you mean 'concurrency'?"),
    "a sample": ((*HERE, "--limit", "99"), "the file has 12 notes"),
    "no number": ((*HERE, "--limit", "some"), "limit='some': give a number, or all"),
    "use": ((*HERE, "--data-use", "secret"), "data_use='secret'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_the_fix(medunlearn: Medunlearn, notes: Path, tmp_path: Path, name: str) -> None:
    words, result = MISTAKES[name]
    arguments = [str(notes) if word == "NOTES" else word for word in words]
    assert result in medunlearn("build", "amnesia", *arguments, "--out", tmp_path / "b", code=2).text
    assert not (tmp_path / "b").exists()


def test_no_way_to_tell_a_disease(medunlearn: Medunlearn, tmp_path: Path) -> None:
    file = write_csv(tmp_path / "n.csv", [{"text": "One."}, {"text": "Two."}])
    result = medunlearn("build", "amnesia", file, *LOCAL, "--out", tmp_path / "b", code=2).text
    assert "--title" in result
    assert "--disease" in result
