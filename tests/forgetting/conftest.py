"""One hospital for all tests of deletion requests, and one request that was carried out."""

from __future__ import annotations

from pathlib import Path

import pytest
from forgetting_world import Hospital, open_hospital, other_model

from medunlearn.forgetting.forget_run import Forgotten


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    return open_hospital(tmp_path_factory.mktemp("hospital"))


@pytest.fixture(scope="session")
def forgotten(hospital: Hospital) -> Forgotten:
    """The first patient's request, carried out. Do not change it."""
    return hospital.forget(hospital.folder / "case", hospital.patients[0])


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that never saw a note of the hospital."""
    return other_model(tmp_path_factory.mktemp("stranger"))
