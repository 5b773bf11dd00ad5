"""Training runs that several processes do together and that the tests compare with a run in one process.

:func:`main` runs in each process and writes what each case ended with to ``OUT/<case>-<rank>.pt``; the tests call
:func:`train` in their own process for the other side.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import sharded_models
import torch
from rounding import in_fp64
from torch import Tensor
from training_runs import without_seconds

from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.methods import LOSSES, make_method
from medunlearn.models.load import LanguageModel
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.models.tiny import build_tiny
from medunlearn.seeds import generator
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import NextToken, Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.processes import ALONE, Processes, join
from medunlearn.training.sharding import ShardedReference, shard, whole
from medunlearn.training.trainable import choose_trainable
from medunlearn.training.turns import in_turns

# Three steps an epoch, of 3, 3 and 1 sequences a side: the last has fewer micro-batches than processes.
BATCH, FORGET, RETAIN, STEPS = 3, 7, 5, 3
# The others read what one of these reads.
OTHERS = ("ga", "simnpo", "ceu", "satimp", "wga", "memorize", "adaptive_rmu")
OBJECTIVES = [*(name for name in LOSSES if name not in OTHERS), "next_token", "lora"]
# Rank 1 has two of the three passes of a step of single sequences: its third pass is in the second step.
CALL, STEP = 3, 2
TRAINABLE = {"rmu": "layers:0-1", "lora": "lora:4"}


def sequences(count: int, name: str) -> list[TokenSequence]:
    """Random tokens, unequal answers; every three share the beginning of their prompts."""
    rows = []
    for place in range(count):
        shared = generator("shared", name, place // 3).integers(3, 250, 12).tolist()
        draw = generator("own", name, place)
        prompt, answer = (int(n) for n in draw.integers((1, 1), (6, 12)))
        ids = (*shared, *draw.integers(3, 250, prompt + answer).tolist(), 1)
        rows.append(TokenSequence(f"{name}{place}", ids, 12, 12 + prompt))
    return rows


def model_of(trainable: str = "all", dropout: float = 0.0, *, exact: bool = True) -> Any:
    """A tiny model; ``exact``: in fp64, so that orders of summing may be compared."""
    model = build_tiny(["a few words"], vocabulary=300, width=32, layers=3, heads=2).model
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.dim() == 2:
                tensor.mul_(5)
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = dropout
    return choose_trainable(in_fp64(model) if exact else model, trainable)


class Odd:
    """The likelihood, and in the given call something else happens in the process of the given rank."""

    def __init__(self, rank: int, at: int, what: Callable[[Tensor], Tensor]) -> None:
        self.here, self.at, self.what, self.calls = join().rank == rank, at, what, 0

    def terms(self, views: Mapping[str, Any]) -> dict[str, Tensor]:
        self.calls += 1
        usual = views["retain"].nll()
        return {"retain": self.what(usual) if self.here and self.calls == self.at else usual}


class Little:
    """The likelihood; the process of a rank has memory for ``room`` sequences, and from a call on for none."""

    def __init__(self, rank: int, room: int, none_from: int) -> None:
        self.here, self.room, self.none_from, self.calls = join().rank == rank, room, none_from, 0

    def terms(self, views: Mapping[str, Any]) -> dict[str, Tensor]:
        self.calls += 1
        room = 0 if self.calls >= self.none_from else self.room
        if self.here and views["retain"].batch.size > room:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return {"retain": views["retain"].nll()}


def signalled(usual: Tensor) -> Tensor:
    os.kill(os.getpid(), signal.SIGTERM)
    return usual


def refused(usual: Tensor) -> Tensor:
    raise ConfigError(["colour=blue: must be red"])


def train(
    objective: str | Odd | Little,
    processes: Processes = ALONE,
    *,
    trainable: str = "all",
    dropout: float = 0.0,
    checkpoints: Path | None = None,
    sharded: bool = False,
    cache: Path | None = None,
    epochs: int = 1,
    **settings: Any,
) -> dict[str, Any]:
    """Train a model and return its weights, history, checkpoints, error, and kinds of parameters.

    Args:
        cache: folder of the numbers computed once for all epochs; None computes them in every epoch.
    """
    model = model_of(trainable, dropout, exact=settings.get("precision") != "bf16")
    loss: Any = objective
    if isinstance(objective, str):
        method = {"lora": "npo"}.get(objective, objective)
        arguments = {"rmu": {"layer": 1}, "ngdiff": {"every": 2}}.get(method, {})
        loss = NextToken() if method == "next_token" else Unlearning(make_method(method, arguments))
    plan = Plan({"forget": sequences(FORGET, "f"), "retain": sequences(RETAIN, "r")}, BATCH, epochs, 0)
    options = LoopSettings(**{"lr": 1e-3, "precision": "fp32", "micro_batch_size": 2, **settings})
    cached, complete = None, False
    if cache:
        cache_plan = CachePlan(model, 2, loss, plan, options.micro_batch_size, 1 << 30)
        cached, complete = cache_plan.fill(cache, options.precision, processes=processes), cache_plan.complete
    if sharded:
        shard(LanguageModel(model, None, "tiny"), processes, settings.get("precision", "fp32"))
    kinds = {name: type(tensor).__name__ for name, tensor in model.named_parameters()}
    reference = (ShardedReference if sharded else Reference)(model, cached, complete=complete)
    history, error = [], ""
    try:
        history = train_loop(
            model,
            2,
            loss,
            plan,
            options,
            checkpoints=checkpoints,
            reference=reference,
            processes=processes,
        )
    except (MedunlearnError, KeyboardInterrupt) as raised:
        error = f"{type(raised).__name__} {getattr(raised, 'exit_code', 130)}: {raised}"
    return {
        "kinds": kinds,
        "reference": reference.kind,
        "weights": {name: whole(tensor).clone() for name, tensor in model.named_parameters()},
        "history": without_seconds(history),
        "saved": sorted(folder.name for folder in checkpoints.iterdir()) if checkpoints else [],
        "error": error,
    }


def train_named(name: str, processes: Processes = ALONE, *, sharded: bool = False) -> dict[str, Any]:
    """:func:`train` with one of :data:`OBJECTIVES` and what it trains."""
    return train(name, processes, trainable=TRAINABLE.get(name, "all"), sharded=sharded)


Case = Callable[[Processes], dict[str, Any]]


def after_breaking(stopped: Path, name: str, case: Case) -> Case:
    """The case in a copy of what a stopped one left, whose newest checkpoint lacks the end of one file."""

    def run(processes: Processes) -> dict[str, Any]:
        with processes.barrier():
            if processes.main:
                copy = stopped.with_name(stopped.name.replace("stopped", "mended"))
                shutil.copytree(stopped, copy)
                file = max(copy.glob("step-*")) / name
                os.truncate(file, file.stat().st_size - 1)
        return case(processes)

    return run


def take_unequal_turns(processes: Processes) -> dict[str, Any]:
    """Passes of a sharded model, more in one process than in the other; one of them fails inside a layer."""
    model = model_of()
    expected = [model(input_ids=torch.tensor([[5, 6, 7 + turn]])).logits.detach() for turn in range(4)]
    shard(LanguageModel(model, None, "tiny"), processes, "fp32")
    differing: list[int] = []

    def fails(module: Any, inputs: Any, output: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with processes.barrier(), in_turns(model):
        for turn in range(1 + 3 * processes.rank):
            if turn == 2:
                hook = model.model.layers[1].mlp.register_forward_hook(fails)
                with suppress(torch.OutOfMemoryError):
                    model(input_ids=torch.tensor([[5, 6]]))
                hook.remove()
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([[5, 6, 7 + turn]])).logits
            differing.extend([turn] if not torch.allclose(logits, expected[turn]) else [])
    model(input_ids=torch.tensor([[5, 6, 7]])).logits.sum().backward()
    return {"differing": differing, "gradients": sum(tensor.grad is not None for tensor in model.parameters())}


def in_other_shares(folder: Path, processes: Processes, *, divided_first: bool) -> dict[str, Any]:
    """A run that two processes with shares begin and rank 0 alone goes on with, or the other way round."""

    def run(calls: int, together: bool) -> dict[str, Any]:
        how: dict[str, Any] = {"checkpoints": folder, "micro_batch_size": 1, "checkpoint_seconds": 0.0}
        if together:
            return train(Odd(1, calls, signalled), processes, sharded=True, **how)
        return processes.on_main(lambda: train(Odd(0, calls, signalled), **how))

    assert run(CALL, divided_first)["error"].startswith("KeyboardInterrupt")
    return run(0, not divided_first)


def cases(out: Path) -> dict[str, Case]:
    """Runs of several processes by name, in this order."""

    def drops(folder: Path | None = None, stop: bool = False, **more: Any) -> Case:
        if stop:
            more["checkpoint_seconds"] = 0.0
        settings = {"dropout": 0.3, "checkpoints": folder, "micro_batch_size": 1, "precision": "bf16", **more}
        return lambda processes: train(Odd(1, CALL if stop else 0, signalled), processes, **settings)

    losses: dict[str, Case] = {
        f"{name}{'@fsdp2' * sharded}": lambda processes, name=name, sharded=sharded: train_named(
            name, processes, sharded=sharded
        )
        for sharded in (False, True)
        for name in OBJECTIVES
    }
    return losses | {
        "npo@fsdp2+recompute": lambda processes: train("npo", processes, sharded=True, gradient_checkpointing=True),
        "kl_min layers:2@fsdp2": lambda processes: train("kl_min", processes, trainable="layers:2", sharded=True),
        "npo+cache": lambda processes: train("npo", processes, cache=out / "cache", epochs=2),
        "kl_min layers:2@fsdp2+cache": lambda processes: train(
            "kl_min", processes, trainable="layers:2", sharded=True, cache=out / "cache@fsdp2", epochs=2
        ),
        "little": lambda processes: train(Little(0, 1, 10**6), processes),
        "none": lambda processes: train(
            Little(1, 1, CALL), processes, checkpoints=out / "none", micro_batch_size=1
        ),
        "stopped": drops(out / "stopped", stop=True),
        "mended": after_breaking(out / "stopped", "model.safetensors", drops(out / "mended")),
        "resumed": drops(out / "stopped"),
        "whole": drops(),
        "stopped@fsdp2": drops(out / "stopped@fsdp2", stop=True, sharded=True),
        "mended@fsdp2": after_breaking(
            out / "stopped@fsdp2", "optimizer-1.safetensors", drops(out / "mended@fsdp2", sharded=True)
        ),
        "resumed@fsdp2": drops(out / "stopped@fsdp2", sharded=True),
        "whole@fsdp2": drops(sharded=True),
        "divided, then whole": lambda processes: in_other_shares(out / "divided", processes, divided_first=True),
        "whole, then divided": lambda processes: in_other_shares(out / "undivided", processes, divided_first=False),
        **{
            f"stored {name}": lambda processes, name=name: sharded_models.load_and_save(out, name, processes)
            for name in sharded_models.MODELS
        },
        "peak": lambda processes: sharded_models.peaks_of_loading(out, processes),
        "turns": take_unequal_turns,
        "refused": lambda processes: train(Odd(1, CALL, refused), processes, micro_batch_size=1),
        "nan": lambda processes: train(
            Odd(1, CALL, lambda usual: usual * float("nan")), processes, checkpoints=out / "nan", micro_batch_size=1
        ),
    }


def main(out: Path) -> None:
    """Run every case in this process of several."""
    torch.set_num_threads(1)
    processes = join()
    processes.on_main(lambda: sharded_models.make_models(out))
    for name, run in cases(out).items():
        torch.save(run(processes), out / f"{name}-{processes.rank}.pt")
