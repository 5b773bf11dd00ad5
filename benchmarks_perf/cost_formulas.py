"""The closed formulas of cost beside what is measured: FLOPs by torch's counter, and the peak of a fresh process.

Seven shapes, two of them with little but a vocabulary, each in training (fp32 and bf16, with gradient
checkpointing, with LoRA), in unlearning on two sides, to the logits and to a layer, and in scoring. A ratio above
1: the formula is too high. The constants of allocator and libraries were fitted without the shapes marked with a
star. The steps are many because the C library's memory grows until about the tenth; with
MALLOC_MMAP_THRESHOLD_=65536 in the environment it gives freed memory back at once, and the sum of tensors is
measured.

    python benchmarks_perf/cost_formulas.py      an hour on two cores
    python benchmarks_perf/cost_formulas.py --shapes smollm2 --modes train --tokens 256
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import psutil

from medunlearn.models.shape import shape_of
from medunlearn.study.cost.formulas import Cost, Load, forward, training

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"model_type": "llama", "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4,
             "num_attention_heads": 4, "vocab_size": 2048, "tie_word_embeddings": True},
    "smollm2": {"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
                "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152,
                "tie_word_embeddings": True},
    "llama": {"model_type": "llama", "hidden_size": 640, "intermediate_size": 1728, "num_hidden_layers": 6,
              "num_attention_heads": 10, "vocab_size": 16000, "tie_word_embeddings": False},
    "gpt2": {"model_type": "gpt2", "n_embd": 512, "n_layer": 6, "n_head": 8, "vocab_size": 50257},
    "qwen2": {"model_type": "qwen2", "hidden_size": 512, "intermediate_size": 2816, "num_hidden_layers": 6,
              "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32000, "tie_word_embeddings": True},
    "vocab49k": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                 "num_attention_heads": 4, "vocab_size": 49152, "tie_word_embeddings": True},
    "vocab128k": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "vocab_size": 128256, "tie_word_embeddings": True},
}  # fmt: skip
HELD_OUT = ("smollm2", "gpt2", "vocab49k", "vocab128k")
MODES: dict[str, dict[str, Any]] = {
    "train fp32": {"precision": "fp32"},
    "train bf16": {"precision": "bf16"},
    "checkpointing fp32": {"precision": "fp32", "checkpointing": True},
    "checkpointing bf16": {"precision": "bf16", "checkpointing": True},
    "lora fp32": {"precision": "fp32", "trainable": "lora:16"},
    "lora bf16": {"precision": "bf16", "trainable": "lora:16"},
    "unlearn fp32": {"precision": "fp32", "reference": "cached"},
    "unlearn bf16": {"precision": "bf16", "reference": "cached"},
    "rmu fp32": {"precision": "fp32", "reference": "cached", "trainable": "through:1", "depth": 2},
    "rmu bf16": {"precision": "bf16", "reference": "cached", "trainable": "through:1", "depth": 2},
    "score fp32": {},
}
BATCH, STEPS = 8, 12
LONGEST = 1.08
"""Tokens of the longest of so many shuffled batches, in those of the mean."""


def lengths(tokens: int) -> list[int]:
    """Uneven lengths of a batch around a mean."""
    return [tokens * (12 + place) // 16 for place in range(BATCH)]


def sequences(side: str, vocabulary: int, tokens: int) -> Any:
    from medunlearn.models.sequences import TokenSequence
    from medunlearn.seeds import generator

    draw = generator("cost", side, tokens)
    sizes = enumerate(lengths(tokens) * STEPS)
    return [
        TokenSequence(f"{side}{n}", tuple(draw.integers(3, vocabulary, size).tolist()), 0, 1) for n, size in sizes
    ]


def run(config: dict[str, Any], mode: dict[str, Any], tokens: int, steps: int) -> None:
    """The steps of a mode, as the engine takes them, or scoring."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from medunlearn.methods import make_method
    from medunlearn.models.load import LanguageModel
    from medunlearn.models.reference import Reference
    from medunlearn.models.scoring import score_answers
    from medunlearn.training.batch_plan import Plan
    from medunlearn.training.loop import train_loop
    from medunlearn.training.loop_settings import LoopSettings
    from medunlearn.training.objectives import NextToken, Unlearning
    from medunlearn.training.precompute import CachePlan
    from medunlearn.training.trainable import choose_trainable

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    sides = {side: sequences(side, config["vocab_size"], tokens)[: BATCH * steps] for side in ("forget", "retain")}
    if not mode:
        tokenizer = argparse.Namespace(pad_token_id=0, eos_token_id=0)
        score_answers(LanguageModel(model, tokenizer, "random"), sides["forget"], batch_size=BATCH)
        return
    model = choose_trainable(model, mode.get("trainable", "all"))
    options = {"precision": mode["precision"], "gradient_checkpointing": mode.get("checkpointing", False)}
    settings = LoopSettings(1e-4, micro_batch_size=BATCH, **options)
    if "reference" not in mode:
        train_loop(model, 0, NextToken(), Plan({"forget": sides["forget"]}, BATCH, 1, 0), settings)
        return
    method = make_method("rmu", {"layer": mode["depth"] - 1}) if "depth" in mode else make_method("npo", {})
    objective, plan = Unlearning(method), Plan(sides, BATCH, 2, 0)
    cache_plan = CachePlan(model, 0, objective, plan, BATCH, 4 * 10**9)
    reference = Reference(model, cache_plan.fill(None, mode["precision"]), complete=cache_plan.complete)
    train_loop(model, 0, objective, plan, settings, reference=reference)


def kernels() -> dict[Any, Any]:
    """Counts of fused attention on a CPU, which torch's counter has for GPUs alone."""
    import torch
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    aten = torch.ops.aten
    name = "_scaled_dot_product_flash_attention_for_cpu"
    return {
        getattr(aten, name): lambda q, k, v, *rest, **named: sdpa_flop_count(q, k, v),
        getattr(aten, f"{name}_backward"): lambda g, q, k, v, *rest, **named: sdpa_backward_flop_count(g, q, k, v),
    }


def measured(config: dict[str, Any], mode: dict[str, Any], tokens: int, answer: Any) -> None:
    """Runs in a fresh process; puts its peak memory, that before the model was built, and FLOPs of a step."""
    import torch
    import transformers  # noqa: F401
    from torch.utils.flop_counter import FlopCounterMode

    import medunlearn.training.loop  # noqa: F401
    from medunlearn.results.machine import PeakMemory

    torch.ones(64, 64) @ torch.ones(64, 64)
    before, peak = psutil.Process().memory_info().rss, PeakMemory()
    run(config, mode, tokens, STEPS // 2 if "reference" in mode else STEPS)
    highest = peak.bytes()
    # What only the first pass of a model does (the probe of its layouts) is in both, and falls out.
    flops = []
    for steps in (1, 2):
        with FlopCounterMode(display=False, custom_mapping=kernels()) as counter:
            run(config, mode, tokens, steps)
        flops.append(counter.get_total_flops())
    answer.put({"peak": highest, "before": before, "flops": flops[1] - flops[0]})


def formula(config: dict[str, Any], mode: dict[str, Any], tokens: int, steps: int) -> Cost:
    """The cost of :func:`run` by the formulas."""
    shape, sizes = shape_of(config), lengths(tokens)
    step = Load.of(sizes, sum(sizes) - len(sizes))
    load, longest = step.times(steps), step.times(LONGEST)
    if not mode:
        return forward(shape, load, longest)
    options = dict(mode)
    if "reference" in mode:
        load, longest, options["reference_load"] = load.times(4), longest.times(2), load
    return training(shape, load, longest, steps=steps, **options)


def show(name: str, mode: str, tokens: int, facts: dict[str, int]) -> None:
    """Print formula and measurement of one run."""
    cost = formula(SHAPES[name], MODES[mode], tokens, 1)
    whole, tensors, peak = cost.memory.process, cost.memory.total, facts["peak"]
    print(f"{name + '*' * (name in HELD_OUT):9} {mode:18} {tokens:6} {cost.flops / 1e9:15.1f} "
          f"{facts['flops'] / 1e9:9.1f} {cost.flops / facts['flops']:6.3f} {tensors / 2**20:14.0f} "
          f"{whole / 2**20:8.0f} {peak / 2**20:9.0f} {whole / peak:6.3f}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--modes", nargs="+", default=[], help="beginnings of names; all by default")
    parser.add_argument("--tokens", nargs="+", type=int, default=[128], help="mean length of a sequence")
    parser.add_argument("--out", type=Path, help="file of the measurements, one a line")
    chosen = parser.parse_args()
    # As the command line sets it (cli/main.py): fewer kernels are kept.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    fresh = multiprocessing.get_context("spawn")
    print(f"{'shape':9} {'mode':18} {'tokens':>6} {'GFLOPs: formula':>15} {'counted':>9} {'ratio':>6} "
          f"{'MiB of tensors':>14} {'process':>8} {'measured':>9} {'ratio':>6}")  # fmt: skip
    for name in chosen.shapes:
        for mode in MODES:
            for tokens in chosen.tokens if mode.startswith(tuple(chosen.modes) or "") else ():
                answer = fresh.SimpleQueue()
                child = fresh.Process(target=measured, args=(SHAPES[name], MODES[mode], tokens, answer))
                child.start()
                child.join()
                if child.exitcode:
                    raise SystemExit(f"{name} {mode}: the measured run failed.")
                facts = answer.get()
                show(name, mode, tokens, facts)
                if chosen.out:
                    with chosen.out.open("a") as file:
                        file.write(json.dumps({"shape": name, "mode": mode, "tokens": tokens, **facts}) + "\n")


if __name__ == "__main__":
    main()
