"""Cases to judge, from benchmarks and tables, and samples of them; judges from YAML."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from row_files import write_lines

from medunlearn.config import JudgeSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, SourceError, UnknownNameError
from medunlearn.judging.cases import (
    case_table,
    categories_of,
    label_cases,
    question_cases,
    read_cases,
    sample_evenly,
    sample_per_group,
    sample_per_subject,
    to_cases,
)
from medunlearn.judging.judges import panel_of, read_judges
from medunlearn.judging.panel_run import gather_material
from medunlearn.judging.tasks import JudgingCase, get_task
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings

BENCHMARK = build(AmnesiaSettings(synthetic=12))
LABEL, QUESTION = get_task("label"), get_task("question")


def test_labels_are_judged_by_titles_that_name_nobody() -> None:
    labels, record = label_cases(BENCHMARK), BENCHMARK.records[0]
    assert len(labels) == 12
    assert set(labels[0].fields) == {"title", "category"}
    assert labels[0].fields["category"] == record.groups["disease"]
    assert labels[0].identifiers == tuple(identifier.value for identifier in record.identifiers) != ()
    titles = "".join(case.fields["title"] for case in labels)
    assert not any(i.value in titles for record in BENCHMARK.records for i in record.identifiers)
    with pytest.raises(InputError, match="have no titles"):
        label_cases(replace(BENCHMARK, titles={}))


def test_titles_are_saved_and_are_no_part_of_the_benchmarks_identity(tmp_path: Path) -> None:
    BENCHMARK.save(tmp_path)
    loaded = Benchmark.load(tmp_path)
    assert loaded.titles == BENCHMARK.titles != {}
    assert loaded.fingerprint == BENCHMARK.fingerprint == replace(BENCHMARK, titles={}).fingerprint


def test_questions_come_from_the_training_pool() -> None:
    questions, record = question_cases(BENCHMARK), BENCHMARK.records[0]
    assert Counter(case.group for case in questions) == {"factual": 36, "reasoning": 36}
    assert questions[0].fields["note"] == record.text
    assert questions[0].subject == BENCHMARK.subject(record.record_id)
    held_out = {q.question_id for q in BENCHMARK.questions if q.fold == "holdout"}
    assert not held_out & {case.case_id for case in questions}
    assert {case.case_id for case in question_cases(BENCHMARK, folds=["holdout"])} == held_out
    with pytest.raises(InputError, match="fold rephrase; it has holdout, train"):
        question_cases(BENCHMARK, ["rephrase"])


def test_a_sample_is_drawn_from_what_splits_forget() -> None:
    benchmark = build(AmnesiaSettings(synthetic=60, percents=(5, 10)))
    names = [name for name in benchmark.splits if name.endswith("_05") and not name.startswith("random")]
    assert len(names) == 3
    patients = {patient for name in names for patient in benchmark.splits[name].forget}
    for task in ("label", "question"):
        material = gather_material(benchmark, task, JudgeSettings(splits=tuple(names)))
        assert {case.subject for case in material.cases} == patients
        # The guard looks at their records, and at no others.
        assert {benchmark.subject(record.record_id) for record in material.records} == patients
    assert {
        case.fields["category"] for case in gather_material(benchmark, "label", JudgeSettings(splits=names)).cases
    } == {benchmark.record[f"{patient}-note"].groups["disease"] for patient in patients}
    with pytest.raises(UnknownNameError, match="random_05"):
        gather_material(benchmark, "label", JudgeSettings(splits=("random_5",)))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_cases_of_a_table(tmp_path: Path, suffix: str) -> None:
    rows = [
        {"case_id": "007", "title": "NA", "category": "Cancer", "more": "x"},
        {"case_id": "8", "title": 'An "odd", title', "category": "Oral", "more": "y"},
    ]
    path = tmp_path / f"t{suffix}"
    if suffix == ".jsonl":
        write_lines(path, rows)
    else:
        table = pd.DataFrame(rows)
        table.to_parquet(path) if suffix == ".parquet" else table.to_csv(path, index=False)
    from_table = read_cases(path, LABEL)
    assert [(case.case_id, case.subject, case.group) for case in from_table] == [
        ("007", "007", "Cancer"),
        ("8", "8", "Oral"),
    ]
    assert from_table[0].fields == {"title": "NA", "category": "Cancer"}
    assert from_table[0].identifiers is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("case_id,title\n1,a\n", "lacks the column category"),
        ("case_id,title,category\n1,,Cancer\n", "row 1 has no title"),
        ("case_id,title,category\n1,a,Cancer\n1,b,Cancer\n", "case_id '1' occurs more than once"),
        ("case_id,title,category,subject\n1,a,Cancer,s\n2,b,Cancer,\n", "row 2 has no subject"),
        ("case_id,title,category,group\n1,a,Cancer,\n2,b,Cancer,g\n", "row 1 has no group"),
        ("case_id,title,category,group\n1,a,Cancer,all\n2,b,Cancer,g\n", "a group is called 'all'"),
        ("case_id,title,category\n", "contains nothing to judge"),
        ("", "is empty"),
    ],
)
def test_a_bad_table_is_refused(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(SourceError, match=part):
        read_cases(path, LABEL)


def test_tables_that_are_not_there_or_no_tables(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not")
    for name, part in (("t.csv", "There is no file"), ("t.ods", "read from"), ("bad.parquet", "cannot be read")):
        with pytest.raises(SourceError, match=part):
            read_cases(tmp_path / name, LABEL)


def test_cases_come_back_and_an_empty_response_is_a_response(cases: list[JudgingCase], tmp_path: Path) -> None:
    assert to_cases(case_table(cases), LABEL) == [replace(case, identifiers=None) for case in cases]
    (tmp_path / "t.csv").write_text("case_id,question,reference,response\n1,q,r,\n")
    assert read_cases(tmp_path / "t.csv", get_task("factuality"))[0].fields["response"] == ""
    rated = {"case_id": "1", "question": "q", "reference": "r", "response": ""}
    for missing in ({"response": None}, {}):
        row = {key: rated[key] for key in ("question", "reference")}
        write_lines(tmp_path / "t.jsonl", [rated, {"case_id": "2", **row, **missing}])
        with pytest.raises(SourceError, match="row 2 has no response"):
            read_cases(tmp_path / "t.jsonl", get_task("factuality"))


def test_categories(cases: list[JudgingCase]) -> None:
    assert categories_of(cases, LABEL) == ("Cancer", "Cardiovascular")
    assert categories_of(cases, QUESTION) == ()
    with pytest.raises(SourceError, match="Rename it"):
        categories_of([JudgingCase("a", "a", "a", {"title": "x", "category": "Unclear"})], LABEL)


def test_so_many_of_each_group() -> None:
    everything = question_cases(BENCHMARK)
    sample = sample_per_group(everything, 5, 0)
    assert Counter(case.group for case in sample) == {"factual": 5, "reasoning": 5}
    assert sample == sample_per_group(everything[::-1], 5, 0)[::-1]
    assert sample != sample_per_group(everything, 5, 1)
    assert sample_per_group(everything, 1000, 0) == everything


def test_one_of_each_group_from_so_many_subjects() -> None:
    """AMNESIA, Appendix G: a factual and a reasoning question from each of 500 patients."""
    sample = sample_per_subject(question_cases(BENCHMARK), 5, 0)
    assert Counter((case.subject, case.group) for case in sample).most_common(1)[0][1] == 1
    assert len(sample) == 10
    assert len({case.subject for case in sample}) == 5
    lone = JudgingCase("x", "lone", "factual", {})
    assert lone not in sample_per_subject([lone, *question_cases(BENCHMARK)], 12, 0)


def test_spread_over_groups() -> None:
    few = [JudgingCase(f"a{n}", "s", "a", {}) for n in range(2)] + [
        JudgingCase(f"b{n}", "s", "b", {}) for n in range(9)
    ]
    sample = sample_evenly(few, 7, 0)
    assert Counter(case.group for case in sample) == {"a": 2, "b": 5}
    assert sample == sample_evenly(few[::-1], 7, 0) != sample_evenly(few, 7, 1)
    with pytest.raises(InputError, match="12 cases cannot be drawn from 11"):
        sample_evenly(few, 12, 0)


HERE = {"base_url": "http://127.0.0.1:1/v1"}


def test_judges_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "judges.yaml"
    path.write_text(
        "judges:\n"
        "  - {name: medical, base_url: 'http://127.0.0.1:1/v1', model: org/a}\n"
        "  - {base_url: 'http://127.0.0.1:2/v1', model: b, extra: {thinking: false}}\n"
    )
    first, second = read_judges(path, {"concurrency": 3})
    assert (first.name, first.settings.model, second.name) == ("medical", "org/a", "b")
    assert {first.settings.concurrency, second.settings.concurrency} == {3}
    assert first.identity != second.identity
    assert (
        len(panel_of([{**HERE, "model": "a"}, {**HERE, "model": "a", "name": "b", "extra": {"think": True}}])) == 2
    )


@pytest.mark.parametrize(
    ("entries", "part"),
    [
        ([{**HERE}], "judge 1: model is missing"),
        ([{**HERE, "model": "a", "concurency": 3}], "judge 1: There is no setting 'concurency'. Did you mean"),
        ([{**HERE, "model": "a"}, {**HERE, "model": "b", "name": "a"}], "2 judges are called 'a'"),
        ([{**HERE, "model": "a"}, {**HERE, "model": "a", "name": "b"}], "model 'a' is there 2 times"),
        ([{**HERE, "model": "panel"}], "cannot be called 'panel'"),
        (["a"], "judge 1: write keys and values"),
    ],
)
def test_wrong_judges(entries: list[object], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        panel_of(entries)


@pytest.mark.parametrize("text", ["judges: []", "judges: 3", "other: 1", "judges:\n- {model: a}\nmore: 1"])
def test_a_file_without_judges(tmp_path: Path, text: str) -> None:
    path = tmp_path / "judges.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="must hold `judges:`"):
        read_judges(path)
