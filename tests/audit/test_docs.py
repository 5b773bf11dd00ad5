"""The commands and the Python of docs/audit.md run as they stand, but for their size; its tables are complete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_server import FakeServer
from pages import Page, run_line

from medunlearn.audit.audit_tables import BASELINES_FILE, PROBES, SPANS, STARTS
from medunlearn.audit.measures import default_measures
from medunlearn.results.scores import FILE

PAGE = Page.read("audit.md", "Run an audit")
TRAIN = "medunlearn train bench/ --model tiny --tiny-width 32 --tiny-layers 2 --train-on records --quiet"
START = (
    "medunlearn build amnesia --synthetic 20 --out bench/",
    f"{TRAIN} --out runs/target --epochs 2",
    f"{TRAIN} --out runs/before --epochs 0 --pretrain-epochs 0",
)
SMALL = ["--max-new-tokens=31", "--replicates=20", "--shortest-suffix=10", "--allow-broken"]
SMALL_DEMO = ["--texts", "2", "--epochs", "2", "--no-open"]


def run(line: str, *more: str) -> str:
    output: str = run_line(line, more).stdout
    return output


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit_docs")


def test_commands_run_in_their_order(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    for name, small in (("COPIES", (0, 1)), ("OTHER_TEXTS", 1), ("NEW_TOKENS", 60)):
        monkeypatch.setattr(f"medunlearn.papers.memorization.demo.{name}", small)
    words = " ".join(f"On day {place} the value was {place * 7}." for place in range(40))
    (workplace / "notes.csv").write_text(f'id,text\nn1,"{words}"\n')
    cut = len(words) // 3
    row = {"record_id": "n1", "prefix": words[:cut], "suffix": words[cut:], "response": words[cut:]}
    for name, output in (("responses", words[cut:]), ("baseline", " nothing")):
        lines = [json.dumps({**row, "record_id": f"n{place}", "response": output}) for place in range(3)]
        (workplace / f"{name}.jsonl").write_text("\n".join(lines))
    people = "".join(f'p{place},Ada {place},61,cough,"{words}"\n' for place in range(2))
    (workplace / "people.csv").write_text(f"id,name,age,complaint,text\n{people}")
    for line in START:
        run(line)
    lines = PAGE.commands
    assert len(lines) == 12
    with FakeServer() as server:
        for line in lines:
            audits = line.startswith("medunlearn audit")
            more = SMALL if audits else SMALL_DEMO if line.startswith("medunlearn demo") else []
            output = run(line.replace("http://127.0.0.1:8000/v1", server.base_url), *more)
            assert "On day" not in output
            if audits:
                assert "Not looked for" in output


def test_the_python_runs(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    (block,) = PAGE.blocks("python")
    exec(block.replace("limit=10", "limit=2, max_new_tokens=31, replicates=20"), {})


def test_tables_are_complete() -> None:
    files = Page.read("files.md").text
    for name in (*default_measures(), PROBES, FILE, SPANS, STARTS, BASELINES_FILE):
        assert f"`{name}`" in PAGE.text + files
