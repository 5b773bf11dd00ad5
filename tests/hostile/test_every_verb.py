"""Every verb under drawn hostile inputs, and under text and code of strangers.

A case is given again with ``HOSTILE_SEED=... pytest tests/hostile -k "..."``, as the message of a failure says;
``HOSTILE_EACH=7`` and ``benchmarks_perf/hostile.py --random 5000 --seed 7`` draw more of them.
"""

from __future__ import annotations

import os

import pytest
from hostile_arena import Arena
from hostile_cases import (
    Case,
    bad_files,
    broken_runs,
    demanding_models,
    drawn_case,
    files_of_others,
    judged,
    keys_in_wrong_places,
    outcome,
    strangers_code,
    strangers_text,
)
from hostile_world import BASES

SEED = int(os.environ.get("HOSTILE_SEED", "18"))
EACH = int(os.environ.get("HOSTILE_EACH", "2"))
"""Drawn inputs of each way to call a verb."""
WELL = ("clear error", "handled")


@pytest.mark.parametrize("base", BASES)
def test_hostile_input_ends_in_a_clear_error(base: str, arena: Arena) -> None:
    failed = []
    for place in range(EACH):
        case = drawn_case(base, SEED, place)
        outcome = arena.attempt(case.words, case.prepare)
        kind, why = judged(outcome, case.refused, [])
        if kind not in WELL:
            failed.append(f"HOSTILE_SEED={SEED}, input {place}: {str(case)!a} -> {kind}: {why}\n{outcome.err}")
    assert not failed, "\n".join(failed)


KEPT = [case for case in strangers_code() if "python/name" not in case.name and "python/module" not in case.name]
"""YAML tags, pickles, code beside weights, templates that call: none of it is run."""


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.name)
def test_code_of_strangers_is_not_run(case: Case, arena: Arena) -> None:
    kind, why = outcome(case, arena)
    assert kind in WELL, why


BAD_ROWS = [case for case in bad_files() if case.name.endswith(("are null", "are lists"))]
BAD_ROWS += [
    case for case in broken_runs() if case.name.startswith(("audit kinds find", "annotate", "report audit"))
]


@pytest.mark.parametrize("case", BAD_ROWS, ids=lambda case: case.name)
def test_rows_and_records_without_fields_are_refused(case: Case, arena: Arena) -> None:
    assert outcome(case, arena)[0] == "clear error"


@pytest.mark.parametrize("case", list(strangers_text()), ids=lambda case: case.name)
def test_text_of_strangers_stays_text(case: Case, arena: Arena) -> None:
    kind, why = outcome(case, arena)
    assert kind == "handled", why


OTHERS = [
    case
    for case in files_of_others()
    if case.name.startswith(("build amnesia", "audit identifiers", "report audit", "case key", "evaluate"))
]
DEMANDING = [
    case
    for case in demanding_models()
    if case.name.startswith(("evaluate: ten", "evaluate: code", "evaluate: a", "audit: 300", "audit responses"))
]
"""The others of these groups take longer, and are in ``benchmarks_perf/hostile.py``."""


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: case.name)
def test_files_of_others_are_not_written_over(case: Case, arena: Arena) -> None:
    kind, why = outcome(case, arena)
    assert kind in WELL, why


@pytest.mark.parametrize("case", [*DEMANDING, *keys_in_wrong_places()], ids=lambda case: case.name)
def test_models_that_ask_for_too_much_and_keys_are_refused(case: Case, arena: Arena) -> None:
    kind, why = outcome(case, arena)
    assert kind in WELL, why
