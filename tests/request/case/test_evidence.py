"""The evidence against its published schema, and what may not stand in it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from case_evidence import case_evidence, checked, measured
from pydantic import ValidationError

from medunlearn.errors import InputError
from medunlearn.request.case.digests import WITHHELD, public_settings
from medunlearn.request.case.evidence import SCHEMA, Battery, CaseEvidence, json_schema


def test_the_published_schema_is_that_of_the_classes() -> None:
    """Where it differs: write ``json_schema()`` into the file; raise FORMAT if old files can no longer be read."""
    assert json.loads(SCHEMA.read_text()) == json_schema()


def test_evidence_matches_its_schema_and_is_read_back() -> None:
    evidence = case_evidence()
    content = evidence.content()
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    validator.check_schema(validator.schema)
    validator.validate(json.loads(content))
    assert CaseEvidence.of(content, "x") == evidence


def changed(*keys: Any, value: Any) -> bytes:
    content = json.loads(case_evidence().content())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("request", "patients"), ["patient-0007"]),
        (("request", "patients"), []),
        (("request", "name"), "Ada"),
        (("model_out", "files"), {"/home/x/model.safetensors": {"sha256": "ab" * 32, "bytes": 1}}),
        (("battery", "checks", 0, "after", "value"), float("nan")),
        (("battery", "checks", 0, "after", "value"), None),
        (("battery", "checks", 0, "comparison", "p"), 1.5),
        (("decision", "verdict"), "erased"),
        (("created",), "2026-03-09T10:30:00"),
    ],
)
def test_what_does_not_match_is_refused_by_schema_and_reader(keys: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(InputError, match="x does not match its schema"):
        CaseEvidence.of(changed(*keys, value=value), "x")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff\xfe", changed("format", value="medunlearn-evidence/9")]
)
def test_other_files_and_versions_are_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="x "):
        CaseEvidence.of(content, "x")


def test_two_checks_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="one name"):
        Battery(name="b", version="1", checks=(checked(), checked()))
    with pytest.raises(ValidationError, match="low is above high"):
        measured(0.5, 0.6, 0.4)


def test_settings_lose_paths_and_patients_and_keep_numbers() -> None:
    settings = {
        "lr": 1e-5, "steps": 3, "precision": "bf16", "save": True, "beta": None, "layers": [1, "last"],
        "split": "patient=4711", "model": "tiny", "npo": {"beta": 0.1, "reference": "runs/a", "kind": "a b"},
        "file": "/srv/notes.csv", "of": "patient=4711", "long": "x" * 41,
    }  # fmt: skip
    assert public_settings(settings) == {
        "lr": 1e-5, "steps": 3, "precision": "bf16", "save": True, "beta": None, "layers": [1, "last"],
        "split": WITHHELD, "model": WITHHELD, "npo": {"beta": 0.1, "reference": WITHHELD, "kind": WITHHELD},
        "file": WITHHELD, "of": WITHHELD, "long": WITHHELD,
    }  # fmt: skip


def test_what_others_kept_is_read_in_the_direction_of_the_measure() -> None:
    loss, accuracy = case_evidence().costs
    assert loss.retained_share == pytest.approx(1.312 / 1.339)
    assert accuracy.retained_share == pytest.approx(0.604 / 0.612)
    assert loss.within is True
    worse = loss.model_copy(update={"after": measured(2.0)})
    assert worse.within is False
    assert loss.model_copy(update={"after": measured(None)}).within is None
