"""The signing key and the secret of the pseudonyms: where they may stand, and what they give."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from medunlearn.errors import InputError
from medunlearn.request.case.pseudonyms import SECRET, OwnerSecret
from medunlearn.request.case.signing_keys import STATEMENT, key_id, make_key, read_private_key, read_public_key


def test_a_key_pair_and_one_secret_a_folder(tmp_path: Path) -> None:
    first = make_key(tmp_path / "owner" / "signing.key")
    assert read_private_key(first.private).public_key() == read_public_key(first.public)
    assert first.key_id == key_id(read_public_key(first.public))
    files = sorted((tmp_path / "owner").iterdir())
    assert [file.name for file in files] == [SECRET, "signing.key", "signing.key.pub"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    secret = OwnerSecret.beside(first.private)
    second = make_key(tmp_path / "owner" / "next.key")
    assert first.made_secret
    assert not second.made_secret
    assert OwnerSecret.beside(second.private) == secret
    assert first.key_id != second.key_id


@pytest.mark.parametrize("name", ["signing.key", "signing.key.pub"])
def test_nothing_is_overwritten_or_written_through_a_link(tmp_path: Path, name: str) -> None:
    for folder in (tmp_path / "file", tmp_path / "link"):
        folder.mkdir()
    (tmp_path / "file" / name).write_text("mine")
    (tmp_path / "link" / name).symlink_to(tmp_path / "elsewhere")
    for folder in (tmp_path / "file", tmp_path / "link"):
        with pytest.raises(InputError, match="never overwritten"):
            make_key(folder / "signing.key")
        assert [file.name for file in folder.iterdir()] == [name]
    assert (tmp_path / "file" / name).read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("name", "what"),
    [("run.json", "a run"), ("benchmark.yaml", "a benchmark"), (STATEMENT, "a case"), ("config.json", "a model")],
)
def test_a_key_never_stands_in_what_is_given_to_others(tmp_path: Path, name: str, what: str) -> None:
    (tmp_path / name).touch()
    for place in (tmp_path / "signing.key", tmp_path / "deep" / "below" / "signing.key"):
        with pytest.raises(InputError, match=what):
            make_key(place)
    (tmp_path.parent / "link").unlink(missing_ok=True)
    (tmp_path.parent / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match=what):
        make_key(tmp_path.parent / "link" / "signing.key")
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("content", [b"", b"text", b"\0" * 70_000, b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_other_files_are_no_keys(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    (tmp_path / SECRET).write_bytes(content)
    for read in (read_private_key, read_public_key):
        with pytest.raises(InputError, match="key"):
            read(tmp_path / "key")
    with pytest.raises(InputError, match="not the secret"):
        OwnerSecret.read(tmp_path / SECRET)
    for read in (read_private_key, read_public_key, OwnerSecret.read):
        with pytest.raises(InputError, match="There is no"):
            read(tmp_path / "nothing")


def test_another_kind_of_key_is_refused(tmp_path: Path) -> None:
    key = generate_private_key(SECP256R1())
    (tmp_path / "ec").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "ec.pub").write_bytes(public)
    with pytest.raises(InputError, match="no Ed25519 private key"):
        read_private_key(tmp_path / "ec")
    with pytest.raises(InputError, match="no Ed25519 public key"):
        read_public_key(tmp_path / "ec.pub")


def test_a_pseudonym_is_an_hmac_of_level_and_id() -> None:
    secret = OwnerSecret(bytes(range(32)))
    parts = [b"medunlearn", b"subject", b"patient", b"4711"]
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    assert secret.pseudonym("4711") == hmac.new(bytes(range(32)), message, hashlib.sha256).hexdigest()
    names = {
        secret.pseudonym("4711"),
        secret.pseudonym("4711", "document"),
        secret.pseudonym("04711"),
        OwnerSecret(bytes(32)).pseudonym("4711"),
        secret.secret_id,
    }
    assert len(names) == 5
    assert "00010203" not in repr(secret)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    made = make_key(tmp_path / "signing.key")
    for file, read in ((made.private, read_private_key), (made.secret, OwnerSecret.read)):
        read(file)
        file.chmod(mode)
        with pytest.raises(InputError, match=f"mode {mode:03o}.*chmod 600 {file}"):
            read(file)
        file.chmod(0o600)
    made.public.chmod(0o644)
    read_public_key(made.public)
