"""A benchmark whose labels and questions were drawn at random: nothing is chosen or deleted by it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from fake_server import FakeServer

import medunlearn as mu
from medunlearn.config import EvaluateSettings, ForgetSettings, check
from medunlearn.data.benchmark import MANIFEST, PROVENANCE, Benchmark
from medunlearn.data.origins import DRAWN, Provenance
from medunlearn.errors import ConfigError, InputError
from medunlearn.judging.rehearsal import schema_of
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.request.case.ledger import RequestLedger
from medunlearn.request.case.pseudonyms import SECRET, OwnerSecret, new_secret
from medunlearn.request.request_benchmarks import make_benchmarks
from medunlearn.results.runs import Run
from medunlearn.study.presets import unlearn_settings
from medunlearn.study.report.gather import caveats_of
from medunlearn.study.sweep.rate_search import best_rate, trial_of
from medunlearn.study.unlearn import unlearn

QUICK = {"metrics": ["rouge_l", "em"], "max_new_tokens": 4, "limit": 2, "replicates": 20, "folds": ["train"]}


@pytest.fixture(scope="module")
def drawn(hospital: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """The hospital, as if a rehearsal had written its questions."""
    entry = Provenance("questions", "rehearsal", "rehearsal", "q@1", "ab" * 32, "2026-11-28", True)
    rehearsed = replace(hospital, notes={**hospital.notes, PROVENANCE: [entry.to_json()]})
    folder = tmp_path_factory.mktemp("drawn") / "bench"
    rehearsed.save(folder)
    return Benchmark.load(folder)


def test_a_build_records_who_wrote_it(own_notes: Any, tmp_path: Path) -> None:
    pd.DataFrame(own_notes(6)).to_csv(tmp_path / "notes.csv", index=False)
    bench = mu.build.amnesia(tmp_path / "notes.csv", llm="rehearsal", out=tmp_path / "bench")
    assert [(entry.what, entry.model, entry.drawn) for entry in bench.provenance] == [
        ("disease labels", "rehearsal", True),
        ("questions", "rehearsal", True),
    ]
    assert all(len(entry.prompt_sha256) == 64 and len(entry.date) == 10 for entry in bench.provenance)
    manifest = yaml.safe_load((tmp_path / "bench" / MANIFEST).read_text())
    build = json.loads((tmp_path / "bench" / "build.json").read_text())
    assert manifest["notes"][PROVENANCE] == build["provenance"] == bench.facts()["provenance"]
    assert DRAWN in (tmp_path / "bench" / "README.md").read_text()
    assert DRAWN in bench.undecided
    # An older build names the model in its questions' origin alone.
    old = replace(bench, notes={})
    assert [(entry.model, entry.drawn) for entry in old.provenance] == [("rehearsal", True)]
    real = replace(old, questions=tuple(replace(q, provenance="llm:a:b:q@1") for q in old.questions))
    assert [(entry.model, entry.prompt, entry.drawn) for entry in real.provenance] == [("a:b", "q@1", None)]
    assert real.undecided == replace(real, questions=()).undecided == ""


def test_one_label_for_everything_is_named(own_notes: Any, canned: Any, tmp_path: Path) -> None:
    rows = [{**row, "title": f"A heart attack, case {n}"} for n, row in enumerate(own_notes(6))]
    pd.DataFrame(rows).to_csv(tmp_path / "notes.csv", index=False)

    def label(body: dict[str, Any]) -> str:
        properties = (schema_of(body) or {}).get("properties", {})
        if "category" not in properties:
            return str(canned(body))
        return json.dumps({"category": properties["category"]["enum"][0], "reason": "A heart attack"})

    with FakeServer(answer=label) as server:
        model = {"llm": server.base_url, "llm.model": "first-of-the-list"}
        bench = mu.build.amnesia(tmp_path / "notes.csv", **model, out=tmp_path / "bench")
    (remark,) = bench.facts()["remarks"]
    assert "All 6 notes got one disease label" in remark
    assert remark in caveats_of(bench.facts(), [])
    assert not bench.undecided


def test_its_page_and_its_record_say_so(drawn: Benchmark, target: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(target.folder, tmp_path / "target"))
    model = mu.evaluate(Run.open(copy), drawn, split="random_10", **QUICK, quiet=True, allow_broken=True).models[0]
    assert model.undecided == drawn.undecided
    recorded = model.record.info.results["benchmark"][PROVENANCE]
    assert [entry["drawn"] for entry in recorded] == [True]
    # Also without the benchmark at hand.
    for benchmark in (drawn, None):
        page = mu.report([copy], out=tmp_path / f"report-{benchmark is None}", benchmark=benchmark)
        text = page.with_name("report.md").read_text()
        assert text.count(DRAWN) > 5
        data = json.loads(page.with_name("report.json").read_text())
        assert data["drawn"] == drawn.undecided
        assert data["headline"]["closest_to_retrained"] is None


def test_tuning_refuses_it(drawn: Benchmark, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    from medunlearn.study.tune.tune_plan import plan

    values = {
        "name": "Drawn",
        "out": tmp_path / "out",
        "benchmark": {"folder": str(drawn.folder)},
        "split": "random_10",
        "train": {"model": "tiny", "epochs": 1},
        "unlearn": {"methods": ["npo"]},
        "runs": 2,
    }
    with pytest.raises(ConfigError, match="chosen by chance"):
        plan(values)


def test_a_deletion_request_refuses_it(drawn: Benchmark, tmp_path: Path) -> None:
    assert drawn.folder is not None
    key = tmp_path / "key.pem"
    settings = check(ForgetSettings, {"patient": sorted(drawn.nodes("patient"))[0], "key": key})
    key.with_name(SECRET).write_bytes(new_secret())
    key.with_name(SECRET).chmod(0o600)
    with pytest.raises(InputError, match=DRAWN):
        make_benchmarks(drawn.folder, settings, RequestLedger(), OwnerSecret.beside(key), quiet=True)


def test_no_rate_and_no_epoch_is_chosen_by_it(drawn: Benchmark, target: Run, tmp_path: Path) -> None:
    settings = check(EvaluateSettings, {"split": "random_10", **QUICK, "allow_broken": True})
    summary = evaluate_one(target, drawn, settings, quiet=True).summary
    scored = [trial_of("npo", lr, summary) for lr in (1e-3, 1e-4)]
    assert all(trial.score is not None for trial in scored)
    unscored = [trial_of("npo", lr, summary, undecided=drawn.undecided) for lr in (1e-3, 1e-4)]
    assert [trial.score for trial in unscored] == [None, None]
    assert best_rate([*unscored]) == 1e-4
    values = {"method": "npo", "split": "random_10", "epochs": 2, "precision": "fp32", "lr": 1e-1}
    watched = {**values, "evaluate_every": 1, "select": "best", "stop_early": 1, "evaluate": QUICK}
    run = unlearn(target, drawn, unlearn_settings(watched, tiny=True), tmp_path / "npo", quiet=True)
    epochs = run.info.results["epochs"]
    assert (epochs["best"], epochs["chosen"], epochs["done"], epochs["rule"]) == (None, 2, 2, drawn.undecided)
