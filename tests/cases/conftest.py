"""A signing key and a signed case of an invented request."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_evidence import case_evidence
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from medunlearn.cases import case_folder
from medunlearn.cases.case_folder import CaseFolder, write_case


@pytest.fixture(scope="session")
def signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture(scope="session", autouse=True)
def _one_bill_of_materials() -> None:
    """Reading every installed package takes a second; they are the same in all tests."""
    bill = case_folder.sbom()
    case_folder.sbom = lambda: bill


@pytest.fixture
def case(signer: Ed25519PrivateKey, tmp_path: Path) -> CaseFolder:
    return write_case(tmp_path / "case", case_evidence(), signer)
