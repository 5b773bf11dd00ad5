"""LUME built anew without a language model."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, SourceError
from medunlearn.papers.lume import identifier_asked
from medunlearn.papers.lume.invented import build, is_askable
from medunlearn.papers.lume.settings import LumeNewSettings
from medunlearn.probes.material import phase_plans
from medunlearn.study.presets import train_settings
from medunlearn.study.train import tiny_model

SMALL: dict[str, Any] = {"stories": 21, "personal_biographies": 12, "public_biographies": 10, "nonmembers": 6}
TASKS = ("story", "personal_biography", "public_biography")


def small(**more: Any) -> Benchmark:
    return build(check(LumeNewSettings, {**SMALL, **more}))


@pytest.fixture(scope="module")
def benchmark_() -> Benchmark:
    return small()


def test_counts_and_halves(benchmark_: Benchmark) -> None:
    split = benchmark_.splits["half"]
    sides = benchmark_.sides(split)
    counts = Counter((r.groups["task"], sides[r.record_id], r.fold) for r in benchmark_.records)
    assert counts == {
        ("story", "forget", "train"): 11, ("story", "retain", "train"): 10,
        ("personal_biography", "forget", "train"): 6, ("personal_biography", "retain", "train"): 6,
        ("public_biography", "forget", "train"): 5, ("public_biography", "retain", "train"): 5,
        ("public_biography", "retain", "holdout"): 6,
    }  # fmt: skip
    questions = Counter(question.record_id for question in benchmark_.questions)
    assert {record.record_id: questions[record.record_id] for record in benchmark_.records} == {
        record.record_id: 6 if record.groups["task"] == "personal_biography" else 2 for record in benchmark_.records
    }


def test_the_defaults_are_the_papers_counts() -> None:
    """Table 1: 393 + 405 + 589 documents, 4,394 examples."""
    settings = LumeNewSettings()
    stories, people, public = settings.stories, settings.personal_biographies, settings.public_biographies
    assert stories + people + public == 1387
    assert 2 * stories + 6 * people + 2 * public == 4394


@pytest.mark.parametrize("preset", ["lume-7b", "lume-1b"])
def test_target_and_retrained_model_read_what_they_share_equally_often(benchmark_: Benchmark, preset: str) -> None:
    """As many steps on half of the documents would read each of them twice as often."""
    values: dict[str, Any] = {"preset": preset, "model": "tiny", "tiny_width": 32, "tiny_layers": 1}
    readings: list[Counter[tuple[int, ...]]] = []
    for without in (None, "half"):
        settings = train_settings({**values, "without": without})
        plan = phase_plans(benchmark_, settings, tiny_model(benchmark_, settings))["finetune"]
        batches = (plan.step(number)["train"] for number in range(plan.steps))
        readings.append(Counter(sequence.ids for batch in batches for sequence in batch))
    target, retrained = readings
    assert len(retrained) < 0.6 * len(target)
    assert {ids: target[ids] for ids in retrained} == retrained
    assert min(retrained.values()) == 10


def test_questions_and_identifiers(benchmark_: Benchmark) -> None:
    outside = {record.record_id for record in benchmark_.records if record.fold == "holdout"}
    assert all((question.fold == "holdout") == (question.record_id in outside) for question in benchmark_.questions)
    fields = ["address", "birth_date", "email", "name", "phone", "ssn"]
    for record in benchmark_.records:
        types = sorted(identifier.type for identifier in record.identifiers)
        assert types == (fields if record.groups["task"] == "personal_biography" else [])
        assert all(identifier.value in record.text for identifier in record.identifiers)
    counts = Counter(identifier_asked(question.provenance) for question in benchmark_.questions)
    expected = dict.fromkeys(("birth_date", "ssn", "phone", "email", "address"), 12)
    assert counts == {None: len(benchmark_.questions) - 60, **expected}
    knowledge = [question.question for question in benchmark_.questions if question.kind == "knowledge"]
    assert len(set(knowledge)) == len(knowledge), "no question stands twice"


def test_the_seed_decides_all(benchmark_: Benchmark, tmp_path: Path) -> None:
    assert small().fingerprint == benchmark_.fingerprint
    other = small(seed=1)
    assert not {record.text for record in other.records} & {record.text for record in benchmark_.records}
    assert Benchmark.load(benchmark_.save(tmp_path)) == benchmark_


def test_completions_at_words() -> None:
    words = small(completion="word")
    assert {q.provenance for q in words.questions if q.kind == "completion"} == {"code:word"}
    mid = [q for q in words.questions if q.kind == "completion" and q.question[-1] not in ".!?"]
    assert len(mid) > len(words.records) / 2


@pytest.fixture
def articles(tmp_path: Path) -> Path:
    """Thirty articles of 160 words, one of 20, one with the text of another."""
    path = tmp_path / "articles.csv"
    rows = [
        (f"Person {n}", " ".join(f"Fact {n} of part {k} is number {n * k}." for k in range(20))) for n in range(30)
    ]
    rows += [("Short", "Too short. " * 8), ("Person 0 again", rows[0][1])]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("title", "text"), *rows])
    return path


def test_articles_become_public_biographies(articles: Path) -> None:
    benchmark = small(articles=articles)
    public = [record for record in benchmark.records if record.groups["task"] == "public_biography"]
    assert len(public) == 16
    for record in public:
        assert 100 <= len(record.text.split()) <= 200
        assert record.text.endswith(".")
        assert record.text.startswith("Person ")
    assert "invented" not in benchmark.notes, "a report may not show text of real people unasked"
    # Nobody wrote questions on them: that takes a language model.
    subjects = {question.record_id for question in benchmark.questions if question.kind == "knowledge"}
    assert not subjects & {record.record_id for record in public}


def test_a_near_duplicate_is_left_out_and_listed(articles: Path) -> None:
    (line,) = small(articles=articles, public_biographies=28, nonmembers=2).notes["near-duplicates left out"]
    assert "is like article-" in line
    with pytest.raises(InputError, match="gives 30 usable articles, and 31 are needed"):
        small(articles=articles, public_biographies=28, nonmembers=3)


def test_a_strict_threshold_runs_out_of_texts() -> None:
    with pytest.raises(InputError, match=r"alike=0.05 leaves \d+ of 21 documents of story"):
        small(alike=0.05)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("title,text\nA,short.\n", "holds no article that can be cut to 100 to 200 words"),
        ("name,text\nA,b\n", "There is no column 'title'"),
    ],
)
def test_articles_that_cannot_be_used(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises((SourceError, ConfigError), match=message):
        small(articles=tmp_path / "a.csv")


def test_what_can_be_asked() -> None:
    def ok(question: str, answer: str, before: set[str] | None = None) -> bool:
        return is_askable("Ada found a red owl in Isk.", question, answer, before or set())

    assert ok("What did Ada find?", "Red Owl")
    assert not ok("What did Ada find?", "red ow"), "no part of a word"
    assert not ok("What did Ada find?", "ed owl"), "no part of a word"
    assert not ok("Who found a red owl?", "red owl")
    assert not ok("What did Ada find?", "blue owl")
    assert not ok("Say what Ada found.", "red owl")
    assert not ok("What did Ada find?", "red owl", {"what did ada find?"})


def test_a_server_needs_a_folder() -> None:
    with pytest.raises(ConfigError, match="out=FOLDER"):
        small(llm={"base_url": "http://127.0.0.1:1/v1", "model": "m"})
