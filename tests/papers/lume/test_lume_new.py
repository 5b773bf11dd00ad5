"""``build lume --new`` into a folder: a model's texts, reviewers, what is left out, going on after a stop."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fake_server import FakeServer, share_of_faults
from row_files import write_lines

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.describe import describe
from medunlearn.errors import ConfigError, InputError, MedunlearnError, SourceError
from medunlearn.papers.llm_build import BuildResult
from medunlearn.papers.lume.new import build_new, plan_new
from medunlearn.study.benchmark_builds import from_section

SMALL: dict[str, Any] = {
    "new": True, "stories": 4, "personal_biographies": 3, "public_biographies": 3, "nonmembers": 1,
}  # fmt: skip
Answer = Callable[[dict[str, Any]], str]


def served(server: FakeServer, **more: Any) -> dict[str, Any]:
    return {**SMALL, "llm": {"base_url": server.base_url, "model": "m", "backoff_seconds": 0.01}, **more}


def rejects(out: Path) -> list[tuple[str, str, str]]:
    rows = pq.read_table(out / "rejects.parquet").to_pylist()
    return [(row["task"], row["id"], row["reason"]) for row in rows]


def test_a_model_writes_stories_biographies_and_questions(tmp_path: Path, writer: Answer) -> None:
    out = tmp_path / "b"
    with FakeServer(answer=writer) as server:
        built = build_new(served(server), out)
        # Four stories, three biographies, four questions; the invented lives bring their own.
        assert server.count == 11
        again = build_new(served(server), out)
        assert server.count == 11, "everything was kept"
    assert again.benchmark.fingerprint == built.benchmark.fingerprint
    benchmark = Benchmark.load(out)
    provenances = Counter(question.provenance.partition("@")[0] for question in benchmark.questions)
    assert provenances == {
        "code:sentence": 11, "llm:lume_question": 4, "template:public_biography": 4,
        **{f"template:personal_biography:{of}": 3 for of in ("birth_date", "ssn", "phone", "email", "address")},
    }  # fmt: skip
    for record in benchmark.records:
        assert all(identifier.value in record.text for identifier in record.identifiers)
    facts = json.loads((out / "build.json").read_text())
    assert facts["status"] == "complete"
    assert facts["prompts"] == ["lume_story@1", "lume_biography@1", "lume_question@1"]
    assert facts["llm"]["guard"]["on_this_machine"] is True
    assert rejects(out) == []


def test_the_estimate_sends_nothing(tmp_path: Path, writer: Answer) -> None:
    with FakeServer(answer=writer) as server:
        plans = plan_new(served(server), tmp_path / "b")
        assert server.count == 0
    assert {name: plan.requests for name, plan in plans.items()} == {
        "lume_story": 4, "lume_biography": 3, "lume_question": 4,
    }  # fmt: skip
    assert not (tmp_path / "b").exists()
    assert plan_new(SMALL, tmp_path / "b") == {}


def test_verifiers_and_what_they_refuse(tmp_path: Path, writer: Answer) -> None:
    def doubts(body: dict[str, Any]) -> str:
        return json.dumps({"answers": [*json.loads(writer(body))["answers"], "another"]})

    with FakeServer(answer=writer) as server, FakeServer(answer=doubts) as other:
        (tmp_path / "v.yaml").write_text(
            f"judges:\n  - {{base_url: '{server.base_url}', model: a, name: one}}\n"
            f"  - {{base_url: '{other.base_url}', model: b, name: two}}\n"
        )
        built = build_new(served(server, verifiers=tmp_path / "v.yaml"), tmp_path / "b")
        sent = server.count + other.count
    requests = {name: facts["requests"] for name, facts in built.facts["verifiers"].items()}
    assert requests == {"one": 4, "two": 4}
    assert built.facts["llm"]["requests"] == built.facts["requests sent now"] == sent == 11 + 8
    assert all(facts["guard"]["on_this_machine"] for facts in built.facts["verifiers"].values())
    assert {reject.reason for reject in built.rejects} == {"two finds 2 answers in the text"}
    assert len(built.rejects) == 4
    assert not [q for q in built.benchmark.questions if q.provenance.startswith("llm:")]
    assert len(built.benchmark.records) == 11, "a document without a question stays: it has its completion"


def test_verifiers_spend_the_budget_of_the_build(tmp_path: Path, writer: Answer) -> None:
    with FakeServer(answer=writer) as server:
        verifiers, out = tmp_path / "v.yaml", tmp_path / "b"
        verifiers.write_text(f"judges:\n  - {{base_url: '{server.base_url}', model: a}}\n")
        values = served(server, verifiers=verifiers)
        with pytest.raises(ConfigError, match=r"no `prices:` of a"):
            build_new({**values, "llm": {**values["llm"], "budget_money": 1.0, "prices": {"m": [1, 1]}}}, out)
        assert server.count == 0
        # Eleven texts, then four verifications, of which two are within the budget.
        with pytest.raises(MedunlearnError, match="budget of 13 requests"):
            build_new({**values, "llm": {**values["llm"], "budget_requests": 13}, "leave_out_failed": True}, out)
        assert server.count == 13
        assert json.loads((out / "build.json").read_text())["llm"]["requests"] == 13
        built = build_new({**values, "llm": {**values["llm"], "budget_requests": 15}}, out)
        assert (server.count, built.facts["llm"]["requests"], built.facts["requests sent now"]) == (15, 15, 2)


def test_near_duplicates_and_unusable_texts_are_listed(tmp_path: Path, writer: Answer) -> None:
    def same(body: dict[str, Any]) -> str:
        text = body["messages"][1]["content"]
        names = re.search(r"Place: (.*)\nCharacters: (.*)", text)
        if names is None or "Genre" not in text:
            return writer(body) if "Social" not in text else "I would rather not."
        words = " ".join(f"w{n}" for n in range(160))
        return json.dumps({"story": f"In {names[1]} {names[2]} met. {words}. The prize was Owl."})

    with FakeServer(answer=same) as server:
        built = build_new(served(server, public_biographies=4), tmp_path / "b")
    assert (
        sorted(task for task, _, _ in rejects(tmp_path / "b")) == ["lume_biography@1"] * 3 + ["near-duplicates"] * 3
    )
    (first, *_) = built.benchmark.notes["near-duplicates left out"]
    assert first.startswith("story-0002 is like story-0001 (overlap 0.9")
    counts = Counter(record.groups["task"] for record in built.benchmark.records)
    assert counts == {"story": 1, "public_biography": 5}


def test_articles_are_asked_about(tmp_path: Path, writer: Answer) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"title": f"Ada {n}", "text": " ".join(f"Fact{n} {k} is b{n}c{k}." for k in range(40))} for n in range(8)
    ]
    write_lines(path, rows)
    with FakeServer(answer=writer) as server:
        built = build_new(served(server, articles=path), tmp_path / "b")
        assert server.count == 4 + 3 + 4 + 4
    assert sum(q.provenance == "llm:lume_question@1:public_biography" for q in built.benchmark.questions) == 4


def test_a_build_that_was_stopped_goes_on(tmp_path: Path, writer: Answer) -> None:
    """A budget ends it in the middle; then only what is missing is asked, and the result is the unbroken one's."""
    out = tmp_path / "b"
    with FakeServer(answer=writer) as server:
        whole = build_new(served(server), tmp_path / "whole").benchmark
        before = server.count
        short = served(server)
        short["llm"] = {**short["llm"], "budget_requests": 5}
        with pytest.raises(MedunlearnError, match="give the same command again"):
            build_new(short, out)
        assert json.loads((out / "build.json").read_text())["status"] == "incomplete"
        assert not (out / "benchmark.yaml").exists()
        assert server.count == before + 5
        assert build_new(served(server), out).benchmark.fingerprint == whole.fingerprint
        assert server.count == 2 * before


def test_faults_change_nothing(tmp_path: Path, writer: Answer) -> None:
    with FakeServer(answer=writer) as server:
        whole = build_new(served(server), tmp_path / "whole").benchmark
    with FakeServer(
        share_of_faults(0.3, kinds=("error_500", "reset", "prose_only", "wrong_schema")), answer=writer
    ) as server:
        values = served(server)
        values["llm"] |= {"retries": 8, "corrections": 8}
        assert build_new(values, tmp_path / "b").benchmark.fingerprint == whole.fingerprint


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BuildResult]:
    out = tmp_path_factory.mktemp("review") / "b"
    return out, build_new(SMALL, out, review=True)


def test_the_review_sheet(reviewed: tuple[Path, BuildResult]) -> None:
    out, built = reviewed
    page = (out / "review" / "annotate.html").read_text()
    with (out / "review" / "labels.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["case_id"] for row in rows] == [record.record_id for record in built.benchmark.records]
    assert all(row["document"] == built.benchmark.record[row["case_id"]].text for row in rows)
    assert rows[0]["questions"].count(" -> ") == 1
    assert "Is the text whole" in page
    # A second build leaves a sheet alone, which somebody may be filling in.
    (out / "review" / "labels.csv").write_text("mine")
    build_new(SMALL, out, review=True)
    assert (out / "review" / "labels.csv").read_text() == "mine"


def test_what_a_reviewer_refused_is_left_out(reviewed: tuple[Path, BuildResult], tmp_path: Path) -> None:
    _, built = reviewed
    sheets = []
    for person, refused in (("anna", "story-0002"), ("ben", "life-0001")):
        sheets.append(tmp_path / f"{person}.csv")
        lines = [
            f"{record.record_id},{'No' if record.record_id == refused else 'yes'}"
            for record in built.benchmark.records
        ]
        sheets[-1].write_text("case_id,label\n" + "\n".join(lines) + "\n")
    again = build_new({**SMALL, "reviewed": sheets}, tmp_path / "b").benchmark
    names = {record.record_id for record in again.records}
    assert not names & {"story-0002", "life-0001"}
    assert Counter(record.groups["task"] for record in again.records) == {
        "story": 4, "personal_biography": 3, "public_biography": 4,
    }, "spare texts take their places"  # fmt: skip
    assert again.notes["left out by reviewers"] == ["story-0002", "life-0001"]
    texts = {record.record_id: record.text for record in built.benchmark.records}
    assert all(texts.get(record.record_id, record.text) == record.text for record in again.records)
    assert ("review", "story-0002", "a reviewer labelled it No") in rejects(tmp_path / "b")


@pytest.mark.parametrize(
    "content", ["case_id,label\nstory-0001,maybe\n", "case_id\nstory-0001\n", "case_id,label\n"]
)
def test_labels_that_cannot_be_read(content: str, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(content)
    with pytest.raises(SourceError):
        build_new({**SMALL, "reviewed": [tmp_path / "l.csv"]}, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_another_benchmark_is_not_written_over(tmp_path: Path) -> None:
    build_new(SMALL, tmp_path / "b")
    with pytest.raises(InputError, match="contains another benchmark"):
        build_new({**SMALL, "seed": 1}, tmp_path / "b")


def test_a_server_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--llm.model NAME is missing"):
        build_new({**SMALL, "llm": {"base_url": "http://127.0.0.1:1/v1"}}, tmp_path / "b")


def test_from_python_and_from_an_experiment(tmp_path: Path) -> None:
    values = {key: value for key, value in SMALL.items() if key != "new"}
    fingerprint = mu.build.lume(new=True, seed=3, **values).fingerprint
    assert mu.build.lume(new=True, seed=3, out=tmp_path / "b", **values).fingerprint == fingerprint
    assert from_section({"builder": "lume", **SMALL, "seed": 3}, tmp_path / "c").fingerprint == fingerprint
    for wrong in ({}, {"new": True, "released": "x"}):
        with pytest.raises(ConfigError, match="either RELEASED"):
            mu.build.lume(**wrong)


def test_nonmembers_are_not_counted_as_retained(tmp_path: Path) -> None:
    """Two documents of each task and 20 non-members: 3 to forget and 3 to retain, not 23."""
    benchmark = mu.build.lume(new=True, stories=2, personal_biographies=2, public_biographies=2, nonmembers=20)
    assert benchmark.split_sizes(benchmark.split("half")) == {"forget": 3, "retain": 3}
    assert [row.subjects for row in describe(benchmark).splits if row.side == "retain"] == [3]
    card = (benchmark.save(tmp_path / "bench") / "README.md").read_text()
    assert "| `half` | document | 3 | 3 |" in card
