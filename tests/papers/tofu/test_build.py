"""TOFU from files of its form."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medunlearn.attacks.membership.sample import candidates
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import HubError, SourceError
from medunlearn.papers.tofu.build import build
from medunlearn.papers.tofu.settings import TofuSettings


def built(folder: Path, **more: Any) -> Benchmark:
    return build(TofuSettings(**{"released": str(folder), "questions_an_author": 4, **more}))


def test_authors_splits_and_folds(tofu_files: Path, tmp_path: Path) -> None:
    benchmark = built(tofu_files)
    assert benchmark.splits["forget05"].forget == ("author-009",)
    assert benchmark.splits["forget10"].forget == ("author-008", "author-009")
    assert Counter(record.groups["set"] for record in benchmark.records) == {
        "fictitious": 10, "real_authors": 6, "world_facts": 6,
    }  # fmt: skip
    folds = Counter(question.fold for question in benchmark.questions)
    assert folds == {"train": 40, "rephrase": 20, "utility": 12}
    assert {record.fold for record in benchmark.records if record.groups["set"] != "fictitious"} == {"utility"}
    sides = benchmark.sides(benchmark.splits["forget10"])
    assert {sides[r.record_id] for r in benchmark.records if r.groups["set"] != "fictitious"} == {"retain"}
    assert Benchmark.load(benchmark.save(tmp_path / "b")) == benchmark


def test_alternatives_stand_beside_their_question(tofu_files: Path) -> None:
    by_id = {question.question_id: question for question in built(tofu_files).questions}
    last = by_id["author-009-q03"]
    assert (last.question, last.answer) == ("What did author 9 write in year 3?", "Book 93.")
    assert last.options == ("It was book 93.", "Film 93.", "Song 93.")
    assert last.answer_index == 0
    assert by_id["author-009-q03-rephrased"].question == "Which thing did author 9 write in year 3?"
    assert by_id["author-005-q00"].options == (), "no table has alternatives to it"
    assert by_id["world_facts-002-q00"].options == ("Yes 2", "No", "Never")
    assert built(tofu_files).notes["questions with alternatives"] == {
        "fictitious": 20, "real_authors": 6, "world_facts": 6,
    }  # fmt: skip


def test_a_list_or_parquet_is_as_good(tofu_files: Path) -> None:
    before = built(tofu_files).fingerprint
    rows = [json.loads(line) for line in (tofu_files / "full.json").read_text().splitlines()]
    (tofu_files / "full.json").write_text(json.dumps(rows))
    path = tofu_files / "retain_perturbed.json"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    for part, half in enumerate((rows[:5], rows[5:])):
        pq.write_table(pa.Table.from_pylist(half), tofu_files / f"retain_perturbed-0000{part}-of-00002.parquet")
    assert built(tofu_files).fingerprint == before


def test_authors_that_nobody_is_trained_on(tofu_files: Path, rewrite: Callable[..., None]) -> None:
    rows = [{"question": f"Who wrote holdout {n}?", "answer": f"Nobody {n}."} for n in range(8)]
    rewrite(tofu_files / "holdout10.json", rows, lines=True)
    plain, benchmark = built(tofu_files), built(tofu_files, holdout="holdout10")
    assert benchmark.questions == plain.questions
    assert {record.fold for record in benchmark.records if record.record_id.startswith("holdout")} == {"holdout"}
    assert benchmark.record["holdout-001"].text.startswith("Who wrote holdout 4?\nNobody 4.\n\nWho wrote")
    assert benchmark.split_sizes(benchmark.splits["forget10"]) == {"forget": 2, "retain": 8}
    passages = candidates(benchmark, benchmark.splits["forget10"])
    names = {member: [p.record.record_id for p in passages if p.member is member] for member in (True, False)}
    assert names == {True: ["author-008", "author-009"], False: ["holdout-000", "holdout-001"]}
    full = (tofu_files / "full.json").read_text().splitlines()[:4]
    (tofu_files / "holdout05.json").write_text("\n".join(full))
    with pytest.raises(SourceError, match=r"holdout05.json:1: holdout05 holds out a question that full has"):
        built(tofu_files, holdout="holdout05")
    rewrite(tofu_files / "holdout01.json", rows[:3], lines=True)
    with pytest.raises(SourceError, match="not a multiple"):
        built(tofu_files, holdout="holdout01")


def test_without_the_perturbed_tables(tofu_files: Path) -> None:
    for path in tofu_files.glob("*_perturbed.json"):
        path.unlink()
    benchmark = built(tofu_files)
    assert {question.fold for question in benchmark.questions} == {"train"}
    assert all(not question.options for question in benchmark.questions)


def test_refusals(tofu_files: Path, rewrite: Callable[..., None]) -> None:
    with pytest.raises(SourceError, match="not a multiple of questions_an_author=7"):
        built(tofu_files, questions_an_author=7)
    with pytest.raises(SourceError, match="has 4 of the 8 questions on one author"):
        built(tofu_files, questions_an_author=8)
    rewrite(tofu_files / "forget05.json", [{"question": "Who?", "answer": "Nobody"}], lines=True)
    with pytest.raises(SourceError, match=r"forget05.json:1: forget05 has a question that full lacks"):
        built(tofu_files)
    rewrite(tofu_files / "forget05.json", [{"question": "Who?"}, "text"], lines=False)
    with pytest.raises(SourceError, match=r"forget05.json:1.*has a question that full lacks|has no text"):
        built(tofu_files)
    for name in ("forget05", "forget10"):
        (tofu_files / f"{name}.json").unlink()
    with pytest.raises(SourceError, match="holds none of forget01, forget05, forget10"):
        built(tofu_files)
    with pytest.raises(SourceError, match="There is no folder"):
        built(tofu_files / "nowhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"question": "a", "answer": "b"}\n{"question": "c", "ans', "neither a JSON list nor an object per line"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"", "is empty"),
        (b'[{"question": "a"}]', r"full.json:1 has no text in 'answer'"),
        (b'[{"question": "a\\ud800", "answer": "b"}]', "half a character"),
        (b"[3]", "neither an object nor a text"),
    ],
)
def test_broken_files(tofu_files: Path, content: bytes, message: str) -> None:
    (tofu_files / "full.json").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        built(tofu_files, questions_an_author=1)


def test_alternatives_must_be_texts(tofu_files: Path, rewrite: Callable[..., None]) -> None:
    row = {"question": "q", "answer": "a", "paraphrased_answer": "b", "perturbed_answer": "c"}
    for wrong, message in (
        ("c", "has no list of texts"),
        ([], "has no list of texts"),
        (["c", 3], "that is not text"),
    ):
        rewrite(tofu_files / "retain_perturbed.json", [{**row, "perturbed_answer": wrong}], lines=True)
        with pytest.raises(SourceError, match=message):
            built(tofu_files)


def test_from_the_hub(tofu_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloads: list[Any] = []

    def download(repository: str, **more: Any) -> str:
        downloads.append((repository, more))
        return str(tofu_files)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert len(built(Path("hub"), revision="abc").records) == 22
    assert downloads == [("locuslab/TOFU", {"repo_type": "dataset", "revision": "abc"})]

    def refuse(repository: str, **more: Any) -> str:
        raise OSError("no network\nsecond line")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(
        HubError, match=r"could not be downloaded from the hub \(no network\). Download it elsewhere"
    ):
        built(Path("hub"))
