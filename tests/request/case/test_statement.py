"""DSSE envelopes against the protocol's test vectors and an independent implementation."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner, SSlibKey

from medunlearn.request.case.signing_keys import key_id, public_pem
from medunlearn.request.case.statement import IN_TOTO, SignatureError, is_as_written, pae, sign, verified_payload

# RFC 8032, section 7.1, tests 1 and 2; the envelopes are those of the protocol's test vectors.
KEY = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
)
OTHER = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
)
BODY = b'{"_type":"https://in-toto.io/Statement/v1"}'
SIGNED = "2WAfaHm5jluo0w+0rk8uVkluELJYWjSmU9x7EUzx+AyteDGJ4/nqyJXfmAUVFIAoQafWm7AxBZNw5M9ixNHiCA=="
VECTORS = [
    (IN_TOTO, BODY, SIGNED),
    (IN_TOTO, b"\xfb\xff\xbf>?", "P-_KHICeR7tI6S_YyejJTRtrXhcQyQ2LYPaL8h90KjC9qN8HU_svOQ6TuDOT1HIrsGW886DbWNWcCmX5twLrAw=="),  # noqa: E501
    ("application/vnd.exämple+json", BODY, "xmSk/ug66ysT7ayhkCIjhAq42zgZXSsEWuzUaNL7w2eGAdF/NU6/fRXPtmfN+5DNSAs5/i2lUnHjbbjPsu0tAw=="),  # noqa: E501
    (IN_TOTO, b"", "gSggCAaTLTYyRH6FIDBem6meyIynsYy8RTHVzwx9tnTb7Bg/1jMWnuVgI/gffqmbsC2VX5/jHfkkDqsj7CDbDg=="),
]  # fmt: skip


def envelope(kind: str, body: bytes, *signatures: str) -> bytes:
    content = {"payload": base64.b64encode(body).decode(), "payloadType": kind}
    return json.dumps({**content, "signatures": [{"sig": text} for text in signatures]}).encode()


def test_the_pre_authentication_encoding_of_the_protocol() -> None:
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pae("ä", b"") == b"DSSEv1 2 \xc3\xa4 0 "


@pytest.mark.parametrize(("kind", "body", "signature"), VECTORS)
def test_signatures_of_the_test_vectors(kind: str, body: bytes, signature: str) -> None:
    """Ed25519 signatures are deterministic: ours are theirs; both alphabets of Base64 are read."""
    ours = json.loads(sign(kind, body, KEY))
    assert ours["signatures"][0]["sig"] == signature.replace("-", "+").replace("_", "/")
    assert verified_payload(envelope(kind, body, signature), KEY.public_key(), (kind,)) == body
    url_safe = json.loads(envelope(kind, body, signature))
    url_safe["payload"] = base64.urlsafe_b64encode(body).decode()
    assert verified_payload(json.dumps(url_safe).encode(), KEY.public_key(), (kind,)) == body


def test_another_type_payload_or_key_is_refused() -> None:
    swapped = envelope("application/vnd.example.other+json", BODY, SIGNED)
    for content, types in (
        (swapped, (IN_TOTO,)),
        (swapped, (IN_TOTO, "application/vnd.example.other+json")),
        (envelope("", BODY, "iC3q/+3Rm0+lpAJRueDmDh15PnwCfxKmS0NAfKsbv+zgulXQC/WM9trc+j1XEqlwDIg/vf/uNfebeD6sxInrDg=="), (IN_TOTO,)),  # noqa: E501
        (envelope(IN_TOTO, BODY + b" ", SIGNED), (IN_TOTO,)),
    ):  # fmt: skip
        with pytest.raises(SignatureError):
            verified_payload(content, KEY.public_key(), types)
    with pytest.raises(SignatureError, match="did not sign"):
        verified_payload(envelope(IN_TOTO, BODY, SIGNED), OTHER.public_key())


def test_one_of_several_signatures_is_enough() -> None:
    others = json.loads(sign(IN_TOTO, BODY, OTHER))["signatures"][0]["sig"]
    both = envelope(IN_TOTO, BODY, others, SIGNED)
    assert verified_payload(both, KEY.public_key()) == verified_payload(both, OTHER.public_key()) == BODY
    assert not is_as_written(both, OTHER.public_key())


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"signatures": []}', b'{"signatures": [1]}',
        b'{"payload": 1, "signatures": [{"sig": ""}]}', b'{"payload": "", "signatures": [{}]}',
        envelope(IN_TOTO, BODY, "no base64"), envelope(IN_TOTO, BODY, "AA=="), envelope(IN_TOTO, BODY, "ä"),
    ],
)  # fmt: skip
def test_what_is_no_envelope_is_refused(content: bytes) -> None:
    with pytest.raises(SignatureError):
        verified_payload(content, KEY.public_key())


def test_another_implementation_reads_ours_and_we_read_theirs() -> None:
    public = SSlibKey.from_crypto(KEY.public_key(), keyid=key_id(KEY.public_key()))
    theirs = Envelope.from_dict(json.loads(sign(IN_TOTO, BODY, KEY)))
    assert theirs.pae() == pae(IN_TOTO, BODY)
    assert list(theirs.verify([public], 1)) == [public.keyid]
    envelope = Envelope(BODY, IN_TOTO, {})
    envelope.sign(CryptoSigner(KEY, public))
    assert verified_payload(json.dumps(envelope.to_dict()).encode(), KEY.public_key()) == BODY


def test_every_byte_of_an_envelope_counts() -> None:
    content = sign(IN_TOTO, BODY, KEY)
    assert is_as_written(content, KEY.public_key())
    for place in range(len(content)):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        try:
            verified_payload(changed, KEY.public_key())
        except SignatureError:
            continue
        assert not is_as_written(changed, KEY.public_key()), content[place : place + 1]


def test_the_key_id_is_that_of_openssl() -> None:
    """SHA-256 of the DER form, whose first twelve bytes RFC 8410 fixes."""
    raw = KEY.public_key().public_bytes_raw()
    assert key_id(KEY.public_key()) == hashlib.sha256(bytes.fromhex("302a300506032b6570032100") + raw).hexdigest()
    assert public_pem(KEY.public_key()).startswith(b"-----BEGIN PUBLIC KEY-----")
