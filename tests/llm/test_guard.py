"""The guard, on addresses as an attacker or haste would write them."""

from __future__ import annotations

import json

import pytest

from medunlearn.data.records import Identifier, Record
from medunlearn.errors import InputError
from medunlearn.llm import FLAG, Client, RemoteRefusedError, ServerSettings, decide
from medunlearn.llm.guard import is_loopback, read_address

NAMED = Record("n1", "Ana Silva has asthma.", {"patient": "p1"}, (Identifier("name", "Ana Silva"),))
PLAIN = Record("n2", "A patient has asthma.", {"patient": "p2"})
AWAY = "https://api.example.com/v1"


HERE = (
    "http://127.0.0.1:8000/v1 http://127.9.8.7/v1 http://localhost:8000/v1 https://LocalHost/v1 "
    "http://[::1]:8000/v1 http://[0:0:0:0:0:0:0:1]/v1"
)
ELSEWHERE = (
    "http://localhost.evil.com/v1 http://localhost.:8000/v1 http://evil.localhost/v1 http://127.0.0.1.evil.com/v1 "
    "http://127.0.0.1.nip.io/v1 http://0.0.0.0:8000/v1 http://[::]:8000/v1 http://[::ffff:127.0.0.1]/v1 "
    "http://[::ffff:8.8.8.8]/v1 http://128.0.0.1/v1 http://10.0.0.7:8000/v1 http://192.168.1.2/v1 "
    "http://2130706433/v1 http://0x7f000001/v1 http://127.1/v1 http://loopback/v1 http://ip6-localhost/v1 "
    "https://api.openai.com/v1"
)
AMBIGUOUS = (
    "http://127.0.0.1@evil.com/v1 http://127.0.0.1:80@evil.com/v1 http://user:secret@127.0.0.1/v1 "
    "http://evil.com#@127.0.0.1/v1 http://127.0.0.1\\@evil.com/v1 http://127.0.0.1\\.evil.com/v1 "
    "http://evil.com?@127.0.0.1 http://127。0。0。1/v1 http://①②⑦.0.0.1/v1 http://lοcalhost/v1 "
    "http://127.0.0.1%2eevil.com/v1 http://[::1%25eth0]/v1 http://[::1/v1 http://127.0.0.1:99999/v1 "
    "http://127.0.0.1:8a/v1 http://127.0.0.1:0/v1 http://0177.0.0.1/v1 http:///v1 http:127.0.0.1/v1 //127.0.0.1/v1 "
    "127.0.0.1:8000 localhost:8000/v1 ftp://127.0.0.1/v1 file:///etc/passwd unix:///tmp/llm.sock"
)
WITH_SPACES = (
    "",
    "http://127.0.0.1 .evil.com/v1",
    "http://127.0.0.1\t/v1",
    "http://127.0.0.1\r\nHost: evil.com/v1",
)


@pytest.mark.parametrize("address", HERE.split())
def test_this_machine_gets_everything(address: str) -> None:
    decision = decide(address, data_use="credentialed", records=[NAMED])
    assert decision.allowed
    assert decision.on_this_machine
    assert decision.why_not("Ana Silva", None) == ""


@pytest.mark.parametrize("address", ELSEWHERE.split())
def test_everything_else_is_away(address: str) -> None:
    decision = decide(address, data_use="credentialed")
    assert not decision.on_this_machine
    assert not decision.allowed
    with pytest.raises(RemoteRefusedError, match="the data is credentialed"):
        decision.enforce()


@pytest.mark.parametrize("address", [*AMBIGUOUS.split(), *WITH_SPACES])
def test_addresses_that_two_readers_could_read_in_two_ways_are_refused(address: str) -> None:
    with pytest.raises(InputError) as caught:
        decide(address, data_use="open")
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError):
        ServerSettings(base_url=address, model="m")


def test_the_parser_is_the_one_that_connects() -> None:
    """The host is read by httpx, which makes the connection, whatever its case or form."""
    assert read_address("HTTP://LOCALHOST:80/v1").host == "localhost"
    assert is_loopback(read_address("http://[0::1]/v1").host)


def test_open_data_without_identifiers_may_go() -> None:
    decision = decide(AWAY, data_use="open", records=[PLAIN]).enforce()
    assert decision.encrypted
    assert "no record carries" in decision.reason


def test_records_with_identifiers_stay_without_the_flag() -> None:
    decision = decide(AWAY, data_use="open", records=[NAMED, PLAIN, NAMED])
    assert not decision.allowed
    assert "2 records carry identifiers" in decision.reason
    assert FLAG in decision.reason
    assert "Ana" not in json.dumps(decision.to_json())
    both = decide(AWAY, data_use="credentialed", records=[NAMED])
    assert "the data is credentialed and 1 records carry identifiers" in both.reason


def test_the_flag_permits_and_is_on_record() -> None:
    decision = decide("http://gpu7:8000/v1", data_use="credentialed", records=[NAMED], permitted=True).enforce()
    logged = decision.to_json()
    assert logged["server"] == "http://gpu7:8000"
    assert (logged["permitted"], logged["on_this_machine"], logged["encrypted"]) == (True, False, False)
    assert decision.why_not("Ana Silva", ("Ana Silva",)) == ""


def test_the_last_look_before_the_wire() -> None:
    decision = decide(AWAY, data_use="open", records=[PLAIN])
    assert decision.why_not("A patient.", ("Ana Silva", " ")) == ""
    assert "known identifier" in decision.why_not("note: ANA\n  Silva has asthma", ("Ana Silva",))
    assert "nobody said" in decision.why_not("A patient.", None)


def test_a_client_is_not_made_against_the_decision() -> None:
    settings = ServerSettings(base_url=AWAY, model="m")
    with pytest.raises(RemoteRefusedError, match=FLAG):
        Client(settings, decide(AWAY, data_use="credentialed"))
    with pytest.raises(InputError, match=r"decision is about http://127\.0\.0\.1"):
        Client(settings, decide("http://127.0.0.1/v1", data_use="open"))
