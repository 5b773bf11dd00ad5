"""CPU seconds of one optimizer step of every method that trains, as a multiple of NPO's.

python benchmarks_perf/method_steps.py [STEPS]

A tiny model, random sequences of 40 to 80 tokens, fp32, one thread.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

import torch

from medunlearn.methods import METHODS, is_edit, make_method
from medunlearn.methods.protocol import AlternativesMethod, default_trainable
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.models.tiny import build_tiny
from medunlearn.seeds import generator
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import choose_trainable

LAYERED = {"rmu", "adaptive_rmu", "redirect"}
MORE = ("npo+kl", "npo+js", "npo+relearn", "npo+noise", "npo+int4")


def sequences(count: int, name: str) -> list[TokenSequence]:
    rows = []
    for place in range(count):
        draw = generator("method steps", name, place)
        prompt, answer = (int(n) for n in draw.integers((10, 30), (20, 60)))
        ids = (*draw.integers(3, 250, prompt + answer).tolist(), 1)
        rows.append(TokenSequence(f"{name}{place}", ids, 0, prompt, (-5.0,) * (answer + 1)))
    return rows


def seconds(name: str, steps: int) -> float:
    """CPU seconds of a step, without the outputs that are computed once before the first."""
    method = make_method(name, {"layer": 1} if name in LAYERED else {})
    model = build_tiny(["a few words"], vocabulary=300, width=96, layers=2, heads=4).model
    model = choose_trainable(model, default_trainable(method))
    forget, partners = sequences(16, "f"), {}
    if isinstance(method, AlternativesMethod):
        others = [replace(own, key=f"{own.key}~0") for own in sequences(16, "a")]
        partners = {"alternatives": {own.key: [other] for own, other in zip(forget, others, strict=True)}}
    plan = Plan({"forget": forget, "retain": sequences(16, "r")}, 8, -(-(steps + 1) // 2), 0, partners=partners)
    objective, ends = Unlearning(method), list[float]()
    cached = CachePlan(model, 2, objective, plan, 8, 1 << 30)
    reference = Reference(model, cached.fill(None, "fp32"), complete=cached.complete)
    how: dict[str, Any] = {"reference": reference, "on_step": lambda row: ends.append(time.process_time())}
    train_loop(model, 2, objective, plan, LoopSettings(lr=1e-4, precision="fp32"), **how)
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def main() -> None:
    torch.set_num_threads(1)
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    seconds("npo", 3)
    npo = seconds("npo", steps)
    print(f"npo {npo:.4f} CPU seconds a step")
    for name in [*(name for name in METHODS if not is_edit(name)), *MORE]:
        print(f"{name:16} {seconds(name, steps) / npo:.2f}")


if __name__ == "__main__":
    main()
