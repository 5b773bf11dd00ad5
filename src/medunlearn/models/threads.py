"""Threads of small models on a CPU: one, since sharing out their operations costs more than computing them."""

from __future__ import annotations

import os
from typing import Any

import torch

SMALL = 10_000_000
"""Parameters below which one thread is used; the tiny model has 2 million."""
CHOSEN_BY_USER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_before: list[int] = []
"""Threads before a small model was loaded; empty while none is."""


def settle_threads(model: Any) -> None:
    """Use one thread for a small model on a CPU, and for a larger one again as many as before.

    Numbers that the user chose in the environment stay. See ``benchmarks_perf/threads.py``.
    """
    if any(os.environ.get(name) for name in CHOSEN_BY_USER):
        return
    parameters = list(model.parameters())
    on_cpu = all(parameter.device.type == "cpu" for parameter in parameters)
    if on_cpu and sum(parameter.numel() for parameter in parameters) < SMALL:
        if torch.get_num_threads() > 1:
            _before[:] = [torch.get_num_threads()]
            torch.set_num_threads(1)
    elif _before:
        torch.set_num_threads(_before.pop())
