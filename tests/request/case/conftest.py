"""A signing key and a signed case of an invented request."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_evidence import case_evidence
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.request.case.case_folder import CaseFolder, write_case


@pytest.fixture(scope="session")
def signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture
def case(signer: Ed25519PrivateKey, tmp_path: Path) -> CaseFolder:
    return write_case(tmp_path / "case", case_evidence(), signer)


@pytest.fixture(scope="session")
def hospital() -> Benchmark:
    """Twenty invented patients, as in the other rooms; those of requests stand one room further up."""
    return build(AmnesiaSettings(synthetic=20))
