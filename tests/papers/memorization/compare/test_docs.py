"""Commands and code of docs/audit.md, as they stand, on audits made by hand."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from fake_server import FakeServer
from pages import Page

from medunlearn.cli.main import app
from medunlearn.config import check
from medunlearn.config.audit import AuditRelations

ROOT = Path(__file__).parents[4]
PAGE = Page.read("papers/memorization.md", "The report of audits", "Kinds of memorized text")


@pytest.fixture
def workplace(audits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(audits, tmp_path / "runs")
    shutil.copy(audits / "epochs.parquet", tmp_path / "epochs.parquet")
    (tmp_path / "relations.yaml").write_text(PAGE.blocks("yaml")[0])
    (tmp_path / "clinical.yaml").write_text("clinical: [notes]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_of_the_page_run(workplace: Path):
    lines = PAGE.commands
    assert len(lines) == 7
    with FakeServer(answer=lambda body: '{"kind": "editorial", "reason": "so it reads"}') as server:
        for line in lines:
            words = shlex.split(line.replace("http://127.0.0.1:8000/v1", server.base_url))
            assert words[0] == "medunlearn"
            if "corrected" in words:
                sheet = workplace / "by_hand.csv"
                sheet.write_text(sheet.read_text(encoding="utf-8-sig").replace(",,,", ",drug,,"))
            result = CliRunner().invoke(app, words[1:])
            assert result.exit_code == 0, f"{line}\n{result.output}"
            assert "Tarnwick" not in result.output
    by = pd.read_parquet(workplace / "runs" / "med" / "kinds.parquet").groupby("by")["kind"].agg(set)
    assert by["judge"] == {"editorial"}
    assert by["person"] == {"drug"}
    assert "Figure 7" in (workplace / "report-all" / "report.md").read_text()
    assert "## Examples" in (workplace / "report-text" / "report.md").read_text()
    assert "## Examples" not in (workplace / "report-all" / "report.md").read_text()
    assert "Tarnwick" not in (workplace / "report-all" / "report.md").read_text()


def test_python_of_the_page_runs(workplace: Path, capsys: pytest.CaptureFixture[str]):
    names: dict[str, object] = {}
    for block in PAGE.blocks("python"):
        exec(block, names)
    assert "holds The longer the prefix" in capsys.readouterr().out
    assert (workplace / "report-python" / "report.html").exists()
    assert (workplace / "sheet.csv").stat().st_mode & 0o077 == 0


def test_every_relation_is_explained():
    relations = yaml.safe_load(PAGE.blocks("yaml")[0])
    assert set(relations) == set(AuditRelations.model_fields)
    check(AuditRelations, relations)
