"""Settings of a sweep so small that a cell takes a second, and one that was run."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def sweep_values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {
        "name": "Small",
        "out": tmp_path_factory.mktemp("sweep") / "out",
        "seeds": [0, 1],
        "benchmark": {"builder": "amnesia", "synthetic": 20},
        "splits": ["random_10", "random_25"],
        "train": {
            "model": "tiny",
            "tiny_width": 32,
            "tiny_layers": 2,
            "epochs": 1,
            "precision": "fp32",
            "train_on": "records",
        },
        "retrain": ["random_25"],
        "unlearn": {
            "methods": ["graddiff", "ga"],
            "epochs": 1,
            "precision": "fp32",
            "search": {"split": "random_05", "lr": [1e-4, 1e-3]},
        },
        "evaluate": {"limit": 2, "replicates": 20, "max_new_tokens": 4},
    }
