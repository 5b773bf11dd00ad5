"""Time stamps: an authority on this machine, its signature and certificate, and nothing sent unasked."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from case_evidence import AUTHORITY
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pages import run_line
from rfc3161_client import HashAlgorithm, TimestampRequestBuilder, decode_timestamp_response

from medunlearn.errors import ConfigError, InputError
from medunlearn.request.case.case_checks import verify_case
from medunlearn.request.case.case_folder import CaseFolder
from medunlearn.request.case.timestamp_checks import (
    TimestampError,
    _is_for_timestamps,
    read_certificates,
    read_timestamp,
)
from medunlearn.request.case.timestamps import timestamp_case
from medunlearn.results.verify import Check

OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the command openssl")
CONFIG = """
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
default_policy = 1.2.3.4
digests = sha256
signer_digest = sha256
ess_cert_id_alg = {digest}
"""
DAY = timedelta(days=1)
UNCHECKED = "whose certificate was not checked against one that you trust"


@dataclass(frozen=True)
class Issuer:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey

    @staticmethod
    def make(name: str, above: Issuer | None = None, *, ca: bool = False, age: timedelta = DAY) -> Issuer:
        key = generate_private_key(SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        start = datetime.now(UTC) - age
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if above is None else above.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + 2 * DAY)
            .add_extension(x509.BasicConstraints(ca, None), critical=True)
        )
        if not ca:
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
            builder = builder.add_extension(usage, critical=True)
        return Issuer(builder.sign(key if above is None else above.key, SHA256()), key)

    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


@dataclass(frozen=True)
class Authority:
    """OpenSSL's own authority, with certificates made here."""

    folder: Path

    @staticmethod
    def make(folder: Path, signer: Issuer, chain: tuple[Issuer, ...] = (), digest: str = "sha256") -> Authority:
        folder.mkdir()
        key = signer.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / "tsa.key").write_bytes(key)
        (folder / "tsa.pem").write_bytes(signer.pem())
        (folder / "chain.pem").write_bytes(b"".join(own.pem() for own in chain))
        config = CONFIG.format(folder=folder, digest=digest)
        (folder / "tsa.cnf").write_text(config + f"certs = {folder}/chain.pem\n" * bool(chain))
        (folder / "serial").write_text("01\n")
        return Authority(folder)

    @property
    def words(self) -> list[str]:
        """Words of a command that answers queries."""
        return ["openssl", "ts", "-reply", "-queryfile", "/dev/stdin", "-config", str(self.folder / "tsa.cnf")]

    @property
    def command(self) -> str:
        return shlex.join(self.words)

    @property
    def certificate(self) -> Path:
        return self.folder / "tsa.pem"

    def reply(self, query: bytes) -> bytes:
        return subprocess.run(self.words, input=query, check=True, capture_output=True).stdout


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "tsa", Issuer.make("tsa"))


def stamp_check(folder: Path, trusted: Path | None = None) -> Check:
    """The check of the time stamp among those of a case."""
    certificates = () if trusted is None else read_certificates(trusted)
    (check,) = (c for c in verify_case(folder, authority=certificates).checks if c.what == "time stamp")
    return check


def query_of_an_older_version(content: bytes, nonce: int) -> bytes:
    """A query as it was written before: version, SHA-256, a nonce of at most 63 bits, certificates wanted."""

    def der(tag: int, *parts: bytes) -> bytes:
        value = b"".join(parts)
        return bytes([tag, len(value)]) + value

    sha256 = bytes.fromhex("300d06096086480165030402010500")
    imprint = der(0x30, sha256, der(0x04, hashlib.sha256(content).digest()))
    number = nonce.to_bytes(nonce.bit_length() // 8 + 1, "big")
    return der(0x30, der(0x02, b"\x01"), imprint, der(0x02, number), der(0x01, b"\xff"))


@OPENSSL
@pytest.mark.parametrize("nonce", [0, 1, 127, 128, 2**63 - 1])
def test_stamps_of_older_versions_still_hold(case: CaseFolder, authority: Authority, nonce: int) -> None:
    query = query_of_an_older_version((case.folder / "statement.dsse.json").read_bytes(), nonce)
    (case.folder / "statement.tsq").write_bytes(query)
    (case.folder / "statement.tsr").write_bytes(authority.reply(query))
    assert stamp_check(case.folder).state == "not checked"
    assert stamp_check(case.folder, authority.certificate).state == "ok"


@OPENSSL
def test_openssl_reads_the_query(case: CaseFolder, authority: Authority) -> None:
    timestamp_case(case.folder, command=authority.command)
    words = ["openssl", "ts", "-query", "-in", case.folder / "statement.tsq", "-text"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256((case.folder / "statement.dsse.json").read_bytes()).digest()
    assert "Hash Algorithm: sha256" in text
    assert digest[:8].hex(" ") in text
    assert "Nonce: 0x" in text
    assert "Certificate required: yes" in text


@OPENSSL
def test_a_time_stamp_of_a_command_and_of_an_address(
    case: CaseFolder, authority: Authority, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(case.folder, other)
    before = datetime.now(UTC)
    stamp = timestamp_case(case.folder, command=authority.command)
    assert stamp.path == case.folder / "statement.tsr"
    assert (stamp.subject, stamp.trusted) == ("CN=tsa", False)
    assert abs(stamp.time - before) < timedelta(minutes=1)
    with _served(authority) as address:
        assert timestamp_case(other, url=address, authority=read_certificates(authority.certificate)).trusted
    for folder in (case.folder, other):
        check = ["openssl", "ts", "-verify", "-in", "statement.tsr", "-data", "statement.dsse.json", "-CAfile"]
        subprocess.run([*check, authority.certificate], cwd=folder, check=True, capture_output=True)
        assert verify_case(folder).wrong == []
        assert stamp_check(folder).state == "not checked"
        assert f"signed by CN=tsa (certificate {stamp.fingerprint}), {UNCHECKED}" in stamp_check(folder).note
        vouched = stamp_check(folder, authority.certificate)
        assert vouched.state == "ok"
        assert UNCHECKED not in vouched.note
    with pytest.raises(InputError, match="has a time stamp already"):
        timestamp_case(case.folder, command="false")
    # The other case's stamp has another nonce, and its query is not this one's.
    shutil.copy(other / "statement.tsr", case.folder)
    assert [check.name for check in verify_case(case.folder).wrong] == ["statement.tsr"]
    assert "answers another query" in stamp_check(case.folder).note


@OPENSSL
def test_a_stamp_of_another_statement_is_told(case: CaseFolder, authority: Authority) -> None:
    timestamp_case(case.folder, command=authority.command)
    (case.folder / "statement.dsse.json").write_bytes(b"{}")
    problems = {check.name: check.note for check in verify_case(case.folder).wrong}
    assert problems["statement.tsr"] == "it is of another statement"


@OPENSSL
@pytest.mark.parametrize("digest", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("trusted", ["root", "middle and root", "signer"])
def test_a_certificate_below_a_trusted_one_is_vouched_for(
    case: CaseFolder, tmp_path: Path, trusted: str, digest: str
) -> None:
    root = Issuer.make("root", ca=True)
    middle = Issuer.make("middle", root, ca=True)
    signer = Issuer.make("signer", middle)
    authority = Authority.make(tmp_path / "tsa", signer, (middle,), digest)
    parts = {"root": root, "middle": middle, "signer": signer}
    pem = tmp_path / "trusted.pem"
    pem.write_bytes(b"".join(parts[name].pem() for name in trusted.split(" and ")))
    stamp = timestamp_case(case.folder, command=authority.command, authority=read_certificates(pem))
    assert (stamp.subject, stamp.trusted) == ("CN=signer", True)
    assert stamp.fingerprint == signer.certificate.fingerprint(SHA256()).hex()
    assert stamp_check(case.folder, pem).state == "ok"
    assert stamp_check(case.folder).state == "not checked"


@OPENSSL
@pytest.mark.parametrize("name", ["a long name of a signer, so that its certificate is the longest", "x"])
def test_certificates_in_any_order(case: CaseFolder, tmp_path: Path, name: str) -> None:
    """DER sorts a set, and OpenSSL does not: it puts the signer first."""
    root = Issuer.make("the root", ca=True)
    authority = Authority.make(tmp_path / "tsa", Issuer.make(name, root), (root,))
    reply = timestamp_case(case.folder, command=authority.command).path.read_bytes()
    if len(name) > 1:
        with pytest.raises(ValueError, match="InvalidSetOrdering"):
            decode_timestamp_response(reply)
    (tmp_path / "root.pem").write_bytes(root.pem())
    assert stamp_check(case.folder, tmp_path / "root.pem").state == "ok"


@OPENSSL
def test_another_authority_than_the_trusted_one(case: CaseFolder, authority: Authority, tmp_path: Path) -> None:
    """Same names, another key: what an impostor makes."""
    impostor = Authority.make(tmp_path / "impostor", Issuer.make("tsa"))
    trusted = read_certificates(authority.certificate)
    with pytest.raises(TimestampError, match=r"not taken: another authority signed it, CN=tsa"):
        timestamp_case(case.folder, command=impostor.command, authority=trusted)
    assert not (case.folder / "statement.tsr").exists()
    timestamp_case(case.folder, command=impostor.command)
    check = stamp_check(case.folder, authority.certificate)
    assert check.state == "differs"
    assert "no certificate that you trust vouches for it" in check.note
    # The root that the impostor's reply brings along vouches for nothing.
    root = Issuer.make("root", ca=True)
    signer = Issuer.make("signer", root)
    with_root = Authority.make(tmp_path / "with-root", signer, (root,))
    (case.folder / "statement.tsr").unlink()
    with pytest.raises(TimestampError, match="another authority"):
        timestamp_case(case.folder, command=with_root.command, authority=trusted)


@OPENSSL
@pytest.mark.parametrize("age", [9 * DAY, -9 * DAY])
def test_a_certificate_that_was_not_valid_then(case: CaseFolder, tmp_path: Path, age: timedelta) -> None:
    authority = Authority.make(tmp_path / "tsa", Issuer.make("tsa", age=age))
    for trusted in ((), read_certificates(authority.certificate)):
        with pytest.raises(TimestampError, match="the certificate of CN=tsa was not valid at the time"):
            timestamp_case(case.folder, command=authority.command, authority=trusted)


@OPENSSL
def test_a_root_that_was_not_valid_then_vouches_for_nothing(case: CaseFolder, tmp_path: Path) -> None:
    root = Issuer.make("root", ca=True, age=9 * DAY)
    authority = Authority.make(tmp_path / "tsa", Issuer.make("tsa", root))
    (tmp_path / "root.pem").write_bytes(root.pem())
    timestamp_case(case.folder, command=authority.command)
    assert stamp_check(case.folder, tmp_path / "root.pem").state == "differs"


@OPENSSL
def test_a_reply_without_a_certificate(case: CaseFolder, authority: Authority) -> None:
    statement = (case.folder / "statement.dsse.json").read_bytes()
    query = TimestampRequestBuilder(statement, HashAlgorithm.SHA256, cert_req=False).build().as_bytes()
    (case.folder / "statement.tsq").write_bytes(query)
    (case.folder / "statement.tsr").write_bytes(authority.reply(query))
    for trusted in (None, authority.certificate):
        check = stamp_check(case.folder, trusted)
        assert (check.state, check.note) == (
            "differs",
            "it holds no certificate, so its signature cannot be checked",
        )


def test_a_certificate_for_something_else() -> None:
    assert _is_for_timestamps(Issuer.make("tsa").certificate)
    assert not _is_for_timestamps(Issuer.make("root", ca=True).certificate)


@OPENSSL
def test_every_altered_byte_is_told(case: CaseFolder, authority: Authority) -> None:
    timestamp_case(case.folder, command=authority.command)
    path = case.folder / "statement.tsr"
    reply = path.read_bytes()
    # Two version numbers, and the name of the signature's method. Nothing signs them, and no reader goes by them.
    method = bytes.fromhex("06082a8648ce3d040302")
    unsigned = {reply.index(b"\x02\x01\x03\x31") + 2, reply.rindex(b"\x02\x01\x01\x30") + 2}
    unsigned |= {reply.rindex(method) + place for place in range(len(method))}
    problems = set()
    for place in sorted({*range(len(reply))} - unsigned):
        path.write_bytes(reply[:place] + bytes([reply[place] ^ 1 << place % 8]) + reply[place + 1 :])
        with pytest.raises(TimestampError) as refused:
            read_timestamp(case.folder)
        problems.add(str(refused.value))
    for why in ("signature is wrong", "another statement", "another query", "not valid at", "not made for"):
        assert [problem for problem in problems if why in problem], why
    path.write_bytes(reply + b"\0")
    assert stamp_check(case.folder).state == "differs"
    path.write_bytes(reply[:-1])
    assert stamp_check(case.folder).state == "differs"
    path.write_bytes(reply)
    assert stamp_check(case.folder).state == "not checked"


@OPENSSL
def test_a_stamp_that_was_taken_away_is_missed(case: CaseFolder, authority: Authority) -> None:
    assert stamp_check(case.folder, authority.certificate).state == "missing"
    timestamp_case(case.folder, command=authority.command)
    (case.folder / "statement.tsq").rename(case.folder / "moved")
    assert stamp_check(case.folder).state == "differs"
    (case.folder / "moved").rename(case.folder / "statement.tsq")
    (case.folder / "statement.tsr").unlink()
    assert stamp_check(case.folder).state == "missing"


@OPENSSL
def test_the_commands_tell_who_signed(case: CaseFolder, authority: Authority, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(Issuer.make("other").pem())
    request = f"case timestamp {case.folder} --command {shlex.quote(authority.command)}"
    assert "another authority signed it" in run_line(f"{request} --authority {other}", code=1).output
    facts = json.loads(run_line(f"{request} --authority {authority.certificate} --json").stdout)
    assert (facts["subject"], facts["trusted"]) == ("CN=tsa", True)
    assert facts["reply"] == str(case.folder / "statement.tsr")
    said = run_line(f"verify {case.folder} --json").stdout
    assert UNCHECKED in said
    assert facts["fingerprint"] in said
    run_line(f"verify {case.folder} --authority {authority.certificate}")
    assert "another authority" in " ".join(
        run_line(f"verify {case.folder} --authority {other}", code=1).output.split()
    )
    wrong = run_line(f"verify {tmp_path} --authority {other} --identifiers {other}", code=2).output
    assert "--authority is for a case" in wrong


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("false", "gave no time stamp"),
        (f"{sys.executable} -c 'print(1)'", "no RFC 3161"),
        ("cat", "no RFC 3161"),
        ("http://127.0.0.1:9/", "gave no time stamp"),
        # A refusal, PKIStatus 2; a granted reply without a token.
        (
            f"{sys.executable} -c 'print(end=chr(48)+chr(5)+chr(48)+chr(3)+chr(2)+chr(1)+chr(2))'",
            "refused .status 2",
        ),
        (f"{sys.executable} -c 'print(end=chr(48)+chr(5)+chr(48)+chr(3)+chr(2)+chr(1)+chr(0))'", "no RFC 3161"),
    ],
)
def test_an_authority_that_gives_none_leaves_the_case_whole(case: CaseFolder, command: str, why: str) -> None:
    before = sorted(path.name for path in case.folder.iterdir())
    with pytest.raises(TimestampError, match=why):
        timestamp_case(case.folder, **{"url" if command.startswith("http:") else "command": command})
    assert sorted(path.name for path in case.folder.iterdir()) == before
    assert verify_case(case.folder).wrong == []


def test_mistakes(case: CaseFolder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no case"):
        timestamp_case(tmp_path, command="cat")
    with pytest.raises(InputError, match="no command"):
        timestamp_case(case.folder, command="no-such-command-here")
    with pytest.raises(InputError, match="empty"):
        timestamp_case(case.folder, command=" ")
    for wrong in ({}, {"url": "http://x", "command": "cat"}, {"url": "cat"}, {"url": "/tmp"}):
        with pytest.raises(ConfigError):
            timestamp_case(case.folder, **wrong)
    (tmp_path / "key.pem").write_bytes((case.folder / "public-key.pem").read_bytes())
    (tmp_path / "cert.der").write_bytes(Issuer.make("tsa").certificate.public_bytes(Encoding.DER))
    for name in ("key.pem", "cert.der"):
        with pytest.raises(InputError, match="holds no certificate"):
            read_certificates(tmp_path / name)
    with pytest.raises(InputError, match="There is no file"):
        read_certificates(tmp_path / "nowhere.pem")


@contextmanager
def _served(authority: Authority) -> Iterator[str]:
    """An authority behind an address of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/timestamp-query"
            reply = authority.reply(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_time_stamp_that_nobody_signed(case: CaseFolder) -> None:
    """As a program in the authority's place grants it, put beside the case by hand."""
    statement = (case.folder / "statement.dsse.json").read_bytes()
    query = TimestampRequestBuilder(statement, HashAlgorithm.SHA256).build().as_bytes()
    (case.folder / "statement.tsq").write_bytes(query)
    words = [sys.executable, "-c", AUTHORITY]
    reply = subprocess.run(words, input=query, capture_output=True, check=True).stdout
    (case.folder / "statement.tsr").write_bytes(reply)
    (wrong,) = verify_case(case.folder).wrong
    assert (wrong.what, wrong.state) == ("time stamp", "differs")
    (case.folder / "statement.tsr").unlink()
    (wrong,) = verify_case(case.folder).wrong
    assert (wrong.what, wrong.state) == ("time stamp", "missing")
