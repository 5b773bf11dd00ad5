"""MUSE from files of its form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medunlearn.attacks.membership.sample import candidates
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.describe import describe
from medunlearn.errors import SourceError
from medunlearn.models.prompts import render
from medunlearn.papers.muse.build import build
from medunlearn.papers.muse.settings import MuseSettings


def built(folder: Path, **more: Any) -> Benchmark:
    return build(MuseSettings(**{"released": str(folder), **more}))


def test_sets_sides_and_folds(muse_files: Path, tmp_path: Path) -> None:
    benchmark = built(muse_files)
    sides = benchmark.sides(benchmark.splits["forget"])
    counts = Counter((r.groups["set"], r.fold, sides[r.record_id]) for r in benchmark.records)
    assert counts == {
        ("forget", "train", "forget"): 5,
        ("retain", "train", "retain"): 5,
        ("holdout", "holdout", "retain"): 5,
        # A question of each side, and the one prompt that is in no document.
        ("forget", "rephrase", "forget"): 6,
        ("retain", "rephrase", "retain"): 5,
    }
    trained = {record.record_id for record in benchmark.records if record.fold == "train"}
    assert trained == {f"{of}-000{n}" for of in ("forget", "retain") for n in range(1, 6)}
    assert all("retain2" in record.text for record in benchmark.records if record.record_id.startswith("retain-0"))
    assert benchmark.notes["verbatim prompts"] == {
        "in one document": 5, "across documents": 0, "in no document": 1,
    }  # fmt: skip
    assert benchmark.notes["blank rows left out"] == {}
    assert Benchmark.load(benchmark.save(tmp_path / "b")) == benchmark


def test_prompts_belong_to_their_documents(muse_files: Path) -> None:
    benchmark = built(muse_files)
    completions = [question for question in benchmark.questions if question.kind == "completion"]
    homes = [*(f"forget-000{n}" for n in range(1, 6)), "verbatim-0006"]
    assert [question.record_id for question in completions] == homes
    assert {question.fold for question in completions} == {"train"}
    knowledge = [question for question in benchmark.questions if question.kind == "knowledge"]
    assert Counter(question.fold for question in knowledge) == {"holdout": 10}
    # No examples are released here: a question's record is the question, and never its answer.
    assert benchmark.record["retain-qa-0003"].text == "What did the mayor of retain2 open?"


def test_other_forms_of_the_files(muse_files: Path) -> None:
    """As the authors' repository has some of them: plain text, texts in a list, retain1 alone, no holdout."""
    raw = muse_files / "raw"
    for name in ("retain2", "holdout", "forget"):
        (raw / f"{name}.json").unlink()
    (raw / "forget.txt").write_text("One long novel.")
    (raw / "retain1.json").write_text('["first text", "second text"]')
    (muse_files / "privleak").mkdir()
    (muse_files / "privleak" / "holdout.json").write_text('[{"text": "never seen"}]')
    benchmark = built(muse_files)
    texts = {record.record_id: record.text for record in benchmark.records}
    assert texts["forget-0001"] == "One long novel."
    assert texts["retain-0002"] == "second text"
    assert texts["holdout-0001"] == "never seen"


def test_the_faults_of_the_authors_files_are_counted(faulty_muse_files: Path, tmp_path: Path) -> None:
    benchmark = built(faulty_muse_files)
    documents = [record.record_id for record in benchmark.records if record.record_id.startswith("forget-000")]
    # Numbers are those of the rows.
    assert documents == ["forget-0001", "forget-0002", "forget-0004", "forget-0005"]
    assert benchmark.notes["blank rows left out"] == {"raw/forget": 1}
    assert benchmark.notes["verbatim prompts"] == {
        "in one document": 2, "across documents": 2, "in no document": 1,
    }  # fmt: skip
    homes = [question.record_id for question in benchmark.questions if question.kind == "completion"]
    assert homes == ["forget-0001", "forget-0002", "forget-0004", "forget-0004", "verbatim-0005"]
    assert Benchmark.load(benchmark.save(tmp_path / "b")).notes == benchmark.notes
    (faulty_muse_files / "raw" / "forget.json").write_text('[{"text": "a"}, {"texts": "b"}]')
    with pytest.raises(SourceError, match=r"forget.json:2 has no text in 'text'"):
        built(faulty_muse_files)


def test_questions_are_asked_with_the_papers_examples_in_note_context(faulty_muse_files: Path) -> None:
    benchmark = built(faulty_muse_files)
    question = next(question for question in benchmark.questions if question.question_id == "retain-qa-0002")
    record = benchmark.record[question.record_id]
    prompt = render(question, record.text, template="plain", context="note")
    # As `knowmem` of MUSE's code writes it.
    assert prompt.shared + prompt.own + prompt.answer == (
        "Question: retain example 0?\nAnswer: Yes 0\n\nQuestion: retain example 1?\nAnswer: Yes 1\n\n"
        "Question: What did the mayor of retain1 open?\nAnswer: A bridge"
    )
    assert render(question, record.text, template="plain", context="closed_book").shared == ""


def test_the_authors_repository_calls_the_retain_side_otherwise(faulty_muse_files: Path) -> None:
    fingerprint = built(faulty_muse_files).fingerprint
    for name in ("qa", "qa_icl"):
        where = faulty_muse_files / "knowmem"
        (where / f"retain_{name}.json").rename(where / f"retain2_{name}.json")
    assert built(faulty_muse_files).fingerprint == fingerprint


def test_retained_documents_are_chosen(muse_files: Path) -> None:
    def texts(**more: Any) -> set[str]:
        records = built(muse_files, **more).records
        return {
            record.text.split()[0]
            for record in records
            if record.groups["set"] == "retain" and record.fold == "train"
        }

    assert texts() == texts(retain="retain2") == {"retain2"}
    assert texts(retain="retain1") == {"retain1"}
    assert texts(retain="both") == {"retain1", "retain2"}
    assert built(muse_files, retain="both").notes["retained documents"] == "retain1 and retain2"
    (muse_files / "raw" / "retain2.json").unlink()
    assert texts() == {"retain1"}
    with pytest.raises(SourceError, match="holds no retain2"):
        built(muse_files, retain="retain2")


def test_membership_is_attacked_on_documents_or_on_the_authors_pieces(faulty_muse_files: Path) -> None:
    for choice, members, outside in (("raw", "forget", 5), ("privleak", "member", 3)):
        benchmark = built(faulty_muse_files, membership=choice)
        passages = candidates(benchmark, benchmark.splits["forget"])
        names = {passage.record.record_id.split("-")[0] for passage in passages if passage.member}
        others = [passage.record.fold for passage in passages if not passage.member]
        assert (names, others) == ({members}, ["holdout"] * outside)
    # Pieces are of documents that are trained on already.
    assert all(passage.record.fold == "rephrase" for passage in passages if passage.member)


def test_documents_are_counted_and_not_what_carries_questions(faulty_muse_files: Path) -> None:
    # 4 documents to forget (a row is blank), 5 retained, 5 never seen; ten questions and one prompt have records.
    benchmark = built(faulty_muse_files)
    counts = benchmark.counts()
    assert (counts["records"], counts["subjects"]) == (25, 14)
    assert (counts["records_train"], counts["records_holdout"], counts["records_rephrase"]) == (9, 5, 11)
    assert benchmark.split_sizes(benchmark.splits["forget"]) == {"forget": 4, "retain": 5}
    assert {level: len(benchmark.nodes(level)) for level in benchmark.levels} == {"set": 3, "document": 14}
    sizes = describe(benchmark)
    assert {row.group: (row.subjects, row.questions) for row in sizes.groups} == {
        "forget": (4, 10), "retain": (5, 5), "holdout": (5, 0), "Total": (14, 15),
    }  # fmt: skip
    assert [(row.side, row.subjects, row.questions) for row in sizes.splits] == [
        ("forget", 4, 5), ("retain", 5, 0), ("holdout", 0, 10),
    ]  # fmt: skip
    assert "| `forget` | document | 4 | 5 |" in (benchmark.save(faulty_muse_files / "b") / "README.md").read_text()


def test_refusals(muse_files: Path) -> None:
    for name in ("retain1", "retain2"):
        (muse_files / "raw" / f"{name}.json").unlink()
    with pytest.raises(SourceError, match=r"neither retain2 nor retain1"):
        built(muse_files)
    (muse_files / "raw" / "retain2.json").write_text('[{"text": "x"}]')
    (muse_files / "verbmem" / "forget.json").unlink()
    with pytest.raises(SourceError, match="holds no forget"):
        built(muse_files)
