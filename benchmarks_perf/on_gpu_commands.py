"""The commands on a device, end to end with the tiny model, for on_gpu.py: they run, and give the CPU's numbers.

Training, unlearning by every kind of method, and attacks run on the device. Each model is then evaluated there and,
in a copy of its folder, on the CPU.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import medunlearn as mu
from medunlearn.results.runs import Run
from medunlearn.results.scores import FILE

PATIENTS, SPLIT = 8, "random_25"
TINY = {
    "tiny_width": 64,
    "tiny_layers": 3,
    "tiny_vocabulary": 600,
    "context": "closed_book",
    "epochs": 2,
    "pretrain_epochs": 0,
    "batch_size": 8,
    "max_length": 512,
}
TARGETS: dict[str, dict[str, Any]] = {
    "train": {"epochs": 12},
    "train, gradient checkpointing": {"gradient_checkpointing": True},
    "train, lora, saved as an adapter": {"trainable": "lora:4"},
    "train, moments on the host": {"offload": "optimizer"},
    "train, 8-bit moments": {"optimizer": "adamw_8bit"},
    "train, paged 8-bit moments": {"optimizer": "paged_adamw_8bit"},
    "train, nf4": {"quantize": "nf4", "trainable": "lora:4"},
    "train, bf16 weights": {"weights": "bf16"},
}
METHODS: dict[str, dict[str, Any]] = {
    "npo": {},
    "rmu": {"rmu.layer": 1},
    "counterfactual": {"train_on": "questions"},
    "ngdiff": {},
    "manu": {},
}
ATTACKS = ("membership", "cumulative", "relearning", "quantization", "sampling")
METRICS = ["rouge_l", "em", "answer_probability", "truth_ratio", "rank"]
KEYS = ["item", "side", "fold"]


def commands(device: str, report: Any) -> None:
    """A row for each command."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        bench = mu.build("amnesia", synthetic=PATIENTS, nonmember_patients=4, out=out / "bench")
        runs: dict[str, Run] = {}
        for name, settings in TARGETS.items():
            values = {"model": "tiny", **TINY, "lr": 3e-3, **settings}
            make = partial(mu.train, bench, out=out / name, device=device, quiet=True, **values)
            _row(report, name, lambda make=make, name=name: _keep(runs, name, make()))  # type: ignore[misc]
        target = runs["train"]
        for name, settings in METHODS.items():
            values = {"split": SPLIT, "method": name, **({} if name == "manu" else {"epochs": 1}), **settings}
            make = partial(mu.unlearn, target, bench, out=out / name, device=device, quiet=True, **values)
            _row(report, f"unlearn, {name}", lambda make=make, name=name: _keep(runs, name, make()))  # type: ignore[misc]
        for name, run in runs.items():
            _row(report, f"evaluate, {name}", partial(_evaluate, run, bench, device, out / f"copy of {name}"))
        for name in ATTACKS:
            _row(report, f"attack, {name}", partial(_attack, target, bench, device, name))


def _row(report: Any, name: str, work: Callable[[], str | None]) -> None:
    started = time.perf_counter()
    try:
        state = work() or "done"
    except Exception as error:  # the next command is tried, too
        state = f"failed: {type(error).__name__}: {error}"[:300]
    report.add("commands", command=name, state=state, seconds=time.perf_counter() - started)


def _keep(runs: dict[str, Run], name: str, run: Run) -> None:
    runs[name] = run


def _evaluate(run: Run, bench: Any, device: str, copy: Path) -> str:
    """Largest difference between the numbers of a model on the device and on the CPU."""
    shutil.copytree(run.folder, copy)
    how: dict[str, Any] = {
        "split": SPLIT,
        "metrics": METRICS,
        "facts": 1,
        "ranked": 2,
        "replicates": 2,
        "quiet": True,
    }
    how["allow_broken"] = True
    tables = []
    for model, where in ((Run.open(copy), "cpu"), (run, device)):
        mu.evaluate(model, bench, device=where, **how)
        tables.append(_scores(model.folder))
    here, there = tables
    both = here.merge(there, on=[*KEYS, "measure"], suffixes=(" here", " there"))
    assert len(both) == len(here) == len(there)
    apart = (both["value here"] - both["value there"]).abs().astype(float)
    blank = int((both["value here"].isna() != both["value there"].isna()).sum())
    worst = apart.groupby(both["measure"]).max()
    shown = ", ".join(f"{name} {value:.1e}" for name, value in worst.items() if not np.isnan(value))
    return f"largest differences: {shown}; of {len(both)} scores {blank} only on one"


def _scores(folder: Path) -> pd.DataFrame:
    """All score tables below a folder."""
    tables = [pd.read_parquet(file) for file in sorted(folder.rglob(FILE))]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _attack(target: Run, bench: Any, device: str, name: str) -> str:
    before = len(_scores(target.folder))
    mu.attack(target, bench, split=SPLIT, attacks=name, device=device, quiet=True, replicates=2, allow_broken=True)
    return f"done: {len(_scores(target.folder)) - before} scores"
