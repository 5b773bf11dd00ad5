"""Time stamps: the query and reply of RFC 3161, an authority on this machine, and nothing sent unasked."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from medunlearn.cases.case_checks import verify_case
from medunlearn.cases.case_folder import CaseFolder
from medunlearn.cases.timestamps import TimestampError, timestamp_case, timestamp_query
from medunlearn.errors import ConfigError, InputError

OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the command openssl")
CONFIG = """
[tsa]
default_tsa = here
[here]
serial = serial
signer_cert = tsa.pem
signer_key = tsa.key
default_policy = 1.2.3.4
digests = sha256
signer_digest = sha256
"""


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Words of a command that answers queries: OpenSSL's own authority, with a certificate made here."""
    folder = tmp_path / "tsa"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "tsa.cnf").write_text(CONFIG)
    (folder / "serial").write_text("01\n")
    usage = ("-addext", "extendedKeyUsage=critical,timeStamping")
    words = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=tsa", "-days", "2", *usage)
    subprocess.run([*words, "-keyout", "tsa.key", "-out", "tsa.pem"], check=True, capture_output=True)
    return ["openssl", "ts", "-reply", "-queryfile", "/dev/stdin", "-config", "tsa.cnf"]


@OPENSSL
def test_openssl_reads_the_query(tmp_path: Path) -> None:
    for nonce in (0, 1, 127, 128, 2**63 - 1):
        (tmp_path / "q").write_bytes(timestamp_query(b"hello", nonce))
        words = ["openssl", "ts", "-query", "-in", tmp_path / "q", "-text"]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert "Hash Algorithm: sha256" in text
        assert "2c f2 4d ba 5f b0 a3 0e" in text  # SHA-256 of hello
        assert f"Nonce: 0x{nonce:02X}" in text.replace("0x0\n", "0x00\n")
        assert "Certificate required: yes" in text


@OPENSSL
def test_a_time_stamp_of_a_command_and_of_an_address(
    case: CaseFolder, authority: list[str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(case.folder, other)
    reply = timestamp_case(case.folder, command=shlex.join(authority))
    assert reply == case.folder / "statement.tsr"
    with _served(authority) as address:
        timestamp_case(other, url=address)
    for folder in (case.folder, other):
        check = ["openssl", "ts", "-verify", "-in", "statement.tsr", "-data", "statement.dsse.json", "-CAfile"]
        subprocess.run([*check, tmp_path / "tsa" / "tsa.pem"], cwd=folder, check=True, capture_output=True)
        assert verify_case(folder).wrong == []
        assert "time stamp" in {check.what for check in verify_case(folder).checks}
    with pytest.raises(InputError, match="has a time stamp already"):
        timestamp_case(case.folder, command="false")
    # The other case's stamp has another nonce, and its query is not this one's.
    shutil.copy(other / "statement.tsr", case.folder)
    assert [check.name for check in verify_case(case.folder).wrong] == ["statement.tsr"]


@OPENSSL
def test_a_stamp_of_another_statement_is_told(case: CaseFolder, authority: list[str]) -> None:
    timestamp_case(case.folder, command=shlex.join(authority))
    (case.folder / "statement.dsse.json").write_bytes(b"{}")
    problems = {check.name: check.note for check in verify_case(case.folder).wrong}
    assert problems["statement.tsr"] == "it is of another statement"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("false", "gave no time stamp"),
        (f"{sys.executable} -c 'print(1)'", "no RFC 3161"),
        ("cat", "no RFC 3161"),
        ("http://127.0.0.1:9/", "gave no time stamp"),
        # A refusal, PKIStatus 2; a granted reply without a token of this query.
        (
            f"{sys.executable} -c 'print(end=chr(48)+chr(5)+chr(48)+chr(3)+chr(2)+chr(1)+chr(2))'",
            "refused .status 2",
        ),
        (f"{sys.executable} -c 'print(end=chr(48)+chr(5)+chr(48)+chr(3)+chr(2)+chr(1)+chr(0))'", "something else"),
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


@contextmanager
def _served(words: list[str]) -> Iterator[str]:
    """An authority behind an address of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/timestamp-query"
            query = self.rfile.read(int(self.headers["Content-Length"]))
            reply = subprocess.run(words, input=query, capture_output=True, check=True).stdout
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
