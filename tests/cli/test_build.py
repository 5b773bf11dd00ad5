"""``build`` and ``inspect``: what they make, what they refuse, and that nothing is written over."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from row_files import write_lines

from medunlearn.data.benchmark import Benchmark

Medunlearn = Callable[..., Any]


def content(folder: Path) -> dict[str, bytes]:
    # Other tests keep keywords in a folder of the benchmark.
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_amnesia(bench: Path) -> None:
    benchmark = Benchmark.load(bench)
    assert len(benchmark.records) == 20
    assert len(benchmark.questions) == 160
    assert len(benchmark.splits["random_10"].forget) == 2


def test_build_says_what_it_made(medunlearn: Medunlearn, tmp_path: Path) -> None:
    out = tmp_path / "b"
    result = medunlearn("build", "amnesia", "--synthetic", 20, "--out", out)
    assert "20 records, 20 subjects, 160 questions" in result.text
    assert result.stdout == ""
    facts = json.loads(medunlearn("build", "amnesia", "--synthetic", 20, "--out", out, "--json").stdout)
    assert facts["folder"] == str(out)
    assert facts["counts"]["records"] == 20
    assert facts["fingerprint"] == Benchmark.load(out).fingerprint


def test_the_same_command_again_changes_nothing(medunlearn: Medunlearn, bench: Path) -> None:
    before = content(bench)
    medunlearn("build", "amnesia", "--synthetic", 20, "--out", bench)
    assert content(bench) == before


def test_another_benchmark_is_not_written_over(medunlearn: Medunlearn, bench: Path) -> None:
    before = content(bench)
    result = medunlearn("build", "amnesia", "--synthetic", 20, "--seed", 1, "--out", bench, code=2)
    assert "contains another benchmark. Choose another --out" in result.text
    assert content(bench) == before


def test_a_folder_with_somebodys_files_is_left_alone(medunlearn: Medunlearn, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    result = medunlearn("build", "amnesia", "--synthetic", 20, "--out", tmp_path, code=2)
    assert "is not empty and contains no benchmark" in result.text
    assert content(tmp_path) == {"thesis.txt": b"mine"}


def test_out_that_is_a_file(medunlearn: Medunlearn, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = medunlearn("build", "amnesia", "--synthetic", 20, "--out", tmp_path / "file", code=2)
    assert "is a file, not a folder" in result.text
    assert (tmp_path / "file").read_text() == "mine"


def test_several_wrong_settings_are_told_at_once(medunlearn: Medunlearn, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "b", "note_lenght=short", "--institutions=x")
    result = medunlearn("build", "amnesia", "--synthetic", 20, *words, code=2)
    assert "2 settings are wrong" in result.text
    assert "Did you mean --note-length?" in result.text
    assert "institutions='x': must be a whole number" in result.text
    assert not (tmp_path / "b").exists()


def test_a_word_that_is_no_setting(medunlearn: Medunlearn, tmp_path: Path) -> None:
    result = medunlearn("build", "amnesia", "--synthetic", 20, "--out", tmp_path / "b", "short", code=2)
    assert "give either --synthetic N" in result.text


def test_lume(medunlearn: Medunlearn, lume: Path) -> None:
    benchmark = Benchmark.load(lume)
    assert len(benchmark.records) == 6
    assert benchmark.splits["released"].forget == ("forget0", "forget1", "forget2")


@pytest.fixture
def cut_off(lume_files: Path, tmp_path: Path) -> Path:
    """The files with the forget file cut off in its fourth line."""
    folder = tmp_path / "cut"
    shutil.copytree(lume_files, folder)
    lines = (folder / "forget.jsonl").read_text().splitlines(keepends=True)
    (folder / "forget.jsonl").write_text("".join(lines[:3]) + lines[3][:20])
    return folder


def test_a_cut_off_line_is_named(medunlearn: Medunlearn, cut_off: Path, tmp_path: Path) -> None:
    result = medunlearn("build", "lume", "--released", cut_off, "--out", tmp_path / "b", code=2)
    assert "forget.jsonl:4: no JSON" in result.text
    assert "--skip-bad-rows" in result.text
    assert not (tmp_path / "b").exists()


def test_skipped_rows_are_counted(medunlearn: Medunlearn, cut_off: Path, tmp_path: Path) -> None:
    out = tmp_path / "b"
    result = medunlearn("build", "lume", "--released", cut_off, "--out", out, "--skip-bad-rows")
    assert "1 rows were left out" in result.text
    benchmark = Benchmark.load(out)
    assert len(benchmark.records) == 5
    assert len(benchmark.notes["skipped rows"]) == 1


def test_options(medunlearn: Medunlearn, tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    rows = [{"question": f"Is it {n}?", "options": ["yes", "no"], "answer": "no"} for n in range(8)]
    write_lines(file, rows)
    result = medunlearn(
        "build", "options", file, "--out", tmp_path / "b", "--json", "--nonmembers=3", "--seed", "1"
    )
    assert json.loads(result.stdout)["counts"]["questions_train"] == 5
    assert Benchmark.load(tmp_path / "b").seed == 1
    file.write_text(file.read_text() + "{\n" + '{"question": "Q", "options": ["a"]}\n')
    result = medunlearn("build", "options", file, "--out", tmp_path / "c", code=2)
    assert "q.jsonl:9: no JSON" in result.text
    assert "skip_bad_rows=true" in result.text
    result = medunlearn("build", "options", file, "--out", tmp_path / "c", "--skip-bad-rows")
    assert "2 rows were left out" in result.text
    result = medunlearn("build", "options", tmp_path / "none.csv", "--out", tmp_path / "d", code=2)
    assert "There is no file" in result.text


def test_inspect_benchmark(medunlearn: Medunlearn, bench: Path) -> None:
    result = medunlearn("inspect", bench).stdout
    assert "AMNESIA on an invented hospital of 20 patients" in result
    assert "random_10" in result
    facts = json.loads(medunlearn("inspect", bench, "--json").stdout)
    assert facts["counts"]["questions"] == 160
    assert "random_25" in facts["splits"]


def test_inspect_tables(medunlearn: Medunlearn, bench: Path, lume: Path, target: Path) -> None:
    result = medunlearn("inspect", bench, "--tables").stdout
    assert "words (runs of letters and digits)" in result
    assert "holdout" in result
    tables = json.loads(medunlearn("inspect", bench, "--tables", "--json").stdout)["tables"]
    assert (tables["level"], tables["groups"][-1]["subjects"], tables["groups"][-1]["questions"]) == (
        "disease",
        20,
        160,
    )
    holdout = [row for row in tables["splits"] if row["side"] == "holdout"]
    assert [(row["subjects"], row["questions"]) for row in holdout] == [(20, 40)]
    other = json.loads(medunlearn("inspect", lume, "--tables", "--json").stdout)["tables"]
    assert (other["level"], other["subject"]) == ("task", "document")


def test_inspect_counts_a_models_tokens(medunlearn: Medunlearn, bench: Path, target: Path, tmp_path: Path) -> None:
    from medunlearn.models.load import load_model

    words = ("inspect", bench, "--json", "--tokenizer", target)
    tables = json.loads(medunlearn(*words).stdout)["tables"]
    tokenizer = load_model(target / "model").tokenizer
    texts = [record.text for record in Benchmark.load(bench).records]
    assert tables["groups"][-1]["longest"] == max(
        len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts
    )
    assert str(target) in tables["tokens"]
    assert "There is no tokenizer in" in medunlearn("inspect", bench, "--tokenizer", tmp_path, code=2).text
    assert "is not a benchmark" in medunlearn("inspect", target, "--tables", code=2).text


def test_inspect_run(medunlearn: Medunlearn, target: Path) -> None:
    result = medunlearn("inspect", target).stdout
    assert "complete" in result
    assert "tiny_width" in result
    assert json.loads(medunlearn("inspect", target, "--json").stdout) == json.loads(
        (target / "run.json").read_text()
    )


def test_inspect_of_neither(medunlearn: Medunlearn, tmp_path: Path) -> None:
    assert "neither a benchmark" in medunlearn("inspect", tmp_path, code=2).text


def test_every_folder_is_private(bench: Path, target: Path) -> None:
    for folder in (bench, target, target / "model"):
        assert folder.stat().st_mode & 0o077 == 0, folder
