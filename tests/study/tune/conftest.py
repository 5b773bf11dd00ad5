"""Settings of a tuning so small that a trial takes a second."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("optuna")


@pytest.fixture(scope="session")
def tune_values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {
        "name": "Small",
        "out": tmp_path_factory.mktemp("tune") / "out",
        "seeds": [0],
        "benchmark": {"builder": "amnesia", "synthetic": 20},
        "split": "random_25",
        "train": {
            "model": "tiny",
            "tiny_width": 32,
            "tiny_layers": 2,
            "epochs": 1,
            "precision": "fp32",
            "train_on": "questions",
        },
        "unlearn": {"methods": ["graddiff", "npo"], "epochs": 1, "precision": "fp32", "train_on": "questions"},
        "runs": 6,
        "space": {"lr": [1e-4, 1e-2], "epochs": None},
        "evaluate": {
            "limit": 2,
            "ranked": 1,
            "alternatives": 9,
            "replicates": 20,
            "max_new_tokens": 4,
            "allow_broken": True,  # hardly trained, it says the same to every question
        },
    }
