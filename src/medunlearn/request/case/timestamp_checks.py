"""Checks of a case's time stamp: its statement, its query, its signature, and the authority's certificate.

The signature is checked with the certificate in the reply, and that certificate against those that the user trusts.

Source: RFC 3161 (time stamp protocol): section 2.3 the certificate, 2.4.2 the reply; RFC 5816 (the certificate's
hash in the reply); RFC 5652 (the token around it).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from rfc3161_client import (
    PKIStatus,
    TimeStampRequest,
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)
from rfc3161_client._rust import parse_timestamp_request  # the package decodes queries, but does not export it

from medunlearn.errors import InputError, MedunlearnError
from medunlearn.input_files import regular_file, told_unreadable
from medunlearn.reports.blocks import Facts
from medunlearn.reports.view import ResultView
from medunlearn.request.case.signing_keys import STATEMENT

QUERY, REPLY = "statement.tsq", "statement.tsr"
_CERTIFICATES = 0xA0
"""DER tag of the certificates in a token."""
_HASHES = (hashlib.sha1, hashlib.sha256, hashlib.sha384, hashlib.sha512)
"""Hashes by which replies name their certificate."""


class TimestampError(MedunlearnError):
    """No time stamp, or an invalid one. The case is complete without it."""


@dataclass(frozen=True)
class Timestamp:
    """A time stamp whose signature holds.

    Attributes:
        path: the authority's reply.
        subject, fingerprint: of the certificate that signed it; the fingerprint is SHA-256, hex.
        trusted: True if a certificate that the user trusts vouches for it.
    """

    path: Path
    time: datetime
    subject: str
    fingerprint: str
    trusted: bool

    def view(self) -> ResultView:
        """Its file, its signer, and whether anybody vouches for the signer."""
        data = {name: getattr(self, name) for name in ("subject", "fingerprint", "trusted")}
        facts = Facts(((str(self.path), f"time stamp of the case's statement, {self}."),))
        return ResultView({"reply": str(self.path), "time": self.time.isoformat(), **data}, [facts])

    def __str__(self) -> str:
        """The signer, and whether anybody vouches for its certificate."""
        trust = (
            "vouched for by a certificate that you trust"
            if self.trusted
            else "whose certificate was not checked against one that you trust (--authority CERT.pem)"
        )
        signer = _signer_text(self.subject, self.fingerprint)
        return f"signed by {signer}, {trust}, at {self.time:%Y-%m-%d %H:%M:%S} UTC"


def read_timestamp(folder: Path, authority: Sequence[x509.Certificate] = ()) -> Timestamp:
    """Check the time stamp of a case.

    Args:
        authority: trusted certificates, of which one must vouch for the authority's; empty: not checked.

    Raises:
        TimestampError: it is missing or invalid; the message says why.
    """
    names = (STATEMENT, QUERY, REPLY)
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise TimestampError(f"{missing[0]} is missing")
    statement, query, reply = ((folder / name).read_bytes() for name in names)
    return check_reply(folder / REPLY, statement, query, reply, authority)


def read_certificates(path: Path) -> tuple[x509.Certificate, ...]:
    """Certificates in a PEM file.

    Raises:
        InputError: no such file, or one without a certificate.
    """
    try:
        with told_unreadable(path, InputError):
            return tuple(x509.load_pem_x509_certificates(regular_file(path).read_bytes()))
    except ValueError:
        raise InputError(
            f"{path} holds no certificate (PEM). `openssl x509 -inform DER -in {path}` makes it of a binary file."
        ) from None


def check_reply(
    path: Path, statement: bytes, query: bytes, reply: bytes, authority: Sequence[x509.Certificate]
) -> Timestamp:
    """Check a reply against the statement and the query that it is to belong to.

    Raises:
        TimestampError: it is invalid; the message says why.
    """
    try:
        request, response = parse_timestamp_request(query), _decode(reply)
        if response.status != PKIStatus.GRANTED:
            answer = "granted it with changes" if response.status == PKIStatus.GRANTED_WITH_MODS else "refused"
            raise TimestampError(f"the authority {answer} (status {response.status})")
        return _Token(statement, request, response).check(path, authority)
    except TimestampError:
        raise
    except Exception as error:  # of foreign bytes: ValueError, KeyError, UnsupportedAlgorithm and more
        raise TimestampError("it is no RFC 3161 time stamp, or it was changed") from error


@dataclass(frozen=True)
class _Token:
    """A reply with the query and the statement that it is to belong to."""

    statement: bytes
    request: TimeStampRequest
    response: TimeStampResponse

    def check(self, path: Path, authority: Sequence[x509.Certificate]) -> Timestamp:
        info, signer = self.response.tst_info, self.signer
        imprints = {self.request.message_imprint.message, info.message_imprint.message}
        subject, fingerprint = signer.subject.rfc4514_string(), signer.fingerprint(SHA256()).hex()
        if imprints != {hashlib.sha256(self.statement).digest()}:
            raise TimestampError("it is of another statement")
        if info.nonce != self.request.nonce:
            raise TimestampError(f"it answers another query than {QUERY}")
        if not signer.not_valid_before_utc <= info.gen_time <= signer.not_valid_after_utc:
            raise TimestampError(f"the certificate of {subject} was not valid at the time of the stamp")
        if not _is_for_timestamps(signer):
            raise TimestampError(f"the certificate of {subject} is not made for time stamps")
        if not self._is_signed():
            raise TimestampError("its signature is wrong: the stamp was changed")
        # Trusted itself, or below a trusted root.
        trusted = signer in authority or (bool(authority) and self._holds_under(authority))
        if authority and not trusted:
            raise TimestampError(
                f"another authority signed it, {_signer_text(subject, fingerprint)}: no certificate that you trust "
                "vouches for it at that time"
            )
        return Timestamp(path, info.gen_time, subject, fingerprint, trusted)

    @cached_property
    def signer(self) -> x509.Certificate:
        """The certificate that the reply was signed with."""
        data = self.response.signed_data
        if not data.certificates:
            raise TimestampError("it holds no certificate, so its signature cannot be checked")
        (info,) = data.signer_infos
        certificates = map(x509.load_der_x509_certificate, data.certificates)
        names = info.issuer, info.serial_number
        signers = [cert for cert in certificates if (cert.issuer, cert.serial_number) == names]
        if len(signers) != 1:
            raise TimestampError("it does not hold the one certificate that it was signed with")
        return signers[0]

    def _is_signed(self) -> bool:
        """True if the key of the signer's certificate signed the token, whoever vouches for that certificate.

        The library checks a signature under a trusted root alone. So a root made here vouches for the signer's key,
        by a certificate with the issuer and serial number of the signer's.
        """
        signer, time, root_key = self.signer, self.response.tst_info.gen_time, generate_private_key(SECP256R1())

        def certify(
            subject: x509.Name, key: CertificatePublicKeyTypes, serial: int, extension: x509.ExtensionType
        ) -> x509.Certificate:
            builder = x509.CertificateBuilder().issuer_name(signer.issuer).subject_name(subject).public_key(key)
            builder = builder.serial_number(serial).add_extension(extension, critical=True)
            builder = builder.not_valid_before(time - timedelta(days=1)).not_valid_after(time + timedelta(days=1))
            return builder.sign(root_key, SHA256())

        root_facts = x509.random_serial_number(), x509.BasicConstraints(ca=True, path_length=None)
        root = certify(signer.issuer, root_key.public_key(), *root_facts)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
        stand_in = certify(x509.Name([]), signer.public_key(), signer.serial_number, usage)
        # The signed attributes name the signer's certificate by its hash.
        content, token = signer.public_bytes(Encoding.DER), self.response.time_stamp_token()
        is_named = any(hash_of(content).digest() in token for hash_of in _HASHES)
        return is_named and self._holds_under([root], [stand_in])

    def _holds_under(
        self, roots: Sequence[x509.Certificate], intermediates: Sequence[x509.Certificate] = ()
    ) -> bool:
        verifier = VerifierBuilder(
            roots=list(roots), intermediates=list(intermediates), nonce=self.request.nonce
        ).build()
        try:
            return verifier.verify_message(self.response, self.statement)
        except VerificationError:
            return False


def _decode(reply: bytes) -> TimeStampResponse:
    """Decode a reply, also one whose certificates are not sorted as DER wants it.

    OpenSSL's authority leaves them as they come, and the library refuses that. Nothing signs their order.
    """
    try:
        return decode_timestamp_response(reply)
    except ValueError:
        signed_data = _members(_members(_members(reply)[1])[1])[0]
        (certificates,) = (member for member in _members(signed_data) if member[0] == _CERTIFICATES)
        unsorted = _members(certificates)
        return decode_timestamp_response(reply.replace(b"".join(unsorted), b"".join(sorted(unsorted))))


def _members(value: bytes) -> list[bytes]:
    """The DER values inside a DER value."""
    start, end = _extent(value)
    members = []
    while start < end:
        size = _extent(value[start : start + 9])[1]
        members.append(value[start : start + size])
        start += size
    return members


def _extent(head: bytes) -> tuple[int, int]:
    """Start and end of a DER value's content, from its first bytes."""
    if head[1] < 0x80:
        return 2, 2 + head[1]
    start = 2 + (head[1] & 0x7F)
    return start, start + int.from_bytes(head[2:start], "big")


def _is_for_timestamps(certificate: x509.Certificate) -> bool:
    """True for a certificate with a critical extended key usage that allows time stamps."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except x509.ExtensionNotFound:
        return False
    return usage.critical and ExtendedKeyUsageOID.TIME_STAMPING in usage.value


def _signer_text(subject: str, fingerprint: str) -> str:
    return f"{subject or 'nobody by name'} (certificate {fingerprint})"
