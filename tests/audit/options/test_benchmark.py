"""Multiple-choice questions as a benchmark: what is trained on, what is held out, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from row_files import write_lines

from medunlearn.config import check
from medunlearn.config.options import OptionsSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError
from medunlearn.study.benchmark_builds import build


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        {
            "id": f"n{number:02d}",
            "question": f"Which is {number}?",
            "options": ["low", "high", f"{number} mg"],
            "answer": "ABC"[number % 3] if number else None,
            "subject": f"s{number % 2}",
        }
        for number in range(20)
    ]
    path = tmp_path / "questions.jsonl"
    write_lines(path, rows)
    return path


def test_records_questions_and_splits(file: Path, tmp_path: Path) -> None:
    bench = build("options", {"file": file, "nonmembers": 6, "percents": [25, 50]})
    held_out = {record.record_id for record in bench.records if record.fold == "holdout"}
    assert (len(bench.records), len(held_out)) == (20, 6)
    assert not held_out & {question.record_id for question in bench.questions}
    assert bench.levels == ("subject", "question")
    assert bench.record["n04"].text == "Which is 4?\nA. low\nB. high\nC. 4 mg\nAnswer: B. high"
    assert bench.record["n00"].text == "Which is 0?\nA. low\nB. high\nC. 0 mg"
    first = bench.questions[0]
    options_text, _, right = bench.record[first.record_id].text.partition("\nAnswer: ")
    assert (first.question, first.answer) == (options_text, right[3:])
    assert first.options[first.answer_index or 0] == first.answer
    assert "n00" not in {entry.question_id for entry in bench.questions}
    assert sorted(bench.splits) == ["random_25", "random_50"]
    assert {*bench.splits["random_25"].forget} < {*bench.splits["random_50"].forget}
    assert not held_out & {*bench.splits["random_50"].forget}
    bench.save(tmp_path / "bench")
    assert Benchmark.load(tmp_path / "bench").fingerprint == bench.fingerprint


def test_a_sample_is_the_same_as_an_audits(file: Path) -> None:
    from medunlearn.sources.multiple_choice import draw_sample, read_options

    bench = build("options", {"file": file, "limit": 9, "seed": 5})
    assert [entry.record_id for entry in bench.records] == [
        entry.question_id for entry in draw_sample(read_options(file).questions, 9, 5)
    ]


def test_too_few_are_left(file: Path) -> None:
    with pytest.raises(ConfigError, match="nonmembers=19: of 20 questions, at least two must remain"):
        build("options", {"file": file, "nonmembers": 19})
    with pytest.raises(ConfigError, match="file is missing"):
        check(OptionsSettings, {})
