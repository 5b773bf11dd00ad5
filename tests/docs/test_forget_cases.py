"""The commands of docs/forget.md on cases run in its order, on a model that was trained for it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from case_evidence import case_evidence
from pages import Page, run_line

from medunlearn.data.benchmark import Benchmark
from medunlearn.request.case.case_folder import write_case
from medunlearn.request.case.digests import digest_model, digest_notes
from medunlearn.request.case.evidence import DeletionRequest
from medunlearn.request.case.ledger import LedgerEntry, append_request
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.case.signing_keys import read_private_key

PAGE = Page.read("case.md", "Keys", "Check a case") + Page.read(
    "patient-files.md", "Delete the files that hold a patient"
)
SMALL = "--model tiny --epochs 1 --tiny-width 16 --tiny-layers 1 --precision fp32"


def run(line: str, code: int = 0) -> str:
    result = run_line(line, code=code)
    return " ".join((result.stdout + result.stderr).split())


def close_case() -> None:
    """A case about the request's two models, signed with the page's key, with its row in the ledger."""
    key, secret = read_private_key(Path("owner/signing.key")), OwnerSecret.beside(Path("owner/signing.key"))
    bench, before, after = Benchmark.load("bench"), digest_model("runs/target"), digest_model("runs/request")
    name, day = secret.pseudonym("patient-0007"), date(2026, 3, 2)
    forget = bench.hierarchy.closure("patient", ["patient-0007"])
    request = DeletionRequest(patients=(name,), secret=secret.secret_id, received=day, asked="forget")
    notes = digest_notes(bench, frozenset(forget))
    case = write_case(
        Path("case"), case_evidence(request=request, notes=notes, model_in=before, model_out=after), key
    )
    entry = LedgerEntry.of(case.evidence, case.sha256)
    append_request(Path("runs/target"), Path("runs/request"), entry)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("build amnesia --synthetic 8 --out bench/ --percents 25")
    run(f"train bench/ {SMALL} --out runs/target")
    forget = "--split patient=patient-0007 --method ga --epochs 1 --precision fp32"
    run(f"unlearn runs/target bench/ {forget} --out runs/request")
    # tests/request/test_battery_rerun.py runs the one that needs a whole request.
    keys, with_model, alone, _, listed, deleted = PAGE.commands
    assert "Key id" in run(keys)
    close_case()
    for line in (with_model, alone):
        assert " ok" in run(line)
    assert "another run" not in run("verify runs/request")
    with_ledger = run("verify runs/request --json")
    assert "requests.parquet" in with_ledger
    assert "differs" not in with_ledger
    weights = Path("runs/target/model/model.safetensors")
    assert "Nothing was deleted" in run(listed)
    assert weights.exists()
    run(deleted)
    assert not weights.exists()
    assert Path("bench/records.parquet").exists()
    assert "missing" in run(with_model, code=1)
