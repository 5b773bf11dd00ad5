"""Threads: one for a small model, as many as before for a larger one, and the user's own choice first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from medunlearn.models import threads
from medunlearn.models.threads import CHOSEN_BY_USER, settle_threads


@pytest.fixture(autouse=True)
def three(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in CHOSEN_BY_USER:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_before", [])
    monkeypatch.setattr(threads, "SMALL", 100)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_a_small_model_gets_one_thread_and_a_large_one_all() -> None:
    for size, expected in ((9, 1), (9, 1), (10, 3), (99, 3), (1, 1)):
        settle_threads(nn.Linear(size, size))
        assert torch.get_num_threads() == expected


@pytest.mark.parametrize("name", CHOSEN_BY_USER)
def test_the_users_number_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "3")
    settle_threads(nn.Linear(2, 2))
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_idle_threads_do_not_spin(given: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    code = "import medunlearn, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [expected, "False"]
