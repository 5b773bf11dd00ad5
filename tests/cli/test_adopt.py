"""`adopt` on the command line, and folders given where a run is wanted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken import scramble
from foreign_models import save_adapter, save_foreign

Medunlearn = Callable[..., Any]
QUICK = ("--replicates=20", "--limit=2", "--max-new-tokens=4", "--metrics=rouge_l", "--allow-broken")
FORGET = ("--split", "random_10", "--method", "graddiff", "--epochs=1", "--precision=fp32")


@pytest.fixture(scope="module")
def chat(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_foreign(target / "model", tmp_path_factory.mktemp("foreign") / "chat")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_it_says(medunlearn: Medunlearn, bench: Path, chat: Path, here: Path) -> None:
    result = medunlearn("adopt", chat, bench, "--out", "run")
    lines = [line.split() for line in result.stdout.splitlines()]
    measured = {tuple(words[:2]): float(words[-1]) for words in lines if words[:1] in (["records"], ["questions"])}
    assert set(measured) == {("records", "text"), ("questions", "plain"), ("questions", "chat")}
    uniform = float(lines[0][-1])
    assert min(measured.values()) < uniform
    assert "its weights stay where they are; asked in its chat template, closed book" in result.text
    facts = json.loads(medunlearn("adopt", chat, bench, "--out", "run", "--json").stdout)
    assert (facts["verb"], facts["status"]) == ("adopt", "complete")
    assert json.loads(medunlearn("inspect", "run", "--json").stdout)["verb"] == "adopt"


def test_folders_where_runs_are_wanted(
    medunlearn: Medunlearn, bench: Path, chat: Path, target: Path, here: Path
) -> None:
    adapter = save_adapter(chat, here / "adapter")
    result = medunlearn("unlearn", chat, bench, *FORGET, "--out", "runs/forgot")
    assert "adopted as runs/adopted-chat-" in result.text
    adopted = next(here.glob("runs/adopted-chat-*"))
    assert json.loads((here / "runs/forgot/run.json").read_text())["lineage"][-1] == str(adopted.relative_to(here))
    words = ("--split", "random_10", "--against", chat, "--against", adapter, *QUICK)
    result = medunlearn("evaluate", "runs/forgot", bench, *words, "--out", "runs/table.csv")
    assert {path.name.split("-")[1] for path in here.glob("runs/adopted-*")} == {"chat", "adapter"}
    assert len(list(here.glob("runs/adopted-chat-*"))) == 1
    assert "adopted as runs/adopted-adapter-" in result.text
    medunlearn(
        "audit", chat, bench, "--limit=2", "--prefixes=8", "--max-new-tokens=30", "--replicates=20", "--out=a"
    )
    medunlearn("train", bench, "--model", chat, "--epochs=1", "--precision=fp32", "--out", "runs/trained")
    medunlearn("train", bench, "--model", adopted, "--epochs=0", "--out", "runs/from-adopted")
    trained = json.loads((here / "runs/from-adopted/run.json").read_text())
    assert (trained["config"]["template"], trained["config"]["context"]) == ("chat", "closed_book")


def test_a_report_with_adopted_models(medunlearn: Medunlearn, bench: Path, chat: Path, here: Path) -> None:
    medunlearn("adopt", chat, bench, "--out", "target", "--quiet")
    words = ("--role", "retrained", "--without", "random_10", "--allow-broken", "--quiet")
    medunlearn("adopt", scramble(shutil.copytree(chat, here / "other")), bench, "--out", "re", *words)
    medunlearn("unlearn", "target", bench, *FORGET, "--out", "forgot", "--quiet")
    for run in ("target", "re", "forgot"):
        medunlearn("evaluate", run, bench, "--split", "random_10", *QUICK, "--quiet")
    medunlearn("report", "target", "re", "forgot", "--benchmark", bench, "--out", "report", "--quiet")
    page = (here / "report" / "report.md").read_text()
    assert all(label in page for label in ("target", "retrained", "GradDiff"))
    medunlearn("verify", "target", "re", "forgot", "--quiet")
    medunlearn("export", "target", "--out", "hf", "--quiet")
    assert (here / "hf" / "chat_template.jinja").read_text() == (chat / "chat_template.jinja").read_text()
    log = json.loads(
        medunlearn(
            "verify", "target", "re", chat, "--subject", subject(bench), "--benchmark", bench, "--json"
        ).stdout
    )
    trained = {Path(row["path"]) for row in log["rows"] if row["how"] == "trained on"}
    assert chat / "model.safetensors" in {path.resolve() for path in trained}
    assert not [path for path in trained if "re" in path.parts]


def subject(bench: Path) -> str:
    """A patient of the forget set of ``random_10``."""
    from medunlearn.data.benchmark import Benchmark

    split = Benchmark.load(bench).split("random_10")
    return f"{split.level}={sorted(split.forget)[0]}"


def test_attacks_ask_adopted_models(medunlearn: Medunlearn, chat: Path, target: Path, here: Path) -> None:
    medunlearn("build", "amnesia", "--synthetic", 20, "--nonmember-patients", 6, "--out", "bench")
    words = ("--split", "random_10", "--attacks", "loss", "--replicates=20", "--allow-broken")
    result = medunlearn("attack", chat, "bench", *words, "--out", "a/table.csv")
    assert "adopted as a/adopted-chat-" in result.text


def test_a_folder_that_changed(medunlearn: Medunlearn, bench: Path, chat: Path, here: Path) -> None:
    own = shutil.copytree(chat, here / "own")
    medunlearn("adopt", own, bench, "--out", "run", "--quiet")
    scramble(own)
    result = medunlearn("evaluate", "run", bench, "--split", "random_10", *QUICK, code=2)
    assert "has changed since run adopted it: model.safetensors has another SHA-256" in result.text
    assert "differs" in medunlearn("verify", "run", code=1).stdout
    result = medunlearn("adopt", own, bench, "--out", "other", code=2)
    assert "no better than uniform guessing" in result.text
    assert "WARNING" in medunlearn("adopt", own, bench, "--out", "other", "--allow-broken").stdout


def test_wrong_words(medunlearn: Medunlearn, bench: Path, target: Path, chat: Path, here: Path) -> None:
    for words, part in (
        ((chat, bench, "--out", "x", "--role", "retrained"), "without is missing"),
        ((chat, bench, "--out", "x", "--without", "random_10"), "--role retrained"),
        ((chat, bench, "--out", "x", "--sample", 0), "sample=0"),
        ((chat, bench, "--out", "x", "--template", "nothing"), "template='nothing'"),
        ((target, bench, "--out", "x"), "is a run of medunlearn already"),
        (("nothing/such/path", bench, "--out", "x"), "There is no model folder nothing/such/path"),
        ((chat, bench), "--out is missing"),
    ):
        assert part in medunlearn("adopt", *words, code=2).text
    # Nothing is adopted before the rest of a command is right.
    words = ("unlearn", chat, bench, "--method=npo", "--out=x")
    assert "no split" in medunlearn(*words, "--split=nothing", code=2).text
    assert "npo.beta" in medunlearn(*words, "--split=random_10", "--npo.beta=-1", code=2).text
    assert not list(here.iterdir())
