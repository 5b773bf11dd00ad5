"""Signing keys as PEM files: Ed25519 for cases, P-256 for models, and the secret for pseudonyms beside them.

| file | content |
|---|---|
| ``KEYFILE`` | private key (PKCS#8, PEM, 0600): signs cases; may be replaced by another |
| ``KEYFILE.pub`` | public key (SubjectPublicKeyInfo, PEM): for everybody who checks a case |
| ``pseudonyms.key`` | the owner's secret (:mod:`~.case.pseudonyms`); one a folder, never replaced |

A model is signed in the form of OpenSSF model signing: a manifest of its files' digests in a Sigstore bundle.
Anybody checks it without medunlearn: ``model_signing verify key MODEL --signature FILE --public_key FILE``.

Source: RFC 8032 (Ed25519), RFC 8410 (its PEM form); sigstore/model-transparency, model-signing 1.1.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from medunlearn.data.benchmark import MANIFEST
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import part_of
from medunlearn.data.storage import as_storage_error, write_files
from medunlearn.errors import InputError
from medunlearn.input_files import refuse_open_secret, regular_file
from medunlearn.reports.blocks import Facts
from medunlearn.reports.view import ResultView
from medunlearn.request.case.pseudonyms import SECRET, new_secret
from medunlearn.results.record import FILE

STATEMENT = "statement.dsse.json"
"""Signed statement of a case: a folder that has one is a case."""
PUBLIC = ".pub"
MODEL_SIGNING = "model_signing"
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
        made_secret: whether the secret was created too; an existing one stays.
    """

    private: Path
    public: Path
    secret: Path
    key_id: str
    made_secret: bool

    def view(self) -> ResultView:
        """The files, and who may have them."""
        secret = "made" if self.made_secret else "was there already, and is this key's too"
        files = (
            (self.private, "the private key. Keep it to yourself: it signs cases."),
            (self.secret, f"the secret of the pseudonyms ({secret}). Keep it, and a copy, to yourself."),
            (self.public, "the public key, for everybody who checks a case."),
            ("Key id", self.key_id),
        )
        data = {name: str(getattr(self, name)) for name in ("private", "public", "secret", "key_id")}
        return ResultView(data, [Facts(tuple((str(name), text) for name, text in files))])


def make_key(path: Path) -> KeyFiles:
    """Make a key pair, and the secret for pseudonyms if its folder has none. No file is overwritten.

    Raises:
        InputError: a file of that name exists, or the folder may be shared: a run, benchmark, case or model.
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
        files = {private.name: private_pem(key), public.name: public_pem(key.public_key())}
        has_secret = os.path.lexists(secret)
        write_files(path.parent, ({} if has_secret else {secret.name: new_secret()}) | files)
    return KeyFiles(private, public, secret, key_id(key.public_key()), not has_secret)


def refuse_shared_folder(path: Path) -> None:
    """Refuse a place for a secret inside a run, a benchmark, a case or a model, at any depth.

    Raises:
        InputError: says which.
    """
    folder = path.absolute().parent.resolve()
    for parent in (folder, *folder.parents):
        for name, what in _PROTECTED.items():
            if (parent / name).exists():
                raise InputError(
                    f"{parent} is {what}, which may be shared. Choose an --out outside of it: the private "
                    "key and the secret stay with the owner."
                )


def private_pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256 of the public key's DER form, hex: what ``openssl pkey -pubin -outform DER | sha256sum`` prints."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a PEM file.

    Raises:
        InputError: no such file, one that others can read, or not an Ed25519 private key without a password.
    """
    key = _private_key_of(_read(path))
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} holds no Ed25519 private key (PEM, without a password). {_MAKE}")
    refuse_open_secret(path)
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a PEM file.

    Raises:
        InputError: no such file, or not an Ed25519 public key.
    """
    key = public_key_of(_read(path))
    if key is None:
        raise InputError(
            f"{path} holds no Ed25519 public key (PEM). It is the {PUBLIC} file beside the owner's key."
        )
    return key


def _private_key_of(content: bytes) -> Any:
    """The private key in PEM text; None if there is none, or one with a password."""
    try:
        return serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def public_key_of(content: bytes) -> Ed25519PublicKey | None:
    """The public key in PEM text; None if there is none."""
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
        raise InputError(f"{path} is not a key: it has more than 64 KiB.")
    return file.read_bytes()


def check_model_key(path: Path) -> None:
    """Refuse a model key that cannot sign, before anything is computed.

    Raises:
        InputError: model-signing is not installed, or the file holds no private key on the curve P-256, or others
            can read it.
    """
    if None in map(find_spec, (MODEL_SIGNING, "OpenSSL")):
        raise InputError(
            "--model-key signs the model with model-signing, of which a part is not installed: pip install "
            "'medunlearn[signing]'."
        )
    try:
        key = _private_key_of(regular_file(path).read_bytes())
    except OSError:
        key = None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise InputError(
            f"{path} holds no private key on the curve P-256 (PEM, without a password). `openssl genpkey "
            f"-algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out {path}` makes one."
        )
    refuse_open_secret(path)


def sign_model(model: Path, key: Path, out: Path) -> Path:
    """Sign all files of a model's folder; nothing leaves this machine.

    Args:
        key: from :func:`check_model_key`.
        out: the bundle, outside of the folder; an older one is replaced.

    Raises:
        StorageError: the disk refused.
    """
    signing = import_module(f"{MODEL_SIGNING}.signing")
    part = part_of(out)
    try:
        signing.Config().use_elliptic_key_signer(private_key=key).sign(model, part)
        part.replace(out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise as_storage_error(error, out) or error from error
    return out
