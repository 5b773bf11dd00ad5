"""Settings of a sweep so small that a cell takes a second, and one that was run."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

RESULTS, REPORT = "medunlearn.experiments.sweep_results", "medunlearn.reports.sweep"


def _gather(title: str, models: Any, benchmark: Any, **more: Any) -> dict[str, Any]:
    return {"title": title, "models": [(one.run.label, one.context) for one in models], **more}


def _write(content: dict[str, Any], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    path.write_text(json.dumps(content, default=str))
    return path


@pytest.fixture(scope="session", autouse=True)
def _report() -> Iterator[None]:
    """A plain stand-in for the sweep's report where there is none."""
    with pytest.MonkeyPatch.context() as patch:
        for name, function, stand_in in ((RESULTS, "gather_sweep", _gather), (REPORT, "write_sweep_report", _write)):
            if importlib.util.find_spec(name) is None:
                module = ModuleType(name)
                setattr(module, function, stand_in)
                patch.setitem(sys.modules, name, module)
        yield


@pytest.fixture(scope="session")
def sweep_values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {
        "name": "Small",
        "out": tmp_path_factory.mktemp("sweep") / "out",
        "seeds": [0, 1],
        "benchmark": {"builder": "amnesia", "invented": 20},
        "splits": ["random_10", "random_25"],
        "train": {"model": "tiny", "tiny_width": 32, "tiny_layers": 2, "epochs": 1, "precision": "fp32"},
        "retrain": ["random_25"],
        "unlearn": {
            "methods": ["graddiff", "ga"],
            "epochs": 1,
            "precision": "fp32",
            "search": {"split": "random_05", "lr": [1e-4, 1e-3]},
        },
        "evaluate": {"subjects": 2, "replicates": 20, "max_new_tokens": 4},
    }
