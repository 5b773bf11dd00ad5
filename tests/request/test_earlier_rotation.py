"""Turns of the patients of earlier requests: who is asked about, after any ledger."""

from __future__ import annotations

import math

import pytest
from case_evidence import SECRET

from medunlearn.request.case.ledger import LedgerEntry, RequestLedger
from medunlearn.request.earlier_rotation import Rotation


def ledger_of(*requests: tuple[str, ...]) -> RequestLedger:
    """A ledger with a row for each request."""
    ledger = RequestLedger()
    for number, patients in enumerate(requests):
        names = tuple(map(SECRET.pseudonym, patients))
        facts = ("2026-03-02", "2026-03-09", "no residual found", f"case{number}", "before", "after")
        ledger = ledger.extended(LedgerEntry(names, *facts, SECRET.secret_id))
    return ledger


def turn(requests: list[tuple[str, ...]], most: int | None, *, gone: tuple[str, ...] = ()) -> Rotation:
    everybody = {who for patients in requests for who in patients} - {*gone}
    return Rotation.of(ledger_of(*requests), {SECRET.pseudonym(who): who for who in everybody}, most, 0)


@pytest.mark.parametrize("most", [1, 3, 12])
def test_each_patient_is_asked_about_once_in_a_round(most: int) -> None:
    requests = [(f"patient {number}",) for number in range(30)]
    waiting = dict.fromkeys([requests[0][0]], 0)
    for number in range(1, len(requests)):
        rotation = turn(requests[:number], most)
        assert len(rotation.asked) == min(most, number)
        assert {*rotation.asked, *rotation.not_asked} == {SECRET.pseudonym(f"patient {n}") for n in range(number)}
        waiting = {who: 0 if who in rotation.patients else n + 1 for who, n in waiting.items()}
        assert max(waiting.values()) < math.ceil(number / most)
        waiting[requests[number][0]] = 0


def test_turns_follow_from_the_ledger_and_pass_over_who_is_not_in_the_notes() -> None:
    requests = [("a", "b", "c"), ("d",), ("e",), ("b",)]
    assert turn(requests, 2) == turn(requests, 2)
    # a and c were asked about in row 1 or 2, b asked again in row 3; so one of these two, or d, waits longest.
    assert "b" not in turn(requests, 2).patients
    without = turn(requests, 2, gone=("a", "c", "d"))
    assert without.patients == {"b", "e"}
    assert without.not_asked == ()
    assert turn(requests, None).patients == {"a", "b", "c", "d", "e"}
