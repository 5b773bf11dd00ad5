"""Signature of a model's files in the form of OpenSSF model signing: a manifest of digests in a Sigstore bundle.

Anybody checks it without medunlearn: ``model_signing verify key MODEL --signature FILE --public_key FILE``.

Source: https://github.com/sigstore/model-transparency, model-signing 1.1.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey

from medunlearn.data.leftovers import part_of
from medunlearn.data.storage import as_storage_error
from medunlearn.errors import InputError
from medunlearn.input_files import regular_file

PACKAGE = "model_signing"
_NEEDED = (PACKAGE, "OpenSSL")


def check_model_key(key: Path) -> None:
    """Refuse a signature that cannot be made, before anything is computed.

    Raises:
        InputError: model-signing is not installed, or the file holds no private key on the curve P-256.
    """
    if None in map(find_spec, _NEEDED):
        raise InputError(
            "--model-key signs the model with model-signing, of which a part is not installed: pip install "
            "'medunlearn[signing]'."
        )
    try:
        private: Any = serialization.load_pem_private_key(regular_file(key).read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, EllipticCurvePrivateKey) or not isinstance(private.curve, SECP256R1):
        raise InputError(
            f"{key} holds no private key on the curve P-256 (PEM, without a password). `openssl genpkey -algorithm "
            f"EC -pkeyopt ec_paramgen_curve:P-256 -out {key}` makes one."
        )


def sign_model(model: Path, key: Path, out: Path) -> Path:
    """Sign all files of a model's folder; nothing leaves this machine.

    Args:
        key: of :func:`check_model_key`.
        out: the bundle, outside of the folder; an older one is replaced.

    Raises:
        StorageError: the disk refused.
    """
    signing = import_module(f"{PACKAGE}.signing")
    part = part_of(out)
    try:
        signing.Config().use_elliptic_key_signer(private_key=key).sign(model, part)
        part.replace(out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise as_storage_error(error, out) or error from error
    return out
