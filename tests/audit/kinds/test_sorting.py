"""Agreement of ways of sorting against scikit-learn's kappa; the sheet goes out blind and comes back checked."""

from __future__ import annotations

import csv
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from medunlearn.audit.kinds import kinds
from medunlearn.audit.kinds.kind_summary import agreement
from medunlearn.audit.kinds.memorized_spans import collect_spans
from medunlearn.audit.kinds.sorting import kind_sheet, read_spans, span_sheet
from medunlearn.config.audit import KindSettings
from medunlearn.errors import InputError, SourceError

RULES = ["drug", "drug", "editorial", "guidance", "research", "patient_information", None, "drug"]
PERSON = ["drug", "guidance", "editorial", "guidance", "editorial", "patient_information", "drug", "drug"]
IDS = ["-r2/greedy/0/0", "r1/greedy/0/0"]


def test_agreement_on_kinds_and_groups() -> None:
    table = agreement({"rules": RULES, "person": PERSON}, [f"s{n}" for n in range(8)], replicates=50)
    value = table.set_index(["of", "measure"])["value"]
    both = [pair for pair in zip(RULES, PERSON, strict=True) if pair[0] is not None]
    assert value["kind", "agreement"] == pytest.approx(5 / 7)
    assert value["kind", "cohen_kappa"] == pytest.approx(cohen_kappa_score(*zip(*both, strict=True)))
    assert value["group", "agreement"] == pytest.approx(6 / 7)
    groups = [[kinds()[kind].group for kind in side] for side in zip(*both, strict=True)]
    assert value["group", "cohen_kappa"] == pytest.approx(cohen_kappa_score(*groups))
    assert (table["n"] == 7).all()
    table = agreement({"rules": ["drug", None], "judge": [None, "drug"]}, ["a", "b"], replicates=5)
    assert table["value"].isna().all()
    assert set(table["reason"]) == {"no span has a kind from both"}


def test_what_a_detector_found_identifies_in_clinical_corpora_alone() -> None:
    """``aged 80`` in a paper's abstract is nobody's; the name that a note declares is its patient's."""
    columns = ["probe_id", "variant", "sample", "length", "in_response", "in_suffix", "text"]
    texts = [
        ("paper", "patients aged 80 at Johns Hopkins"),
        ("note", "he is aged 80"),
        ("declared", "Ada Vane came"),
    ]
    spans = pd.DataFrame([(name, "greedy", 0, 60, 0, 0, text) for name, text in texts], columns=columns)
    probes = pd.DataFrame({"probe_id": [name for name, _ in texts], "corpus": ["pubmed", "notes", "pubmed"]})
    findings = pd.DataFrame(
        {
            "probe_id": ["paper", "note", "declared"],
            "variant": "greedy",
            "sample": 0,
            "value": ["aged 80", "aged 80", "Ada Vane"],
            "match": ["detected", "detected", "exact"],
            "in_record": True,
            "in_prefix": False,
        }
    )
    audit: Any = SimpleNamespace(spans=spans, probes=probes, findings=findings)
    for clinical, identified in ((("notes",), ["declared", "note"]), ((), ["declared"])):
        collected = collect_spans(audit, KindSettings(clinical=clinical))
        assert collected[collected["identified"]]["probe_id"].tolist() == identified


@pytest.mark.parametrize(
    ("rules", "judge"),
    [(["drug"] * 6, ["drug"] * 6), (["drug", None] * 3, [None, "drug"] * 3), (["drug"], ["guidance"])],
)
def test_agreement_that_is_not_measurable_is_none_with_a_reason(rules: list[Any], judge: list[Any]) -> None:
    table = agreement({"rules": rules, "judge": judge}, [f"s{n}" for n in range(len(rules))], replicates=20)
    missing = table[table["value"].isna()]
    assert len(missing) > 0
    assert missing["reason"].map(bool).all()
    assert "nan" not in table.to_string().lower()


def filled(path: Path, labels: dict[str, str], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([("span_id", "kind"), *labels.items()])
    return path


def test_a_sheet_goes_out_and_comes_back(tmp_path: Path) -> None:
    columns = ["probe_id", "variant", "sample", "length", "in_response", "in_suffix", "text"]
    rows = [("r1", "greedy", 0, 60, 0, 0, "=SUM(A1) of\nsome words"), ("-r2", "greedy", 0, 50, 0, 0, "more words")]
    spans = pd.DataFrame([*rows, ("r3", "greedy", 0, 49, 0, 0, "too short")], columns=columns)
    probes = pd.DataFrame({"probe_id": ["r1", "-r2", "r3"], "corpus": "notes"})
    audit: Any = SimpleNamespace(folder=tmp_path, spans=spans, probes=probes, findings=None)
    path = tmp_path / "sheet.csv"
    assert span_sheet(audit, KindSettings(), path) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    sheet = {row["span"]: row for row in csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines())}
    assert set(sheet) == {"'=SUM(A1) of some words", "more words"}
    assert {row["kind"] for row in sheet.values()} == {""}
    # A spreadsheet takes a leading minus for a formula, so the id went out guarded and comes back so.
    ids = [row["span_id"] for _, row in sorted(sheet.items(), reverse=True)]
    assert ids == ["'-r2/greedy/0/0", "r1/greedy/0/0"]
    back = filled(tmp_path / "back.csv", dict(zip(ids, ("unclear", "Drug"), strict=True)), ";")
    table = read_spans(audit, KindSettings(), back)
    assert table[["probe_id", "kind", "group", "by", "reason"]].fillna("").to_numpy().tolist() == [
        ["-r2", "", "", "person", "the person finds that no kind fits"],
        ["r1", "drug", "beneficial", "person", ""],
    ]
    with pytest.raises(InputError, match="exists, and it may contain"):
        span_sheet(audit, KindSettings(), path)


def test_sheets_that_overlap_must_agree(tmp_path: Path) -> None:
    first = filled(tmp_path / "one.csv", {IDS[0]: "drug", IDS[1]: ""})
    second = filled(tmp_path / "two.csv", {IDS[0]: " DRUG ", IDS[1]: "unclear"})
    assert kind_sheet().read([first, second], IDS) == {IDS[0]: "drug", IDS[1]: "unclear"}
    third = filled(tmp_path / "three.csv", {IDS[0]: "editorial"})
    with pytest.raises(SourceError, match=r"three\.csv: line 2: span_id '-r2/greedy/0/0' has another kind already"):
        kind_sheet().read([first, second, third], IDS)


def test_mistakes_in_a_sheet(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.csv", {IDS[0]: "drugs", "nobody": "drug"})
    with pytest.raises(SourceError, match=r"line 2: .*'drugs'.*'drug'.*line 3: span_id 'nobody'"):
        kind_sheet().read([path], IDS)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match="lacks the column span_id, kind"):
        kind_sheet().read([path], [])
    with pytest.raises(SourceError, match="no file"):
        kind_sheet().read([tmp_path / "none.csv"], [])
