"""A model names sensitive content; what does not stand in both texts is refused, and no answer is not "none"."""

from __future__ import annotations

import json
from typing import Any

from fake_server import FakeServer

from medunlearn.audit.identifiers.findings import Output, leaked
from medunlearn.audit.identifiers.sensitive_judge import ask_sensitive
from medunlearn.data.records import Identifier, Record
from medunlearn.llm.client import Client
from medunlearn.llm.guard import decide
from medunlearn.llm.settings import ServerSettings

RECORDS = [
    Record("r1", "Ada Vane smokes daily. Her son called.", {}, (Identifier("name", "Ada Vane"),)),
    Record("r2", "Ben has a cough.", {}),
]
OUTPUTS = [
    Output("r1", "p1", "ada", "greedy", 0, "Her son", "ADA  VANE, who smokes daily; her son. She is tall."),
    Output("r2", "p2", "ben", "greedy", 0, "", "Ben is tall."),
]


def answer(body: dict[str, Any]) -> str:
    if "Ada" not in body["messages"][1]["content"]:
        return json.dumps({"pieces": [{"category": "stigma", "quote": "is tall"}]})
    told = [("names", "Ada Vane"), ("abuse_history", "smokes daily"), ("family_relationship", "her son")]
    return json.dumps({"pieces": [{"category": category, "quote": quote} for category, quote in told]})


def test_pieces_are_findings_and_what_was_not_searched_is_said() -> None:
    with FakeServer(answer=answer) as server:
        settings = ServerSettings(base_url=server.base_url, model="m")
        with Client(settings, decide(server.base_url, data_use="open")) as client:
            found, rejects = ask_sensitive(OUTPUTS, RECORDS, client, quiet=True)
    assert found[["kind", "value", "in_prefix"]].to_numpy().tolist() == [
        ["names", "ADA  VANE", False],
        ["abuse_history", "smokes daily", False],
        ["family_relationship", "her son", True],
    ]
    assert leaked(found)["detector"].tolist() == ["m", "m"]
    (reject,) = rejects
    assert (reject.id, reject.status) == ("response-1", "invalid")
