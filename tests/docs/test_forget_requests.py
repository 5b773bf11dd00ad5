"""The commands of docs/forget.md run in their order on a small hospital, and its numbers are those of the code."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from foreign_models import save_adapter
from pages import Page, run_line

from medunlearn.attacks import known_attacks
from medunlearn.config import ForgetSettings
from medunlearn.request.case.case_folder import CaseFolder
from medunlearn.request.case.ledger import read_ledger
from medunlearn.request.measuring_models import ALTERNATIVES
from medunlearn.request.trial_search import AUTO, rate_of_size
from medunlearn.synthetic.note_table import write_note_table

PAGE = Page.read(
    "forget.md",
    "One request",
    "What happens",
    "What auto tries",
    "What to do next",
    "Answer the patient",
    "Chat models, adapters, and a model to compare with",
    "The next request",
    "Going back, and what to destroy",
    "How long it takes",
) + Page.read("verdict.md", "How the verdict comes about")
SMALL = {
    "train": ("--epochs=1", "--tiny-width=32", "--tiny-layers=2", "--precision=fp32"),
    "forget": (
        *("--others=3", "--facts=2", "--battery=none", "--budget=1", "--build.clozes=1", "--build.prefixes=16"),
        *("--unlearn.epochs=1", "--unlearn.precision=fp32", "--evaluate.max_new_tokens=2"),
    ),
}


def run(line: str) -> str:
    """Standard output as one line."""
    return " ".join(run_line(line, SMALL).stdout.split())


def test_the_page_runs_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    write_note_table(Path("examples/notes.csv"), 8)
    write_note_table(Path("examples/notes-unseen.csv"), 4, seed=1)
    *world, key, first, verify, npo, letter, chat, adapter, compared, second, purge, plan = PAGE.commands
    for line in world:
        run(line)
    save_adapter(Path("hospital/model"), Path("hospital/adapter"), named="somewhere/else")
    shutil.copytree("hospital/model", "hospital/retrained")
    assert "Key id" in run(key)
    said = run(first)
    assert all(place in said for place in ("case/case.html", "case-model", "case-work"))
    assert "100003" not in Path("case/evidence.json").read_text() + Path("case/case.html").read_text()
    assert "differs" not in run(verify)
    for line in (npo, chat, adapter, compared):
        run(f"{line} --anyway" if line is npo else line)
    assert CaseFolder.open(Path("case-npo")).evidence.method == "npo"
    assert "One month from receipt ends on" in run(letter)
    assert "100003" not in Path("letter.html").read_text()
    baselines = {
        check.comparison.baseline
        for check in CaseFolder.open(Path("case-compared")).evidence.battery.checks
        if check.comparison is not None
    }
    assert baselines == {"retrained model"}
    run(second)
    assert len(read_ledger(Path("case-2-model")).requests) == 2
    assert "Nothing was deleted" in run(purge)
    listed = json.loads(run(f"{purge} --json"))
    holders = {Path(row["path"]).relative_to(tmp_path).parts[0] for row in listed["rows"]}
    assert holders == {"hospital", "runs", "case-work"}
    assert "Models that are measured" in run(plan)
    assert not [*tmp_path.glob("case-4*")]
    readme = Page.read("README.md", "A patient asks to be forgotten").commands
    (tmp_path / "notes.csv").symlink_to("examples/notes.csv")
    for folder in ("case", "case-model", "case-work", "owner"):
        shutil.rmtree(folder)
    for line in readme:
        run(line)
    assert CaseFolder.open(Path("case")).evidence.decision.verdict != "deleted"


def test_numbers_of_the_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| \d+ \| (\w+) \| (\d+) \| (.*?) ?\|$", PAGE.text, re.MULTILINE)
    words = {2.0: "twice the learning rate", 1.0: ""}
    noisy = "from weights mixed with a quarter of noise"
    listed = [(one.method, str(one.steps), noisy if "noise" in one.arguments else words[one.rate]) for one in AUTO]
    assert rows == listed
    fields = ForgetSettings.model_fields
    for name, value in re.findall(r"`--([a-z-]+) ([\d.]+|[a-z]+(?:,[a-z]+)+)`", PAGE.text):
        default = fields[name.replace("-", "_")].default
        if name == "battery":
            default = tuple(key for key, cls in known_attacks().items() if cls.in_battery)
        assert value == (",".join(default) if isinstance(default, tuple) else str(default)), name
    assert f"among {ALTERNATIVES} made-up ones" in PAGE.text
    assert (rate_of_size(2_000_000), round(rate_of_size(8_000_000_000), 9)) == (1e-3, 2e-5)


def test_flags_of_the_page_exist() -> None:
    no_settings = {"all", "json", "language", "out", "plan", "public_key", "yes"}
    assert {flag.partition(".")[0] for flag in PAGE.flags} - {*ForgetSettings.model_fields} <= no_settings
