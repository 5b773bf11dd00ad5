"""``build amnesia NOTES``: a person's notes to a benchmark, what is left out, what a budget stops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fake_server import FakeServer

from medunlearn.data.benchmark import Benchmark

Medunlearn = Callable[..., Any]
FAST = "--llm.backoff-seconds=0.01"


def rejects(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "rejects.parquet").to_pylist()
    return rows


def test_notes_become_a_benchmark(
    asked: Any, medunlearn: Medunlearn, notes: Path, canned: Any, tmp_path: Path
) -> None:
    out = tmp_path / "bench"
    with FakeServer(answer=canned) as server:
        said = medunlearn("build", "amnesia", notes, *asked(server), "--out", out)
        assert server.count == 24
        assert "24 requests sent now" in said.text
        assert "12 records, 12 subjects, 96 questions" in said.text
        benchmark = Benchmark.load(out)
        assert {record.groups["disease"] for record in benchmark.records} == {
            "Cancer", "Infectious/Immune", "Cardiovascular",
        }  # fmt: skip
        assert benchmark.counts()["questions_holdout"] == 24
        assert set(benchmark.splits) >= {"random_05", "random_25", "cancer_10", "infectious_10"}
        assert benchmark.data_use == "credentialed"
        before = {file.name: file.read_bytes() for file in out.glob("*.parquet")}

        again = medunlearn("build", "amnesia", notes, *asked(server), "--out", out)
        assert "0 requests sent now" in again.text
        assert server.count == 24
        assert {file.name: file.read_bytes() for file in out.glob("*.parquet")} == before
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
    asked: Any, write_csv: Any, medunlearn: Medunlearn, own_notes: Any, canned: Any, tmp_path: Path
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
        refused = medunlearn("build", "amnesia", file, *asked(server), "--out", out, code=2)
        assert "n.csv:14: has no text in 'text'" in refused.text
        assert "n.csv:15: has the id of n.csv:3: 'n001'" in refused.text
        assert server.count == 0
        assert not out.exists()
        said = medunlearn("build", "amnesia", file, *asked(server), "--out", out, "--skip-bad-rows")
    assert "7 were left out; they are listed in" in said.text
    assert [(row["task"], row["id"], row["status"]) for row in rejects(out)] == [
        ("notes", "n.csv:14", "excluded"),
        ("notes", "n.csv:15", "excluded"),
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


def test_other_can_be_kept(
    asked: Any, write_csv: Any, medunlearn: Medunlearn, own_notes: Any, canned: Any, tmp_path: Path
) -> None:
    file = write_csv(tmp_path / "n.csv", own_notes(8, ("tumor", "odd")))
    with FakeServer(answer=canned) as server:
        medunlearn("build", "amnesia", file, *asked(server), "--out", tmp_path / "b", "--other=keep")
    benchmark = Benchmark.load(tmp_path / "b")
    assert benchmark.notes["patients by disease"] == {"Cancer": 4, "Other": 4}
    assert not [name for name in benchmark.splits if name.startswith("other")]


def test_when_no_note_comes_through_it_says_why(
    asked: Any, medunlearn: Medunlearn, notes: Path, tmp_path: Path
) -> None:
    with FakeServer(answer=lambda body: "I am a teapot.") as server:
        said = medunlearn("build", "amnesia", notes, *asked(server), "--out", tmp_path / "b", code=1)
    assert "No note came through" in said.text
    assert "12 x disease_label@1: invalid: No usable answer: the answer holds no JSON value." in said.text
    assert len(rejects(tmp_path / "b")) == 12


def test_columns_diseases_of_ones_own_and_a_sample(
    asked: Any, write_csv: Any, medunlearn: Medunlearn, own_notes: Any, canned: Any, tmp_path: Path
) -> None:
    rows = [
        {"key": row["id"], "letter": row["text"], "who": f"p{n // 2}", "icd": ("I21", "C50")[n // 2 % 2]}
        for n, row in enumerate(own_notes(12))
    ]
    file, out = write_csv(tmp_path / "n.csv", rows), tmp_path / "b"
    columns = ("--id", "key", "--text", "letter", "--subject", "who", "--disease", "icd")
    with FakeServer(answer=canned) as server:
        medunlearn("build", "amnesia", file, *asked(server), *columns, "--limit", 8, "--out", out)
        assert server.count == 8
    benchmark = Benchmark.load(out)
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
    ("more", "chosen"), [((), 4), (("--limit", "all"), 9), (("--limit", "6"), 6), (("--limit=6",), 6)]
)
def test_of_pmc_patients_as_many_are_drawn_as_the_paper_drew(
    medunlearn: Medunlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], chosen: int
) -> None:
    from medunlearn.papers.amnesia import notes_input

    assert notes_input.PAPER_SAMPLE == 8820
    monkeypatch.setattr(notes_input, "PAPER_SAMPLE", 4)
    (tmp_path / "PMC-Patients-V2.json").write_text(json.dumps(pmc(9)))
    words = ("--llm", "http://127.0.0.1:1/v1", "--llm.model", "m", "--out", tmp_path / "b", "--dry-run", "--json")
    plan = json.loads(medunlearn("build", "amnesia", tmp_path / "PMC-Patients-V2.json", *words, *more).stdout)
    assert plan["disease_label"]["requests"] == chosen


def test_notes_from_a_hub(
    asked: Any,
    write_csv: Any,
    medunlearn: Medunlearn,
    own_notes: Any,
    canned: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import huggingface_hub

    file = write_csv(tmp_path / "notes.csv", own_notes(6))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *args, **more: str(file))
    out = tmp_path / "b"
    with FakeServer(answer=canned) as server:
        medunlearn("build", "amnesia", "hub:me/notes/notes.csv", *asked(server), "--out", out, "--diseases=Cancer")
    benchmark = Benchmark.load(out)
    assert benchmark.source == "hub:me/notes/notes.csv"
    assert {name.rsplit("_", 1)[0] for name in benchmark.splits} == {"random", "cancer"}
    assert benchmark.data_use == "credentialed"


def test_a_dry_run_sends_and_writes_nothing(
    asked: Any, medunlearn: Medunlearn, notes: Path, canned: Any, tmp_path: Path
) -> None:
    out = tmp_path / "bench"
    with FakeServer(answer=canned) as server:
        words = ("build", "amnesia", notes, *asked(server), "--out", out, "--llm.price", "1,2")
        said = medunlearn(*words, "--dry-run")
        assert "disease_label: 12 requests to send" in said.text
        assert "amnesia_questions: 12 requests to send" in said.text
        assert "money: about" in said.text
        assert (server.count, out.exists()) == (0, False)
        plan = json.loads(medunlearn(*words, "--dry-run", "--json").stdout)
        built = json.loads(medunlearn(*words, "--json").stdout)
        assert "0 requests to send, 12 need none" in medunlearn(*words, "--dry-run").text
    spent = built["build"]["llm"]
    assert 0 < spent["money"] <= sum(part["most"]["money"] for part in plan.values())
    assert spent["requests"] == sum(part["requests"] for part in plan.values())


def test_a_budget_stops_the_build_and_a_larger_one_goes_on(
    asked: Any, medunlearn: Medunlearn, notes: Path, canned: Any, tmp_path: Path
) -> None:
    out = tmp_path / "bench"
    with FakeServer(answer=canned) as server:
        words = ("build", "amnesia", notes, *asked(server), "--out", out)
        said = medunlearn(*words, "--llm.budget-requests", 9, code=1)
        assert "the budget of 9 requests would be passed" in said.text
        assert "goes on from there" in said.text
        assert server.count == 9
        assert not (out / "benchmark.yaml").exists()
        assert json.loads((out / "build.json").read_text())["status"] == "incomplete"
        assert {row["status"] for row in rejects(out)} == {"not_sent"}
        assert len(rejects(out)) == 12
        # The budget is the build's, not the command's.
        medunlearn(*words, "--llm.budget-requests", 9, code=1)
        assert server.count == 9
        medunlearn(*words, "--llm.budget-requests", 24)
        assert server.count == 24
    assert rejects(out) == []


def test_notes_that_a_server_fails_on_are_left_out_only_when_told(
    asked: Any, medunlearn: Medunlearn, notes: Path, canned: Any, tmp_path: Path
) -> None:
    out = tmp_path / "bench"

    def behave(body: dict[str, Any], nth: int) -> str:
        return "context_length" if "grade 7 " in str(body["messages"][1]) else "well"

    with FakeServer(behave, answer=canned) as server:
        words = ("build", "amnesia", notes, *asked(server), "--out", out, FAST)
        said = medunlearn(*words, code=1)
        assert "1 requests were not answered to the end" in said.text
        assert "--leave-out-failed" in said.text
        medunlearn(*words, "--leave-out-failed")
    assert [(row["id"], row["status"]) for row in rejects(out)] == [("n007", "failed")]
    assert len(Benchmark.load(out).records) == 11


def test_the_same_in_python_and_in_an_experiment(
    write_csv: Any, own_notes: Any, canned: Any, tmp_path: Path
) -> None:
    import medunlearn as mu
    from medunlearn.errors import ConfigError
    from medunlearn.pipeline.benchmarks import from_section

    file = write_csv(tmp_path / "n.csv", own_notes(6))
    with FakeServer(answer=canned) as server:
        llm = {"base_url": server.base_url, "model": "m"}
        built = mu.build.amnesia(notes=file, llm=llm, out=tmp_path / "b")
        section = {"builder": "amnesia", "notes": str(file), "llm": llm, "store": str(tmp_path / "b" / "llm")}
        assert from_section(section, tmp_path / "c").fingerprint == built.fingerprint
        assert server.count == 12
    with pytest.raises(ConfigError, match="notes need out=FOLDER"):
        mu.build.amnesia(notes=file, llm=llm)
    with pytest.raises(ConfigError, match=r"either NOTES .* or --synthetic N"):
        mu.build.amnesia()


def test_everything_is_private(
    asked: Any, medunlearn: Medunlearn, notes: Path, canned: Any, tmp_path: Path
) -> None:
    with FakeServer(answer=canned) as server:
        medunlearn("build", "amnesia", notes, *asked(server), "--out", tmp_path / "b")
    for folder in (tmp_path / "b", tmp_path / "b" / "llm"):
        assert folder.stat().st_mode & 0o077 == 0
