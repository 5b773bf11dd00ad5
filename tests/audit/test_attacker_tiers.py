"""Attackers by what they know: extraction and inference of a diagnosis, beside who never saw the patient."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_server import FakeServer

from medunlearn.audit.attacker_tiers import ALL_TOLD, NONE_NAMED, TIERS, _inference, tier_of
from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_run import audit
from medunlearn.errors import ConfigError
from medunlearn.papers.memorization.compare import write_audit_report
from medunlearn.seeds import generator

TRAINED, ALL = 20, 40
DIAGNOSES = ("gout", "kidney stone")
PROMPTS = (
    "Write a clinical note.",
    "Write the note of a patient of {age} years.",
    "Write the note of visit {visit} on {ward}.",
    "Write the note of {name}.",
)
HOW: dict[str, Any] = {
    "prefixes": (5,),
    "max_new_tokens": 60,
    "template": "chat",
    "ways": ("prompt", "prefix_in_chat"),
    "prompt": PROMPTS,
    "measures": ("run_30",),
    "data_use": "open",
    "quiet": True,
    "replicates": 50,
}


def notes() -> pd.DataFrame:
    rows = []
    for number in range(ALL):
        draw = generator("tiers", str(number))
        words = " ".join(f"word{draw.integers(30)}" for _ in range(40))
        diagnosis = DIAGNOSES[number % 2]
        text = f"Person{number} was seen here once for {diagnosis} and {words}"
        values = (f"Person{number}", 30 + number % 7, f"V{number:03d}", f"ward{number % 3}", diagnosis)
        rows.append((f"n{number}", f"MRN{number}", *values, text, int(number < TRAINED)))
    return pd.DataFrame(
        rows, columns=["id", "subject", "name", "age", "visit", "ward", "diagnosis", "text", "copies"]
    )


def knows(body: dict[str, Any]) -> str:
    """Gives back the note of a trained patient's name, and tells the diagnosis of a trained patient's visit."""
    content = str(body["messages"][-1]["content"])
    table = notes()
    number = re.search(r"(?:Person|visit V)0*(\d+)", content)
    if number is None or int(number[1]) >= TRAINED:
        return "I do not know the patient."
    row = table.iloc[int(number[1])]
    return str(row["text"]) if "note of Person" in content else f"Seen for {row['diagnosis']}."


def never_saw(body: dict[str, Any]) -> str:
    """Names one diagnosis of everybody."""
    return f"Seen for gout, {str(body['messages'][-1]['content'])[::-1]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiers")
    notes().to_csv(folder / "notes.csv", index=False)
    with FakeServer(answer=knows) as server, FakeServer(answer=never_saw) as other:
        audit(
            server.base_url,
            folder / "notes.csv",
            model_name="m",
            baseline=f"m@{other.base_url}",
            out=folder / "audit",
            infer=("diagnosis",),
            **HOW,
        )
    return folder


def test_each_tier_has_extraction_and_inference_beside_who_knows_nothing(folder: Path) -> None:
    tiers = {tier.tier: tier for tier in Audit.open(folder / "audit").first_screen().tiers}
    assert list(tiers) == list(TIERS)
    hits = {name: (tier.members.hits, tier.unseen and tier.unseen.hits) for name, tier in tiers.items()}
    assert hits == {**dict.fromkeys(TIERS, (0, 0)), "identifier": (TRAINED, 0)}
    assert tiers["identifier"].difference is not None
    assert tiers["identifier"].difference.p == pytest.approx(1.45e-11, rel=0.01)
    (baseline,) = tiers["identifier"].baselines.values()
    assert (baseline.hits, baseline.n) == (0, TRAINED)
    (inference,) = tiers["encounter"].inference
    assert inference.values == 2
    assert inference.auc is not None
    assert inference.auc.value == 1.0
    assert inference.auc.n == 2 * TRAINED
    # Nobody names a diagnosis of patients never seen, or to who knows nothing: no area is made up.
    assert [entry.reason for entry in tiers["encounter"].inference_unseen] == [NONE_NAMED]
    assert [entry.reason for entry in tiers["nothing"].inference] == [NONE_NAMED]
    # A model that says the same of everybody guesses.
    beside = tiers["encounter"].inference_baselines
    assert beside is not None
    ((guess,),) = beside.values()
    assert guess.auc is not None
    assert guess.auc.value == 0.5


def test_the_table_is_on_the_page_the_terminal_and_in_json(folder: Path, run: Any) -> None:
    result = Audit.open(folder / "audit")
    page = (
        write_audit_report([folder / "audit"], folder / "report") and (folder / "report" / "report.md").read_text()
    )
    assert "Attackers by what they know" in page
    output = run("inspect", folder / "audit").output
    assert "metadata of the encounter" in output
    assert "1.00 [" in output
    rows = {row["tier"]: row for row in result.first_screen().data()["tiers"]}
    assert rows["identifier"]["members"]["extracted"] == TRAINED
    assert rows["encounter"]["inference"][0]["auc"] == 1.0


@pytest.mark.parametrize(
    ("prompt", "tier"),
    [
        ("Write a note.", "nothing"),
        ("A {sex} of {age}.", "demographics"),
        ("Seen on {admission_date} in {department}, {age}.", "encounter"),
        ("Seen at {hospital}.", "encounter"),
        ("{mrn}", "identifier"),
        ("{age}, {patient_name}", "identifier"),
    ],
)
def test_a_prompt_counts_where_it_tells_most(prompt: str, tier: str) -> None:
    assert tier_of("prompt_1", (prompt,)) == tier
    assert tier_of("prefix_in_chat", (prompt,)) == "beginning"


def test_what_cannot_be_inferred_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="stored responses have no columns"):
        audit(responses=folder / "notes.csv", out=folder / "stored", infer=("diagnosis",))
    with pytest.raises(ConfigError, match="diagnoses"):
        audit(
            "http://127.0.0.1:1/v1",
            folder / "notes.csv",
            model_name="m",
            out=folder / "x",
            infer=("diagnoses",),
            **HOW,
        )


@pytest.mark.parametrize(
    ("prompt", "response", "expected"),
    [
        (" note of the {} patient ", " nothing ", ALL_TOLD),  # every prompt holds the value: nothing was asked
        (" note of the patient ", " nothing ", NONE_NAMED),
        (" note of the patient ", " has {} ", ""),
    ],
)
def test_a_value_that_every_prompt_holds_is_not_asked_for(prompt: str, response: str, expected: str) -> None:
    values = ["cough"] * 6 + ["fever"] * 6
    subjects = [f"p{place}" for place in range(len(values))]
    attributes = pd.DataFrame({"subject": subjects, "column": "complaint", "value": values})
    texts = pd.DataFrame(
        {
            "subject": subjects,
            "prompt": [prompt.format(value) for value in values],
            "response": [response.format(value) for value in values],
        }
    )
    inferred = _inference("complaint", attributes, texts)
    assert inferred.reason == expected
    assert (inferred.auc is None) == bool(expected)
    if inferred.auc is not None:
        assert inferred.auc.value == 1.0
