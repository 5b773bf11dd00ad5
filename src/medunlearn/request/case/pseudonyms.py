"""Pseudonyms of patients: HMAC-SHA-256 with a secret that stays with the owner.

The secret is a file of its own, ``pseudonyms.key`` beside the signing key. A signing key may be lost, stolen or
replaced; the secret must stay the same while the ledger is in use, or earlier patients could not be recognized and
would be trained on again. Ids cannot be guessed without the secret, while a plain hash of a patient number is
reversed in seconds. Earlier patients are recognized from the secret and the notes; no list of them is stored.

Source: RFC 2104 (HMAC); Regulation (EU) 2016/679, Article 4(5).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from medunlearn.errors import InputError
from medunlearn.input_files import refuse_open_secret, regular_file

SECRET = "pseudonyms.key"
"""Name of the secret's file, beside the signing key."""
_BYTES = 32
_FIRST = "medunlearn pseudonyms 1"


def new_secret() -> bytes:
    """Content of a new secret file: a comment line, then 32 random bytes as hex."""
    return f"{_FIRST}\n{secrets.token_hex(_BYTES)}\n".encode()


@dataclass(frozen=True, repr=False)
class OwnerSecret:
    """The secret key of all pseudonyms of an owner."""

    key: bytes

    @staticmethod
    def read(path: Path) -> OwnerSecret:
        """Read the secret from its file.

        Raises:
            InputError: no such file, one that others can read, or not a secret.
        """
        if not os.path.lexists(path):
            raise InputError(
                f"There is no {path}. `medunlearn case key --out KEYFILE` makes {SECRET} beside the key."
            )
        if regular_file(path).stat().st_size > 1 << 10:
            raise InputError(f"{path} is not the secret that `medunlearn case key` makes.")
        first, _, rest = path.read_bytes().decode(errors="replace").partition("\n")
        try:
            key = bytes.fromhex(rest.strip())
        except ValueError:
            key = b""
        if first != _FIRST or len(key) != _BYTES:
            raise InputError(f"{path} is not the secret that `medunlearn case key` makes.")
        refuse_open_secret(path)
        return OwnerSecret(key)

    @staticmethod
    def beside(key: Path) -> OwnerSecret:
        """The secret in the folder of a signing key."""
        return OwnerSecret.read(key.with_name(SECRET))

    @property
    def secret_id(self) -> str:
        """Fingerprint of this secret, 64 hex digits; reveals neither the secret nor a pseudonym."""
        return self._code("secret id")

    def pseudonym(self, subject: str, level: str = "patient") -> str:
        """A subject's pseudonym, 64 hex digits: the same in all cases of this owner.

        Args:
            subject: the id exactly as in the notes.
            level: level of the id, so that patient 7 and document 7 differ.
        """
        return self._code("subject", level, subject)

    def _code(self, *parts: str) -> str:
        # Lengths before the parts: no two lists of parts are the same bytes.
        coded = [part.encode() for part in ("medunlearn", *parts)]
        message = b"".join(len(part).to_bytes(8, "big") + part for part in coded)
        return hmac.new(self.key, message, hashlib.sha256).hexdigest()
