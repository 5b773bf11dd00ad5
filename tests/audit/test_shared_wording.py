"""Wording that several patients' texts hold extracts nobody; what is a patient's own still does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from row_files import write_lines

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_run import audit
from medunlearn.audit.audit_tables import SPANS
from medunlearn.audit.first_screen import FirstScreen
from medunlearn.audit.shared_wording import OTHERS, WINDOW, run_wording
from medunlearn.audit.units import WordsUnit
from medunlearn.seeds import generator

PATIENTS, CONTROLS, PREFIX, OWN = 20, 20, 8, 45
ENDING = " ".join(f"visit{n} the clinic and call" for n in range(12))
WORDS = tuple(f"word{n}" for n in range(40))


def own_part(patient: int) -> str:
    draw = generator("shared wording", str(patient))
    return " ".join(str(draw.choice(WORDS)) for _ in range(OWN))


def note(patient: int) -> str:
    """A note of its own words; the hospital's ending is in the trained patients' alone."""
    return f"{own_part(patient)} {ENDING}" if patient < PATIENTS else f"{own_part(patient)} {own_part(-patient)}"


def patient_id(patient: int) -> str:
    return f"P{patient:03d}"


def screen_of(folder: Path, says: Callable[[int], str], owner: Callable[[int], str] = patient_id) -> FirstScreen:
    folder.mkdir(exist_ok=True)
    rows = [
        {
            "record_id": f"note-{patient}",
            "subject": owner(patient),
            "corpus": "notes" if patient < PATIENTS else "held_out",
            "prefix": " ".join(note(patient).split()[:PREFIX]),
            "suffix": " " + " ".join(note(patient).split()[PREFIX:]),
            "response": says(patient),
        }
        for patient in range(PATIENTS + CONTROLS)
    ]
    write_lines(folder / "said.jsonl", rows)
    how = {"unseen": ("held_out",), "quiet": True, "replicates": 50}
    return audit(responses=folder / "said.jsonl", out=folder / "audit", **how).first_screen()


def boilerplate(patient: int) -> str:
    """A model that knows the hospital's ending from others: it never saw these patients."""
    return f" {own_part(1000 + patient)} {ENDING}"


def knowledge(patient: int) -> str:
    return " " + " ".join(note(patient).split()[PREFIX:]) if patient < PATIENTS else boilerplate(patient)


def test_boilerplate_is_no_memory_of_a_patient(tmp_path: Path):
    screen = screen_of(tmp_path, boilerplate)
    (corpus,) = screen.extraction.corpora
    assert screen.answer == "0 of 20 patients can be extracted"
    assert (corpus.members.hits, corpus.boilerplate, corpus.template_share) == (0, 20, 1.0)
    assert corpus.difference is not None
    assert corpus.difference.p == 1.0
    assert not corpus.beyond_controls
    text = " ".join(screen.sentences)
    assert "Boilerplate: 20 of 20 patients" in text
    assert "has memorized" not in text
    assert all(case.boilerplate for case in screen.cases)
    # The measure itself stays what the paper says.
    scores = Audit.open(tmp_path / "audit").scores()
    assert scores.loc[scores["measure"] == "run_30", "value"].sum() == PATIENTS


def test_who_knows_the_patients_is_still_shown(tmp_path: Path):
    screen = screen_of(tmp_path, knowledge)
    (corpus,) = screen.extraction.corpora
    assert (corpus.members.hits, corpus.boilerplate) == (20, 0)
    assert corpus.difference is not None
    assert corpus.difference.p == pytest.approx(1.45e-11, rel=0.01)
    ending = len(ENDING.split())
    # A last word of one's own that others share belongs to the ending by chance.
    assert corpus.template_share == pytest.approx(ending / (OWN - PREFIX + ending), abs=0.01)
    assert "the model has memorized text of these patients" in " ".join(screen.sentences)
    assert not any(case.boilerplate for case in screen.cases)


def test_a_patients_own_repeated_notes_are_no_boilerplate(tmp_path: Path):
    """The ending in many notes of one patient, and of one other, is not shared by two others."""
    screen = screen_of(tmp_path, boilerplate, lambda n: "P000" if n < PATIENTS - 1 else patient_id(n))
    (corpus,) = screen.extraction.corpora
    assert (corpus.members.hits, corpus.members.n, corpus.boilerplate) == (2, 2, 0)


def test_an_older_audit_says_that_nobody_looked(tmp_path: Path):
    screen_of(tmp_path, boilerplate)
    spans = tmp_path / "audit" / SPANS
    pd.read_parquet(spans).drop(columns=["own", "shared_tokens"]).to_parquet(spans)
    screen = Audit.open(tmp_path / "audit").first_screen()
    (corpus,) = screen.extraction.corpora
    assert corpus.members.hits == 20
    assert corpus.boilerplate is None
    assert any("wording" in line for line in screen.missing)


def test_equal_to_a_search_of_every_text():
    draw = generator("shared wording", "search")
    unit = WordsUnit()
    blocks = [" ".join(f"b{block}w{n}" for n in range(int(draw.integers(10, 45)))) for block in range(6)]
    texts = [
        (f"s{n // 2}", " ".join(blocks[block] for block in draw.integers(len(blocks), size=5).tolist()))
        for n in range(24)
    ]
    ids = [encoded.ids for encoded in unit.encode([text for _, text in texts])]
    runs = [
        (name, own[start : start + length])
        for (name, _), own in zip(texts, ids, strict=True)
        for start, length in [(int(draw.integers(20)), int(draw.integers(WINDOW, 60)))]
        if len(own) >= start + length
    ]
    expected = []
    for name, run in runs:
        flags = [
            len(
                {
                    other
                    for (other, _), own in zip(texts, ids, strict=True)
                    if other != name and _holds(own, run[start : start + WINDOW])
                }
            )
            >= OTHERS
            for start in range(len(run) - WINDOW + 1)
        ]
        tokens = {start + place for start, flag in enumerate(flags) if flag for place in range(WINDOW)}
        expected.append((not all(flags), len(tokens)))
    assert run_wording(runs, texts, unit) == expected
    assert len({own for own, _ in expected}) == 2


def _holds(text: np.ndarray, run: np.ndarray) -> bool:
    return any((text[at : at + len(run)] == run).all() for at in range(len(text) - len(run) + 1))
