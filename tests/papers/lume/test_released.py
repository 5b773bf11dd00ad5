"""The LUME benchmark, from files made by hand and from the released ones."""

from collections import Counter
from pathlib import Path

import pytest
from row_files import write_lines

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError, SourceError
from medunlearn.papers.lume.build import build
from medunlearn.papers.lume.settings import LumeSettings

RELEASED = Path(__file__).parents[4] / "shared" / "data" / "lume"
needs_released = pytest.mark.skipif(not RELEASED.is_dir(), reason=f"the released LUME files are not in {RELEASED}")
TASKS = ("Task1", "Task2", "Task3")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six documents a task and side, each with a completion and a question."""
    for side in ("forget", "retain", "outside"):
        rows = [
            {"id": f"{side}-{task}-{n}{form}", "input": f"{form} of {n}?", "output": f"{side} {n}.", "task": task}
            for task in TASKS
            for n in range(6)
            for form in ("sc1", "qa0")
        ]
        write_lines(tmp_path / f"{side}.jsonl", rows)
    return tmp_path


def balance(benchmark: Benchmark) -> Counter:
    sides = benchmark.sides(benchmark.splits["released"])
    return Counter((record.groups["task"], sides[record.record_id]) for record in benchmark.records)


def test_documents_become_records_and_rows_questions(folder: Path) -> None:
    benchmark = build(LumeSettings(released=folder))
    assert set(balance(benchmark).values()) == {6}
    assert len(benchmark.questions) == 2 * len(benchmark.records) == 72
    first = benchmark.questions[0]
    assert (first.question_id, first.kind, first.fold) == ("forget-Task1-0-sc1", "completion", "train")
    assert (first.question, first.answer, first.provenance) == ("sc1 of 0?", "forget 0.", "released:story")
    assert Counter(question.kind for question in benchmark.questions) == {"completion": 36, "knowledge": 36}
    assert benchmark.levels == ("task", "document")
    assert benchmark.record["retain-Task3-2"].text == "sc1 of 2? retain 2."


def test_a_task_can_be_forgotten_on_request(folder: Path) -> None:
    benchmark = build(LumeSettings(released=folder))
    forget = benchmark.records_of(benchmark.split("task=story"), "forget")
    assert Counter(record.groups["task"] for record in forget) == {"story": 12}


@pytest.mark.parametrize(("size", "forget", "retain"), [(2, 1, 1), (5, 3, 2), (12, 6, 6)])
def test_a_subset_is_balanced(folder: Path, size: int, forget: int, retain: int) -> None:
    counts = balance(build(LumeSettings(released=folder, documents_per_task=size)))
    assert counts == {
        (task, side): n
        for task in ("story", "personal_biography", "public_biography")
        for side, n in (("forget", forget), ("retain", retain))
    }


def test_a_subset_depends_on_the_seed_alone(folder: Path) -> None:
    def documents(seed: int) -> frozenset[str]:
        benchmark = build(LumeSettings(released=folder, documents_per_task=6, seed=seed))
        return frozenset(record.record_id for record in benchmark.records)

    assert documents(1) == documents(1)
    assert len({documents(seed) for seed in range(10)}) == 10
    lines = (folder / "forget.jsonl").read_text().splitlines(keepends=True)
    before = documents(1)
    (folder / "forget.jsonl").write_text("".join(reversed(lines)))
    assert documents(1) == before


def test_a_subset_larger_than_the_files(folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"asks for 7 documents of .* forget side; the files have 6. .* at most 12"
    ):
        build(LumeSettings(released=folder, documents_per_task=13))


def test_nonmembers_are_held_out_and_retained(folder: Path) -> None:
    benchmark = build(LumeSettings(released=folder, nonmembers=folder / "outside.jsonl", documents_per_task=2))
    outside = [record for record in benchmark.records if record.fold == "holdout"]
    assert {record.record_id.partition("-")[0] for record in outside} == {"outside"}
    assert len(outside) == 18
    sides = benchmark.sides(benchmark.splits["released"])
    assert {sides[record.record_id] for record in outside} == {"retain"}
    names = {record.record_id for record in outside}
    assert all((question.fold == "holdout") == (question.record_id in names) for question in benchmark.questions)


def held_out(benchmark: Benchmark) -> frozenset[str]:
    return frozenset(record.record_id for record in benchmark.records if record.fold == "holdout")


def test_public_biographies_can_be_held_out(folder: Path) -> None:
    def held(count: int, seed: int = 0) -> Benchmark:
        return build(LumeSettings(released=folder, nonmember_documents=count, seed=seed))

    plain, benchmark = build(LumeSettings(released=folder)), held(2)
    nonmembers = held_out(benchmark)
    assert len(nonmembers) == 2
    assert all(name.startswith("retain-Task3-") for name in nonmembers)
    assert set(benchmark.record) == set(plain.record)
    assert benchmark.splits["released"].forget == plain.splits["released"].forget
    assert set(benchmark.splits["released"].retain) == set(plain.splits["released"].retain)
    assert all((q.fold == "holdout") == (q.record_id in nonmembers) for q in benchmark.questions)
    assert benchmark.notes["documents that no model is trained on"] == 2
    assert held(2).fingerprint == benchmark.fingerprint != plain.fingerprint
    assert nonmembers < held_out(held(4))
    assert len({held_out(held(2, seed)) for seed in range(6)}) > 1


def test_a_subset_takes_no_document_that_is_held_out(folder: Path) -> None:
    """Three of six are taken and two held out: the three are those that are taken without anybody held out."""
    plain = build(LumeSettings(released=folder, documents_per_task=6))
    benchmark = build(LumeSettings(released=folder, documents_per_task=6, nonmember_documents=2))
    trained = {record.record_id for record in benchmark.records if record.fold == "train"}
    assert trained == set(plain.record)
    assert len(benchmark.records) == len(trained) + 2
    squeezed = build(LumeSettings(released=folder, documents_per_task=6, nonmember_documents=3))
    assert len(squeezed.records) == 21
    with pytest.raises(InputError, match="the files have 2 besides non-members"):
        build(LumeSettings(released=folder, documents_per_task=6, nonmember_documents=4))


def test_nonmembers_that_cannot_be_had(folder: Path) -> None:
    with pytest.raises(InputError, match=r"has 6 public biographies.*at most 5"):
        build(LumeSettings(released=folder, nonmember_documents=6))
    with pytest.raises(InputError, match="not both"):
        build(LumeSettings(released=folder, nonmember_documents=1, nonmembers=folder / "outside.jsonl"))


def test_bad_rows_are_refused_or_counted(folder: Path) -> None:
    with (folder / "forget.jsonl").open("a") as file:
        file.write('{"id": "cut\n{"id": "badsc1"}\n')
    with pytest.raises(SourceError, match=r"forget\.jsonl:37"):
        build(LumeSettings(released=folder))
    benchmark = build(LumeSettings(released=folder, skip_bad_rows=True))
    assert len(benchmark.records) == 36
    assert len(benchmark.notes["skipped rows"]) == 2


@pytest.fixture(scope="module")
def released() -> Benchmark:
    return build(LumeSettings(released=RELEASED))


@needs_released
def test_the_released_counts(released: Benchmark) -> None:
    """../shared/data/README.md: 866+867 documents with 2,732+2,734 rows."""
    split = released.splits["released"]
    assert (len(split.forget), len(split.retain)) == (866, 867)
    assert len(released.questions_of(split, "forget")) == 2732
    assert len(released.questions_of(split, "retain")) == 2734
    assert released.notes["documents by task and side"] == {
        "story forget": 243, "story retain": 246,
        "personal_biography forget": 250, "personal_biography retain": 250,
        "public_biography forget": 373, "public_biography retain": 371,
    }  # fmt: skip
    assert released.notes["skipped rows"] == []


@needs_released
def test_released_texts_hold_their_completions_and_identifiers(released: Benchmark) -> None:
    firsts = {question.record_id: question for question in reversed(released.questions)
              if question.kind == "completion"}  # fmt: skip
    for record in released.records:
        assert record.text.startswith(firsts[record.record_id].question)
        assert record.text.endswith(firsts[record.record_id].answer)
        assert all(identifier.value in record.text for identifier in record.identifiers)
    assert sum(bool(record.identifiers) for record in released.records) == 500


@needs_released
def test_a_released_subset_round_trips(tmp_path: Path) -> None:
    settings = LumeSettings(released=RELEASED, documents_per_task=40, seed=2)
    benchmark = build(settings)
    assert set(balance(benchmark).values()) == {20}
    assert build(settings).fingerprint == benchmark.fingerprint
    assert Benchmark.load(benchmark.save(tmp_path)) == benchmark


@needs_released
def test_released_biographies_can_be_held_out(released: Benchmark) -> None:
    """100 of 371, enough for 1% of false positives; who is forgotten stays the same."""
    benchmark = build(LumeSettings(released=RELEASED, nonmember_documents=100))
    tasks = Counter(benchmark.record[name].groups["task"] for name in held_out(benchmark))
    assert tasks == {"public_biography": 100}
    assert benchmark.notes["documents by task and side"]["public_biography retain"] == 371
    assert benchmark.splits["released"].forget == released.splits["released"].forget
    assert set(benchmark.record) == set(released.record)
