"""``verify --subject``: the files that hold a patient, on the terminal, as JSON and as a log."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from pages import Page

import medunlearn as mu
from medunlearn.request.holders.holder_log import How
from medunlearn.request.holders.traces import Trace

Medunlearn = Callable[..., Any]
PAGE = Page.read("patient-files.md", "Find every file that holds a patient")


def test_files_that_hold_a_patient(medunlearn: Medunlearn, bench: Path, target: Path, tmp_path: Path) -> None:
    about = ("--subject", "patient=patient-0003", "--benchmark", bench)
    result = medunlearn("verify", target, bench, *about, "--out", tmp_path / "log.csv")
    lines = " ".join(result.stdout.split())
    assert "weights: trained on (1)" in lines
    assert "record (1)" in lines
    assert "0 unread." in lines
    assert "patient-0004" not in lines
    names = {i.value for record in mu.load(bench).records for i in record.identifiers if i.type == "name"}
    assert not [name for name in names if name in lines]
    log = pd.read_csv(tmp_path / "log.csv")
    weights = log[log["how"] == "trained on"]
    assert weights["path"].tolist() == [str(target / "model" / "model.safetensors")]
    payload = json.loads(medunlearn("verify", target, bench, *about, "--json").stdout)
    assert payload["complete"] is True
    assert len(payload["rows"]) == len(log)


def test_paths_are_not_broken_across_lines(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    folder = tmp_path / ("a-folder-with-a-long-name-" * 4)
    folder.mkdir()
    (folder / "copy.txt").write_text(mu.load(bench).records[0].text)
    patient = mu.load(bench).records[0].groups["patient"]
    listed = medunlearn("case", "purge", folder, "--patient", patient, "--benchmark", bench).stdout
    assert any(str(folder / "copy.txt") in line for line in listed.splitlines())
    about = ("--subject", f"patient={patient}", "--benchmark", bench)
    found = medunlearn("verify", folder, *about).stdout
    assert any(str(folder / "copy.txt") in line for line in found.splitlines())


def test_unread_files_are_listed_and_counted(medunlearn: Medunlearn, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Ana Silva\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.zip").write_bytes(b"PK\3\4 Ana Silva")
    about = ("--identifiers", tmp_path / "names.txt")
    none = "in no file that was read. Files: 0 read, 1 unread, which may hold some."
    for verb in (("verify",), ("case", "purge")):
        lines = " ".join(medunlearn(*verb, folder, *about).stdout.split())
        assert f"unread: {folder / 'notes.zip'}: its format is not read (.zip)" in lines
        assert none in lines
    (folder / "notes.txt").write_text("Ana Silva")
    lines = " ".join(medunlearn("case", "purge", folder, *about, "--yes").stdout.split())
    assert "Traces of the patient: in 1 file. Files: 1 read, 1 unread, which may hold some. 1 deleted." in lines
    assert [path.name for path in folder.iterdir()] == ["notes.zip"]
    payload = json.loads(medunlearn("case", "purge", folder, *about, "--json").stdout)
    assert payload["complete"] is False
    assert [Path(row["path"]).name for row in payload["not_looked_at"]] == ["notes.zip"]


def test_identifiers_from_a_file(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    name = next(i.value for i in mu.load(bench).records[0].identifiers if i.type == "name")
    (tmp_path / "names.txt").write_text(f"{name}\n\n", encoding="utf-8")
    payload = json.loads(medunlearn("verify", bench, "--identifiers", tmp_path / "names.txt", "--json").stdout)
    assert {Path(row["path"]).name for row in payload["rows"] if row["how"] == "identifier"} == {
        "records.parquet",
        "questions.parquet",
    }


def test_mistakes(medunlearn: Medunlearn, bench: Path, tmp_path: Path) -> None:
    wrong = medunlearn("verify", bench, "--subject", "patient=patient-0099", "--benchmark", bench, code=2).text
    assert "patient-0099" in wrong
    assert "patient-00" not in wrong.replace("patient-0099", "")
    assert "holds no run" in medunlearn("verify", bench, code=2).text
    assert "no subject is named" in medunlearn("verify", bench, "--benchmark", bench, code=2).text
    (tmp_path / "empty.txt").touch()
    about = ("--identifiers", tmp_path / "empty.txt")
    assert "has no identifier" in medunlearn("verify", bench, *about, code=2).text
    assert "There is no" in medunlearn("verify", tmp_path / "no", "--subject", "a-1", code=2).text
    words = ("--subject", "patient=patient-0001", "--benchmark", bench, "--out", tmp_path / "log.txt")
    assert "the log is written as .parquet, .csv, .json" in medunlearn("verify", bench, *words, code=2).text


def test_the_page(medunlearn: Medunlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = {"train": ["--epochs=1", "--tiny-width=32", "--tiny-layers=2"]}
    for line in PAGE.commands:
        words = shlex.split(line)[1:]
        medunlearn(*words, *small.get(words[0], []))
    kinds = set(pd.read_parquet("holders.parquet")["how"])
    assert {"record", "id", "trained on"} <= kinds
    named = set(get_args(get_args(How)[1])) | set(get_args(Trace))
    assert kinds <= named
    assert all(f"`{how}`" in PAGE.text for how in named)
