"""Control models of damage and what reports say of them: the table of docs/definitions.md.

    python benchmarks_perf/damage_controls.py OUT [--only amnesia,lume,medforget,notes]

For each benchmark a tiny target and its retrained model are trained. The controls are made of them: the target
itself, copies with 5, 15 and 30% of the rows of every matrix permuted, one with noise, the retrained model, and one
with all weights scrambled. Each is evaluated as an unlearned model and reported alone beside target and retrained
model. What is done is not done again. About 25 minutes of processor time.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from page_tables import markdown, replace_table
from safetensors.torch import load_file, save_file

import medunlearn as mu
from medunlearn.models.folders import file_facts
from medunlearn.results.runs import Run, RunRecord
from medunlearn.seeds import stable_seed

WEIGHTS = "model.safetensors"
State = dict[str, torch.Tensor]


def permuted(state: State, share: float, seed: int = 0) -> State:
    """The weights with a share of the rows of every matrix permuted among themselves."""

    def of(name: str, weight: torch.Tensor) -> torch.Tensor:
        draw = torch.Generator().manual_seed(stable_seed("permuted", name, seed))
        rows = torch.randperm(len(weight), generator=draw)[: round(share * len(weight))]
        changed = weight.clone()
        changed[rows] = weight[rows.roll(1)]
        return changed

    return {name: of(name, weight) if weight.dim() > 1 else weight for name, weight in state.items()}


def noisy(state: State, share: float, seed: int = 0) -> State:
    """The weights with normal noise in every matrix: a share of its standard deviation."""

    def of(name: str, weight: torch.Tensor) -> torch.Tensor:
        draw = torch.Generator().manual_seed(stable_seed("noise", name, seed))
        return weight + share * weight.float().std().to(weight.dtype) * torch.randn(
            weight.shape, generator=draw, dtype=weight.dtype
        )

    return {name: of(name, weight) if weight.dim() > 1 else weight for name, weight in state.items()}


def scrambled(state: State) -> State:
    """Weights of the same size and spread, drawn anew."""
    return {name: weight.flatten()[torch.randperm(weight.numel())].view(weight.shape) for name, weight in state.items()}


CONTROLS: Mapping[str, tuple[str, Callable[[State], State]]] = {
    "did nothing": ("target", lambda state: state),
    **{f"damage {share}%": ("target", lambda state, s=share: permuted(state, s / 100)) for share in (5, 15, 30)},
    **{f"noise {share}": ("target", lambda state, s=share: noisy(state, s)) for share in (0.25, 0.5)},
    "retrained": ("retrained", lambda state: state),
    "scrambled": ("target", scrambled),
}
"""Control -> the model that it is made of, and what is done to its weights."""


@dataclass(frozen=True)
class World:
    """A benchmark with its split, its training, and what is asked."""

    build: Callable[[], Any]
    split: str
    train: Mapping[str, Any]
    evaluate: Mapping[str, Any]
