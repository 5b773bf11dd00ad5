"""An attack from outside the tree, through every verb that attacks; plug-ins that fail, and that cannot be used."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from forking import forked_workers
from noise_attack import NOISE
from pages import Page

from medunlearn import registry
from medunlearn.attacks import ATTACKS, broken_attacks, expand, known_attacks
from medunlearn.cli.main import app
from medunlearn.data.storage import read_json
from medunlearn.synthetic.note_table import write_note_table

TINY = ("--model=tiny", "--tiny-width=32", "--tiny-layers=2", "--epochs=1", "--precision=fp32", "--quiet")
ON = ("--split=random_25", "--allow-broken", "--replicates=20", "--quiet", "--device=cpu")


def few(*attacks: str) -> list[str]:
    """Settings that make attacks cheap."""
    values = {"subjects": 1, "alternatives": 9, "facts": 1, "max-new-tokens": 2}
    return [f"--{attack}.{name}={value}" for attack in attacks for name, value in values.items()]


def run(*words: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working folder: the plug-in's module, a benchmark, and two models; outside the tree."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "noise_plugin.py").write_text(NOISE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        run("build", "amnesia", "--synthetic=8", "--nonmember-patients=4", "--out=bench", "--quiet")
        run("train", "bench", "--out=runs/target", *TINY)
        run("unlearn", "runs/target", "bench", "--split=random_25", "--method=ga", "--epochs=1",
            "--precision=fp32", "--out=runs/ga", "--quiet")  # fmt: skip
        for name in ("target", "ga"):
            run("evaluate", f"runs/{name}", "bench", "--split=random_25", "--limit=1", "--max-new-tokens=2",
                "--replicates=20", "--allow-broken", "--quiet")  # fmt: skip
        yield folder


def attack(*words: str, code: int = 0) -> Any:
    return run("attack", "runs/ga", "bench", *ON, *words, code=code)


def test_attack_and_report(here: Path) -> None:
    words = ("--attacks=noise_plugin:Noise,loss", "--against=runs/target", *few("noise"), "--json")
    data = json.loads(attack(*words).stdout)
    assert set(data["recovery"]) == {"noise"}
    table = pd.DataFrame(data["recovery"]["noise"]["table"])
    assert list(table["strength"].unique()) == ["none", "0.01", "0.1"]
    assert data["recovery"]["noise"]["about"]["GA"]["strengths"] == ["0.01", "0.1"]
    assert {row["attack"] for row in data["table"]} == {"loss"}
    page = run("report", "runs/ga", "runs/target", "--benchmark=bench", "--out=report")
    assert page.exit_code == 0
    text = (here / "report" / "report.md").read_text()
    assert "## Noise" in text
    assert "whether noise on the weights brings back what was forgotten" in text
    rows = read_json(here / "report" / "report.json")["recovery"]["noise"]["table"]
    assert {row["strength"] for row in rows} == {"none", "0.01", "0.1"}
    # The model is left as it was, and the same noise is drawn again.
    (folder,) = {path.parent for path in (here / "runs" / "ga" / "attacks").glob("*/noise_summary.parquet")}
    scores = pd.read_parquet(folder / "scores.parquet")
    (folder / "run.json").write_text(json.dumps({**read_json(folder / "run.json"), "status": "interrupted"}))
    attack(*words)
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "scores.parquet"), scores)


def test_the_attack_of_the_page(here: Path) -> None:
    (source,) = Page.read("attacks.md", "An attack of your own").blocks("python")
    (here / "noise_of_page.py").write_text(source)
    words = ("--attacks=noise_of_page:Noise", "--noise.scales=[0.5]", *few("noise"), "--json")
    (noise,) = json.loads(attack(*words).stdout)["recovery"].values()
    assert {row["strength"] for row in noise["table"]} == {"none", "0.5"}


def test_its_settings_may_stand_under_its_own_name_or_its_path(here: Path) -> None:
    path = [word.replace("--noise.", "--noise_plugin:Noise.") for word in few("noise")]
    one, other = (
        json.loads(attack("--attacks=noise_plugin:Noise", *words, "--json").stdout)["recovery"]
        for words in (path, few("noise"))
    )
    assert one == other
    refused = attack("--attacks=noise_plugin:Noise", "--noise.strength=1", code=2).output
    assert "no noise_plugin:Noise setting 'strength'" in refused


def test_two_attacks_of_one_name_are_refused(here: Path) -> None:
    (here / "noise_again.py").write_text(NOISE)
    refused = attack("--attacks=noise_plugin:Noise,noise_again:Noise", code=2).output
    assert "attacks=noise_plugin:Noise,noise_again:Noise: one noise attack at a time" in " ".join(refused.split())


def test_an_attack_that_fails_ends_by_itself(here: Path) -> None:
    words = (
        "--attacks=noise_plugin:Greedy,loss,noise_plugin:Picky,quantization",
        "--quantization.types=int8",
        *few("greedy", "picky", "quantization"),
    )
    result = attack(*words, code=1).output
    assert "1 attack has no result" in " ".join(result.split())
    assert "GA, greedy: greedy: memory ran out" in result
    data = json.loads(attack(*words, "--json", code=1).stdout)
    assert set(data["recovery"]) == {"picky", "quantization"}
    assert [(row["attack"], "memory ran out" in row["reason"]) for row in data["failed"]] == [("greedy", True)]
    notes = data["recovery"]["picky"]["about"]["GA"]["notes"]
    assert notes == {"picky": "1: its tokenizer has no such token"}
    run("report", "runs/ga", "--benchmark=bench", "--out=failed")
    text = (here / "failed" / "report.md").read_text()
    assert "GA has no result: greedy: memory ran out" in text
    assert "GA, picky: 1: its tokenizer has no such token." in text
    # Where nothing else was asked, the reason is the error.
    assert "memory ran out" in attack("--attacks=noise_plugin:Greedy", *few("greedy"), code=1).output


def test_an_attack_that_leaves_other_weights_behind_is_no_result(here: Path) -> None:
    words = ("--attacks=noise_plugin:Careless,noise_plugin:Noise", *few("careless", "noise"), "--json")
    data = json.loads(attack(*words, code=1).stdout)
    assert [(row["attack"], "did not restore them" in row["reason"]) for row in data["failed"]] == [
        ("careless", True)
    ]
    alone = json.loads(attack("--attacks=noise_plugin:Noise", *few("noise"), "--json").stdout)
    # The attacks after it had the model as it is.
    assert data["recovery"]["noise"]["table"] == alone["recovery"]["noise"]["table"]


def test_a_path_that_only_a_record_names_is_not_imported(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may come from anybody, and a module beside it with it."""
    attack("--attacks=noise_plugin:Noise", *few("noise"))
    monkeypatch.delitem(sys.modules, "noise_plugin")
    run("report", "runs/ga", "--benchmark=bench", "--out=stored")
    text = (here / "stored" / "report.md").read_text()
    assert "## Attacks that are not shown" in text
    assert f"it is not imported. To permit it: {registry.PLUGINS}=noise_plugin:Noise before the command." in text
    assert "noise_plugin" not in sys.modules
    monkeypatch.setenv(registry.PLUGINS, "noise_plugin:Noise")
    run("report", "runs/ga", "--benchmark=bench", "--out=permitted")
    text = (here / "permitted" / "report.md").read_text()
    assert "## Attacks that are not shown" not in text
    assert "Noise" in text


def test_a_report_without_the_plug_in_says_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attack("--attacks=noise_plugin:Noise", *few("noise"))
    monkeypatch.setattr(registry, "import_module", refuse_plugin)
    run("report", "runs/ga", "--benchmark=bench", "--out=missing")
    text = (here / "missing" / "report.md").read_text()
    assert "## Attacks that are not shown" in text
    assert "noise_plugin:Noise: attack 'noise_plugin:Noise' cannot be imported: OSError: gone" in text


def refuse_plugin(module: str) -> Any:
    if module == "noise_plugin":
        raise OSError("gone")
    return import_module(module)


def test_a_sweep_runs_it_and_plans_it(here: Path) -> None:
    values: dict[str, Any] = {
        "name": "Noise", "out": "swept", "benchmark": {"builder": "amnesia", "synthetic": 8}, "seeds": [0],
        "splits": ["random_25"], "retrain": False, "evaluate": {"limit": 1, "replicates": 20, "max_new_tokens": 2},
        "train": {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "epochs": 1, "precision": "fp32"},
        "unlearn": {"methods": ["ga"], "epochs": 1, "precision": "fp32"},
        "attack": {
            "attacks": ["noise_plugin:Noise"], "replicates": 20, "allow_broken": True,
            "noise.subjects": 1, "noise.alternatives": 9, "noise.facts": 1, "noise.max_new_tokens": 2,
        },
    }  # fmt: skip
    (here / "sweep.yaml").write_text(yaml.safe_dump(values))
    with forked_workers():
        result = run("sweep", "sweep.yaml", "--device=cpu", "--quiet", "--json")
    cells = json.loads(result.stdout)["cells"]
    assert [cell["status"] for cell in cells if cell["kind"] == "attack"] == ["done"] * 2
    assert list((here / "swept").glob("**/noise_summary.parquet"))
    done = json.loads(run("sweep", "sweep.yaml", "--plan", "--json").stdout)
    assert {cell["state"] for cell in done["cells"]} == {"done"}
    values["attack"]["noise.alternatives"] = 10
    (here / "sweep.yaml").write_text(yaml.safe_dump(values))
    (cost,) = json.loads(run("sweep", "sweep.yaml", "--plan", "--json").stdout)["cost"]["kinds"]
    assert (cost["label"], cost["cells"], cost["note"]) == ("attack", 2, "")
    assert cost["work"]["flops"] > 0


def test_it_is_run_after_every_epoch(here: Path) -> None:
    own = [f"--attack.{word.removeprefix('--')}" for word in few("noise")]
    run("unlearn", "runs/target", "bench", "--split=random_25", "--method=ga", "--epochs=1", "--precision=fp32",
        "--out=runs/watched", "--quiet", "--evaluate-every=1", "--evaluate.limit=1", "--evaluate.max-new-tokens=2",
        "--evaluate.replicates=20", "--evaluate.allow-broken=true", "--attack.attacks=noise_plugin:Noise,loss",
        "--attack.replicates=20", "--attack.allow-broken=true", *own)  # fmt: skip
    assert list((here / "runs" / "watched" / "epochs" / "01").glob("attacks/*/noise_summary.parquet"))
    refused = run("train", "bench", "--out=runs/sharded", "--sharding=fsdp2", "--evaluate-every=1", *TINY,
                  "--evaluate.split=random_25", "--attack.attacks=noise_plugin:Noise", code=2).output  # fmt: skip
    assert "noise changes a model in memory" in " ".join(refused.split())


def test_forget_verifies_with_it(here: Path) -> None:
    write_note_table(here / "notes.csv", 6, studies=0)
    write_note_table(here / "unseen.csv", 4, seed=1, studies=0)
    run("build", "notes", "notes.csv", "--out=notes-bench", "--quiet")
    run("train", "notes-bench", "--out=notes-run", *TINY, "--train-on=records")
    run("export", "notes-run", "--out=model", "--quiet")
    run("case", "key", "--out=owner/signing.key", "--quiet")
    words = (
        "forget", "model", "notes.csv", "--patient=100003", "--key=owner/signing.key", "--holdout=unseen.csv",
        "--anyway", "--others=3", "--facts=2", "--budget=1", "--build.clozes=1", "--build.prefixes=16",
        "--unlearn.epochs=1", "--unlearn.precision=fp32", "--evaluate.max_new_tokens=2", "--quiet", "--device=cpu",
        "--evaluate.alternatives=9",
    )  # fmt: skip
    battery = "--battery=quantization,noise_plugin:Noise,noise_plugin:Greedy"
    stages = json.loads(run(*words, battery, "--out=case", "--plan", "--json").stdout)["stages"]
    parts = {part["name"]: part for stage in stages for part in stage["parts"]}
    costs = {name: part["work"]["flops"] for name, part in parts.items()}
    # Two states beside the model as it is, as of the usual rounding, whose facts alone are ranked.
    assert costs["noise of the model after"] > costs["quantization of the model after"] > 0
    assert "greedy is not counted: OutOfMemoryError" in parts["greedy of the model after"]["note"]
    notes = {stage["name"]: stage["note"] for stage in stages}
    assert "greedy is not counted: OutOfMemoryError" in notes["measure the model after"]
    run(*words, battery, "--out=case")
    evidence = evidence_of(here / "case")
    checks = {check["name"]: check for check in evidence["battery"]["checks"]}
    assert {"noise", "weights int4", "weights int8"} <= set(checks)
    assert checks["noise"]["title"] == "Facts under the attack Noise, 0.1"
    untested = {part["name"]: part["reason"] for part in evidence["battery"]["untested"]}
    assert "memory ran out" in untested["greedy"], "a missing attack is never one that brought nothing back"
    assert "(--battery)" in untested["relearning"]


def evidence_of(case: Path) -> dict[str, Any]:
    from medunlearn.request.case.case_folder import CaseFolder

    evidence: dict[str, Any] = CaseFolder.open(case).evidence.model_dump(mode="json")
    return evidence


@pytest.mark.parametrize(
    ("battery", "words"),
    [
        ("loss", "battery: loss cannot verify a deletion; these can: relearning, relearning_lora, quantization"),
        ("membership", "cannot verify a deletion"),
        ("quantisation", "Did you mean 'quantization'?"),
        ("noise_plugin:Nothing", "cannot be imported"),
    ],
)
def test_a_battery_of_other_things_is_refused(here: Path, battery: str, words: str) -> None:
    text = run("forget", "m", "n", "--patient=1", "--key=k", f"--battery={battery}", "--out=c", code=2).output
    assert words in " ".join(text.split())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that declare attacks: one that works, one that raises, and one with a name of ours."""
    points = {"noise": "noise_plugin:Noise", "broken": "nowhere_at_all:Attack", "loss": "noise_plugin:Noise"}
    group = "medunlearn.attacks"
    declared = [EntryPoint(name, target, group) for name, target in points.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: declared)


@pytest.mark.usefixtures("installed")
def test_a_plug_in_that_cannot_be_used_stops_nothing_else(here: Path) -> None:
    assert [*known_attacks()] == [*ATTACKS, "noise"]
    assert expand(["membership"])[0] == "loss"
    broken = broken_attacks()
    assert set(broken) == {"broken", "loss (noise_plugin:Noise)"}
    assert "No module named 'nowhere_at_all'" in broken["broken"]
    assert "under a name of medunlearn's own" in broken["loss (noise_plugin:Noise)"]
    rows = {row["name"]: row for row in json.loads(run("list", "attacks", "--json").stdout)}
    assert rows["noise"]["family"] == "noise"
    assert "scales=(0.01, 0.1)" in rows["noise"]["settings"]
    assert rows["noise"]["what"].startswith("Noise, whether noise on the weights brings back what was forgotten: ")
    assert rows["broken"]["what"].startswith("not usable: ")
    assert "cannot be imported" in attack("--attacks=broken", code=2).output
    data = json.loads(attack("--attacks=noise", *few("noise"), "--json").stdout)
    assert set(data["recovery"]) == {"noise"}
