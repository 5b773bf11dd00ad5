"""Ed25519 keys of a case's signer, as PEM files, and the secret beside them that names patients.

| file | content |
|---|---|
| ``KEYFILE`` | private key (PKCS#8, PEM, 0600): signs cases; may be replaced by another |
| ``KEYFILE.pub`` | public key (SubjectPublicKeyInfo, PEM): for everybody who checks a case |
| ``pseudonyms.key`` | the owner's secret (:mod:`medunlearn.cases.pseudonyms`); one a folder, never replaced |

Source: RFC 8032 (Ed25519), RFC 8410 (its PEM form).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from medunlearn.cases.pseudonyms import SECRET, new_secret
from medunlearn.data.benchmark import MANIFEST
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.storage import write_together, writer
from medunlearn.errors import InputError
from medunlearn.input_files import regular_file
from medunlearn.results.record import FILE

STATEMENT = "statement.dsse.json"
"""Signed statement of a case: a folder that has one is a case."""
PUBLIC = ".pub"
_MAKE = "`medunlearn case key --out KEYFILE` makes one."
_PROTECTED = {
    FILE: "a run",
    MANIFEST: "a benchmark",
    STATEMENT: "a case",
    "config.json": "a model",
    "adapter_config.json": "a model",
    "delta.json": "a model",
}


@dataclass(frozen=True)
class KeyFiles:
    """Files of a new key.

    Attributes:
        key_id: of the public key (:func:`key_id`).
        made_secret: whether the secret was made as well; it stays where there was one.
    """

    private: Path
    public: Path
    secret: Path
    key_id: str
    made_secret: bool


def make_key(path: Path) -> KeyFiles:
    """Make a key pair, and the secret for pseudonyms where its folder has none. No file is overwritten.

    Raises:
        InputError: a file of that name, or a folder that is given to others: a run, benchmark, case or model.
    """
    private, public, secret = path, path.with_name(path.name + PUBLIC), path.with_name(SECRET)
    refuse_shared_folder(path)
    if private.name in (SECRET, "", ".."):
        raise InputError(f"--out {path}: give the key another name; {SECRET} is the secret's.")
    with lock_folder(path.parent, "case key"):
        for file in (private, public):
            if os.path.lexists(file):
                raise InputError(f"{file} exists, and a key is never overwritten. Choose another --out.")
        key = Ed25519PrivateKey.generate()
        files = {private: writer(private_pem(key)), public: writer(public_pem(key.public_key()))}
        made = not os.path.lexists(secret)
        write_together(({secret: writer(new_secret())} if made else {}) | files)
    return KeyFiles(private, public, secret, key_id(key.public_key()), made)


def refuse_shared_folder(path: Path) -> None:
    """Refuse a place for a secret that is in a run, a benchmark, a case or a model, at any depth.

    Raises:
        InputError: says which.
    """
    folder = path.absolute().parent.resolve()
    for parent in (folder, *folder.parents):
        for name, what in _PROTECTED.items():
            if (parent / name).exists():
                raise InputError(
                    f"{parent} is {what}, which others may be given. Choose an --out outside of it: the private "
                    "key and the secret stay with the owner."
                )


def private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key's DER form, hex: what ``openssl pkey -pubin -outform DER | sha256sum`` prints."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a PEM file.

    Raises:
        InputError: no such file, or none of an Ed25519 private key without a password.
    """
    content = _read(path)
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} holds no Ed25519 private key (PEM, without a password). {_MAKE}")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a PEM file.

    Raises:
        InputError: no such file, or none of an Ed25519 public key.
    """
    key = public_key_of(_read(path))
    if key is None:
        raise InputError(
            f"{path} holds no Ed25519 public key (PEM). It is the {PUBLIC} file beside the owner's key."
        )
    return key


def public_key_of(content: bytes) -> Ed25519PublicKey | None:
    """The public key in PEM text; None where there is none."""
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PublicKey) else None


def _read(path: Path) -> bytes:
    if not os.path.lexists(path):
        raise InputError(f"There is no {path}. {_MAKE}")
    file = regular_file(path)
    if file.stat().st_size > 1 << 16:
        raise InputError(f"{path} is no key: it has more than 64 KiB.")
    return file.read_bytes()
