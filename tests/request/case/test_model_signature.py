"""OpenSSF signatures of models: made and checked with model-signing where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from medunlearn.errors import InputError
from medunlearn.request.case import signing_keys
from medunlearn.request.case.signing_keys import check_model_key, private_pem, sign_model


@pytest.fixture
def key(tmp_path: Path) -> Path:
    private = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "model.key").touch(mode=0o600)
    (tmp_path / "model.key").write_bytes(private.private_bytes(*form))
    public = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "model.pub").write_bytes(private.public_key().public_bytes(*public))
    return tmp_path / "model.key"


def test_a_key_of_another_kind_and_a_missing_package_are_told(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing_keys, "find_spec", lambda name: object())
    check_model_key(key)
    key.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        check_model_key(key)
    key.chmod(0o600)
    (tmp_path / "ed25519.key").write_bytes(private_pem(Ed25519PrivateKey.generate()))
    for wrong in (tmp_path / "ed25519.key", tmp_path / "model.pub", tmp_path / "absent.key"):
        with pytest.raises(InputError, match=r"P-256 .* `openssl genpkey"):
            check_model_key(wrong)
    monkeypatch.setattr(signing_keys, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'medunlearn\[signing\]'"):
        check_model_key(key)


def test_a_changed_byte_is_told(key: Path, tmp_path: Path) -> None:
    verifying = pytest.importorskip("model_signing.verifying", reason="needs medunlearn[signing]")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(bytes(64))
    check_model_key(key)
    bundle = sign_model(model, key, tmp_path / "model.sig")
    checked = verifying.Config().use_elliptic_key_verifier(public_key=tmp_path / "model.pub")
    checked.verify(model, bundle)
    assert not [*tmp_path.glob(".*.part")]
    (model / "model.safetensors").write_bytes(bytes(63) + b"\1")
    with pytest.raises(ValueError, match="safetensors"):
        checked.verify(model, bundle)
