"""The model card of an exported model: its requests, and nobody's name; the ledger goes along."""

from __future__ import annotations

import shutil
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest
from case_evidence import PATIENT, SECRET
from click.testing import CliRunner

from medunlearn.cli.main import app
from medunlearn.models.folders import model_identity
from medunlearn.models.tiny import build_tiny
from medunlearn.reports.formatting import ABSENT
from medunlearn.request.case.card_section import deletion_section, describe_requests
from medunlearn.request.case.ledger import (
    CARRIED,
    LEDGER,
    LedgerEntry,
    RequestLedger,
    append_request,
    carry_ledger,
    read_ledger,
)
from medunlearn.results.record import RunRecord

CASES = ("ab" * 32, "cd" * 32)


def entry(verdict: str = "no residual found", case: str = CASES[0], **changes: str) -> LedgerEntry:
    facts = {"received": "2026-03-02", "closed": "2026-03-09", "model_in": "in", "model_out": "out", **changes}
    return LedgerEntry((PATIENT,), verdict=verdict, case_sha256=case, secret=SECRET.secret_id, **facts)


def run(name: str, folder: Path) -> Path:
    """A run whose model is as large as a stamp."""
    model = build_tiny([name * 9, "a b c d"], vocabulary=300, width=16, layers=1, seed=len(name))
    model.save(folder / name / "model")
    RunRecord("train", name, "key", "complete", results={"steps": 1}, data_use="open").write(folder / name)
    return folder / name


def export(source: Path, out: Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["export", str(source), "--out", str(out)])
    assert result.exit_code == code, result.output
    return " ".join((result.stdout + result.stderr).split())


@pytest.fixture
def forgotten(tmp_path: Path) -> Path:
    """A run that went through two requests."""
    runs = [run(name, tmp_path) for name in ("a", "bb", "ccc")]
    for (before, after), verdict, case in zip(pairwise(runs), ("inconclusive", "deleted"), CASES, strict=True):
        models = {"model_in": model_identity(str(before)), "model_out": model_identity(str(after))}
        append_request(before, after, entry(verdict, case, **models))
    return runs[-1]


def test_the_section_has_dates_verdicts_and_cases_and_no_patient() -> None:
    assert deletion_section(RequestLedger()) == ""
    ledger = RequestLedger().extended(entry()).extended(entry("residual found", CASES[1], closed="2026-05-01"))
    section = deletion_section(ledger)
    assert section.startswith("## Deletion requests\n\n2 deletion requests")
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [
        f"| 1 | 2026-03-02 | 2026-03-09 | no residual found | `{CASES[0]}` |",
        f"| 2 | 2026-03-02 | 2026-05-01 | residual found | `{CASES[1]}` |",
    ]
    assert PATIENT not in section
    assert SECRET.secret_id not in section
    assert "was made from" not in section


def test_a_model_that_was_made_since_is_said_not_to_be_tested() -> None:
    carried = LedgerEntry((), "2026-06-01", "2026-06-01", CARRIED, "ef" * 32, "out", "new", SECRET.secret_id)
    section = deletion_section(RequestLedger().extended(entry()).extended(carried))
    assert "1 deletion request by" in section
    assert "On 2026-06-01 this model was made from that of the last request" in section
    assert "ef" * 32 not in section
    assert deletion_section(RequestLedger().extended(carried)) == ""


def test_what_is_no_date_verdict_or_hash_is_not_shown() -> None:
    wrong = {"received": "Ada Lovelace", "closed": "| Ada |"}
    section = deletion_section(RequestLedger().extended(entry("Ada\n# Ada", "Ada", **wrong)))
    assert "Ada" not in section
    assert f"| 1 |{f' {ABSENT} |' * 4}" in section


def test_an_export_takes_the_ledger_along(forgotten: Path, tmp_path: Path) -> None:
    out, plain = tmp_path / "hf", tmp_path / "plain"
    export(tmp_path / "a", plain)  # the model before, which went through no request
    assert not (plain / LEDGER).exists()
    assert "Deletion requests" not in (plain / "README.md").read_text()
    export(forgotten, out)
    ledger, before = read_ledger(out), read_ledger(forgotten)
    assert ledger.model == model_identity(str(out))
    assert ledger.rows[: len(before.rows)] == before.rows
    assert ledger.requests == before.requests
    card = (out / "README.md").read_text()
    assert deletion_section(ledger).strip() in card
    assert "Data use" in card
    assert oct((out / LEDGER).stat().st_mode)[-3:] == "600"
    # Given again nothing changes; a card that somebody wrote anew gets its section back.
    export(forgotten, out)
    assert (out / "README.md").read_text() == card
    assert read_ledger(out) == ledger
    (out / "README.md").write_text("# Ours\n\n## Deletion requests\n\nNone.\n\n## Licence\n\nNone.\n")
    export(forgotten, out)
    card = (out / "README.md").read_text()
    assert card.count("## Deletion requests") == 1
    assert card.startswith("# Ours\n\n## Licence\n\nNone.\n\n## Deletion requests")
    # An exported folder can be exported, too.
    export(out, tmp_path / "further")
    assert read_ledger(tmp_path / "further").requests == before.requests


def test_a_card_gets_the_section_of_the_ledger_beside_it(forgotten: Path, tmp_path: Path) -> None:
    describe_requests(forgotten)
    assert not (forgotten / "README.md").exists()
    export(forgotten, tmp_path / "hf")
    (tmp_path / "hf" / "README.md").write_text("# Ours\n")
    describe_requests(tmp_path / "hf")
    section = deletion_section(read_ledger(tmp_path / "hf"))
    assert (tmp_path / "hf" / "README.md").read_text() == f"# Ours\n\n{section}"


def test_the_same_files_take_the_rows_over_as_they_are(forgotten: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(forgotten / "model", copy / "model")
    RunRecord("train", "copy", "key", "complete", results={}).write(copy)
    for _ in range(2):
        assert carry_ledger(forgotten, copy, on=date(2026, 6, 1)) == read_ledger(forgotten)
    assert read_ledger(copy) == read_ledger(forgotten)
    changed = tmp_path / "changed"
    shutil.copytree(forgotten / "model", changed)
    (changed / "generation_config.json").write_text("{}")
    ledger = carry_ledger(forgotten, changed, on=date(2026, 6, 1))
    assert [row.entry.verdict for row in ledger.rows] == ["inconclusive", "deleted", CARRIED]
    assert read_ledger(changed) == ledger


def test_a_ledger_of_another_model_stops_the_export(forgotten: Path, tmp_path: Path) -> None:
    other = run("dddd", tmp_path)
    shutil.copy(forgotten / LEDGER, other / LEDGER)
    assert "ledger of another model" in export(other, tmp_path / "hf", code=2)
    (forgotten / LEDGER).unlink()
    assert "was truncated or replaced" in export(forgotten, tmp_path / "hf", code=2)
    assert not (tmp_path / "hf").exists()
