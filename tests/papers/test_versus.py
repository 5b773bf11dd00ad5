"""Two sweeps beside each other, with scores that are set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sweep_folders import Model, SweepFolder

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.papers.reporting import report_content
from medunlearn.papers.sweeps.versus import versus_report
from medunlearn.reports.blocks import Table
from medunlearn.reports.markdown import to_markdown
from medunlearn.results.evaluated import Evaluated
from medunlearn.seeds import generator

KNOWN = {"target": 0.9, "retrained": 0.3}


class Shifted(SweepFolder):
    """Methods that forget some share; a second sweep's differ by a shift."""

    titles = {"npo": "NPO", "rmu": "RMU"}  # noqa: RUF012
    shifts: dict[str, float] = {}  # noqa: RUF012

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        rng = generator("versus", model.role, model.method, model.asked, model.seed)
        share = meta["side"].map({"forget": KNOWN.get(model.role, 0.5), "retain": 0.8})
        share = share + meta["side"].eq("forget") * self.shifts.get(model.method, 0.0)
        noise = rng.normal(0, 0.05, len(meta))
        measures = ["rouge_l", "em", "te", "ranked_first"]
        values = np.clip(share + noise, 0, 1)
        tables = [
            pd.DataFrame({"question_id": meta["question_id"], "metric": name, "value": values}) for name in measures
        ]
        return pd.concat(tables, ignore_index=True)


def write_sweep(folder: Path, benchmark: Benchmark, shifts: dict[str, float], **how: Any) -> Path:
    files = Shifted(folder, benchmark)
    files.shifts = shifts
    models: list[Evaluated] = files.all(
        ["random_25"], how.get("methods", ("npo", "rmu")), seeds=how.get("seeds", (0,))
    )
    cells = [
        {"kind": "evaluate", "folder": str(m.run.folder), "evaluation": str(m.record.folder), "status": "complete"}
        for m in models
    ]
    settings = {"benchmark": {"folder": str(folder.parent / "bench")}}
    (folder / "sweep.json").write_text(json.dumps({"name": folder.name, "cells": cells, "settings": settings}))
    return folder


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return build(AmnesiaSettings(synthetic=100)).save(tmp_path_factory.mktemp("versus") / "bench")


@pytest.fixture(scope="module")
def sweeps(clinic: Benchmark | Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Benchmark]:
    benchmark = Benchmark.load(clinic) if isinstance(clinic, Path) else clinic
    root = tmp_path_factory.mktemp("sweeps")
    first = write_sweep(root / "first", benchmark, {})
    return first, write_sweep(root / "second", benchmark, {"rmu": -0.4}, methods=("npo", "rmu", "ga")), benchmark


def test_a_method_that_changed_is_told_and_one_that_did_not_is_not(sweeps: tuple[Path, Path, Benchmark]) -> None:
    first, second, benchmark = sweeps
    compared = versus_report(first, second, benchmark, replicates=200)
    main = compared.main.set_index(["model", "number"])
    assert set(compared.main["number"]) == {"Utility", "Forgetting", "Facts ranked first"}
    gap = main.loc[("RMU", "Facts ranked first")]
    assert gap["difference"] == pytest.approx(-0.4, abs=0.02)
    assert gap["low"] < gap["difference"] < gap["high"] < 0
    assert gap["p_holm"] < 0.05
    same = main.loc[("NPO", "Facts ranked first")]
    assert (same["difference"], same["p_holm"]) == (pytest.approx(0.0), 1.0)
    assert main.loc[("RMU", "Forgetting"), "difference"] > 0.1
    # Holm over two methods: at least the plain p, references are not corrected.
    assert pd.isna(main.loc[("target", "Utility"), "p_holm"])
    methods = compared.main[compared.main["role"] == "unlearned"]
    assert (methods["p_holm"] >= methods["p"]).all()
    assert compared.headline.answer == "1 of 2 models differ"
    assert "RMU (random_25)" in compared.headline.sentences[0]
    assert compared.only == ("Only in second: ga on random_25.",)


def test_a_sweep_beside_itself_has_no_difference(sweeps: tuple[Path, Path, Benchmark]) -> None:
    first, _, benchmark = sweeps
    compared = versus_report(first, first, benchmark, replicates=50)
    assert compared.differences["difference"].abs().max() == 0
    assert compared.headline.answer.startswith("None of 2")
    assert "no proof" in " ".join(compared.headline.sentences)


def test_the_command_writes_the_comparison(sweeps: tuple[Path, Path, Benchmark], tmp_path: Path) -> None:
    first, second, benchmark = sweeps
    view, page = report_content(
        [first, second],
        tmp_path / "versus",
        benchmark,
        title=None,
        show_text=False,
        seed=0,
        tables="csv",
        figures="svg",
    )
    (table,) = (block for block in view.blocks if isinstance(block, Table))
    assert table.title == "random_25"
    assert [row[0].text for row in table.rows] == ["target", "retrained", "NPO", "RMU"]
    data = json.loads(page.with_suffix(".json").read_text())
    assert data["sweeps"] == ["first", "second"]
    assert {path.name for path in (page.parent / "figures").iterdir()} == {
        "utility.svg",
        "forgetting.svg",
        "facts-ranked-first.svg",
    }
    assert (page.parent / "tables" / "differences.csv").exists()
    assert "second minus first" in page.with_suffix(".md").read_text()


def test_what_does_not_pair_is_refused(sweeps: tuple[Path, Path, Benchmark], tmp_path: Path) -> None:
    first, _, benchmark = sweeps
    others = write_sweep(tmp_path / "other", build(AmnesiaSettings(synthetic=40, seed=5)), {})
    with pytest.raises(InputError, match="different benchmarks"):
        versus_report(first, others, benchmark, replicates=20)
    seeds = write_sweep(tmp_path / "seeds", benchmark, {}, seeds=(3,))
    with pytest.raises(InputError, match="no method with the same split"):
        versus_report(first, seeds, benchmark, replicates=20)


def test_seeds_are_paired_with_their_own(clinic: Benchmark | Path, tmp_path: Path) -> None:
    benchmark = Benchmark.load(clinic) if isinstance(clinic, Path) else clinic
    first = write_sweep(tmp_path / "a", benchmark, {}, seeds=(0, 1))
    second = write_sweep(tmp_path / "b", benchmark, {}, seeds=(1, 0, 2))
    compared = versus_report(first, second, benchmark, replicates=20)
    assert set(compared.differences["n_seeds"]) == {2}
    assert compared.differences["difference"].abs().max() == pytest.approx(0.0)
    assert to_markdown(compared.report())
