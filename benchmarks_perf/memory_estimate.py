"""The memory estimate against the memory that two training steps take, each in a process of its own.

The estimate is that of `medunlearn run --plan`: the step is rehearsed on fake tensors. The measured
number is what the process grew by from before the model was built to the peak of the steps. Above 1, the estimate
is too high. With MALLOC_MMAP_THRESHOLD_=65536 in the environment the C library gives freed memory back at once;
without it, it keeps much of it, which no estimate of tensors can know.

    python benchmarks_perf/memory_estimate.py
    python benchmarks_perf/memory_estimate.py --shape 8b    an estimate alone, of a model too large for most
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from typing import Any

import psutil
import torch
from large import GB, SHAPES, shaped
from transformers import AutoModelForCausalLM, LlamaConfig

from medunlearn.config import UnlearnSettings, check
from medunlearn.methods import make_method
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.results.machine import PeakMemory
from medunlearn.seeds import generator
from medunlearn.study.estimate.step_cost import Rehearsal
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.objectives import Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import choose_trainable

METHODS = ("graddiff", "kl_min", "npo")
LIMIT = 40.0
"""GB that a step of one layer of an 8B-shaped model may take."""
TRAINABLE = ("all", "layers:3", "lora")


def config(chosen: argparse.Namespace) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=chosen.vocabulary,
        hidden_size=chosen.width,
        intermediate_size=chosen.width * 8 // 3,
        num_hidden_layers=chosen.layers,
        num_attention_heads=8,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )


def plan(chosen: argparse.Namespace) -> Plan:
    """Two steps of several micro-batches a side."""
    sides = {}
    for side in ("forget", "retain"):
        made = []
        for note in range(2 * chosen.batch // chosen.questions):
            draw = generator("memory", side, note)
            shared = draw.integers(3, chosen.vocabulary, chosen.note).tolist()
            for number in range(chosen.questions):
                ids = (*shared, *draw.integers(3, chosen.vocabulary, 64).tolist(), 1)
                made.append(TokenSequence(f"{side}{note}-{number}", ids, chosen.note, chosen.note + 20))
        sides[side] = made
    return Plan(sides, chosen.batch, 1, 0)


def measured(chosen: argparse.Namespace, trainable: str, method: str, precision: str, answer: Any) -> None:
    """Runs in a fresh process; puts the bytes that it grew by."""
    torch.set_num_threads(chosen.threads)
    torch.ones(64, 64) @ torch.ones(64, 64)
    steps = plan(chosen)
    before, peak = psutil.Process().memory_info().rss, PeakMemory()
    model = choose_trainable(AutoModelForCausalLM.from_config(config(chosen)), trainable)
    settings = LoopSettings(1e-4, micro_batch_size=chosen.micro, precision=precision)  # type: ignore[arg-type]
    objective = Unlearning(make_method(method, {}))
    cache_plan = CachePlan(model, 0, objective, steps, chosen.micro, 0)
    train_loop(model, 0, objective, steps, settings, reference=Reference(model, complete=cache_plan.complete))
    answer.put(peak.bytes() - before)


def estimated(chosen: argparse.Namespace, trainable: str, method: str, precision: str) -> int:
    values = {"method": method, "split": "-", "micro_batch_size": chosen.micro, "keep_gb": 0}
    objective = Unlearning(make_method(method, {}))
    make = lambda: choose_trainable(AutoModelForCausalLM.from_config(config(chosen)), trainable)  # noqa: E731
    memory = Rehearsal(make, precision).training(plan(chosen), check(UnlearnSettings, values), objective).memory  # type: ignore[arg-type]
    if memory is None:
        raise SystemExit("There is nothing to train.")
    return memory.total


def of_shape(chosen: argparse.Namespace) -> None:
    """Print what a layer-selective NPO step of a bf16 model would hold; nothing is loaded or measured."""
    shape = shaped(chosen.shape)
    trainable = f"layers:{shape.num_hidden_layers // 4}"
    make = lambda: choose_trainable(AutoModelForCausalLM.from_config(shape, dtype=torch.bfloat16), trainable)  # noqa: E731
    chosen.vocabulary, chosen.batch = shape.vocab_size, chosen.micro
    values = {"method": "npo", "split": "-", "micro_batch_size": chosen.micro, "precision": "bf16", "keep_gb": 0}
    objective = Unlearning(make_method("npo", {}))
    memory = Rehearsal(make, "bf16").training(plan(chosen), check(UnlearnSettings, values), objective).memory
    assert memory is not None
    parts = ", ".join(f"{name} {size / GB:.1f}" for name, size in vars(memory).items() if size)
    print(
        f"estimate, not measured on a GPU: {chosen.shape}-shaped, {trainable} trained, NPO, {chosen.micro} "
        f"questions a side on notes of {chosen.note} tokens, bf16: {memory.total / GB:.1f} GB ({parts}), of "
        f"{LIMIT:.0f} GB that it may take"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shape = {"vocabulary": 16384, "width": 512, "layers": 8, "note": 500, "questions": 6, "batch": 24, "micro": 12}
    for key, value in {**shape, "threads": 1}.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--trainable", nargs="+", default=TRAINABLE)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--shape", choices=SHAPES, help="only estimate an NPO step of a model of this shape")
    chosen = parser.parse_args()
    if chosen.shape:
        of_shape(chosen)
        return
    # As the command line sets it (cli/main.py): fewer kernels are kept.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    fresh = multiprocessing.get_context("spawn")
    print(vars(chosen))
    ratios = []
    for precision in chosen.precisions:
        for trainable in chosen.trainable:
            for method in chosen.methods:
                answer = fresh.SimpleQueue()
                child = fresh.Process(target=measured, args=(chosen, trainable, method, precision, answer))
                child.start()
                child.join()
                if child.exitcode:
                    raise SystemExit(f"{precision} {trainable} {method}: the measured run failed.")
                grown = answer.get()
                guess = estimated(chosen, trainable, method, precision)
                ratios.append(guess / grown)
                print(
                    f"{precision} {trainable:9} {method:9} measured {grown / 2**20:7.0f} MiB  "
                    f"estimated {guess / 2**20:7.0f} MiB  ratio {ratios[-1]:.2f}",
                    flush=True,
                )
    print(f"ratios from {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
