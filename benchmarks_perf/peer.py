"""CPU seconds a step: the engine against OpenUnlearning's own trainers, in one process on one thread.

    python benchmarks_perf/peer.py --peer open-unlearning                    500-token notes, 6 questions
    python benchmarks_perf/peer.py --peer open-unlearning --note 0           questions without a shared text
    python benchmarks_perf/peer.py --peer open-unlearning --trainable layer  one layer is trained (RMU: up to it)

``--peer`` is a checkout of https://github.com/locuslab/open-unlearning with what it needs installed; nothing of it
is part of this project. Its trainers get the same model, the same padded sequences and the same optimizer. Of each
step ``compute_loss``, the backward pass and the optimizer are timed, not data loading. Before anything is timed,
the losses of the first two steps must be the engine's. ``engine`` is a whole run with what it computes once before
the first step, divided by its steps; ``once`` is a run of one epoch, in which nothing that was kept is used again.
FLOPs are counted in that run; the peak is that of one large matrix product on this machine.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from steps import RATE, PlainView, add_shape, engine_run, method_of, random_llama, sequences
from torch.utils.flop_counter import FlopCounterMode

from medunlearn.training.batch_plan import Plan
from medunlearn.training.trainable import choose_trainable, trained

TOLERANCE = 1e-3
"""Of the losses of the first two steps; sums over 3,000 tokens are taken in another order."""


@dataclass(frozen=True)
class Peer:
    """A trainer of the peer that computes what a method of ours does.

    Attributes:
        trainer: its class.
        method: ours, with its variant (``steps.METHODS``).
        words: arguments of the trainer that are not its defaults.
    """

    trainer: str
    method: str
    words: Mapping[str, Any]


PEERS = (
    Peer("GradDiff", "graddiff", {}),
    Peer("SimNPO", "simnpo", {"beta": 4.5, "gamma": 0.125}),
    Peer("NPO", "npo", {"beta": 0.1}),
    Peer("GradDiff", "kl_min.openunlearning", {"retain_loss_type": "KL"}),
    Peer("RMU", "rmu", {"retain_loss_type": "EMBED_DIFF", "steering_coeff": 2}),
)


def trainers(checkout: Path) -> Any:
    """The peer's package ``trainer``."""
    source = checkout / "src"
    if not (source / "trainer" / "unlearn").is_dir():
        raise SystemExit(f"{checkout} is no checkout of open-unlearning: there is no src/trainer/unlearn.")
    sys.path.insert(0, str(source))
    import trainer  # type: ignore[import-not-found]

    return trainer


def peer_run(package: Any, peer: Peer, model: Any, method: Any, plan: Plan, steps: int) -> list[float]:
    """Loss of each step of the peer's trainer."""
    from transformers import TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        words = dict(peer.words)
        if peer.trainer == "RMU":
            words |= {"module_regex": rf"model\.layers\.{method.layer}"}
        arguments = TrainingArguments(output_dir=folder, use_cpu=True, report_to=[])
        trainer = getattr(package, peer.trainer)(model=model, args=arguments, **words)
    if peer.trainer == "RMU":
        width = model.config.hidden_size
        trainer.control_vec = method.coefficient * method._direction(torch.zeros(1, width))[None, None]
    optimizer = torch.optim.AdamW(trained(model).values(), lr=RATE, weight_decay=0.0)
    losses = []
    for number in range(steps):
        sides = {side: PlainView(model, None, chosen) for side, chosen in plan.step(number).items()}
        inputs = {
            side: {"input_ids": view.ids, "attention_mask": view.attention, "labels": view.labels}
            for side, view in sides.items()
        }
        optimizer.zero_grad(set_to_none=True)
        loss = trainer.compute_loss(model, inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained(model).values(), math.inf)
        optimizer.step()
        losses.append(loss.item())
    return losses


def cpu_seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def peak_flops(size: int = 1024, turns: int = 5) -> float:
    """FLOPs a CPU second of one large product, the best of some."""
    left, right = torch.randn(2, size, size)
    return 2 * size**3 / min(cpu_seconds(lambda: left @ right) for _ in range(turns))


def counted_flops(work: Callable[[], Any]) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def compare(package: Any, peer: Peer, chosen: argparse.Namespace, peak: float) -> None:
    """Print one row."""
    method = method_of(peer.method, chosen.layer)
    trainable = f"through:{chosen.layer}" if peer.trainer == "RMU" else chosen.trainable
    trainable = f"layers:{chosen.layer}" if trainable == "layer" else trainable
    model = choose_trainable(random_llama(chosen), trainable)
    shape = (chosen.note, chosen.questions, chosen.prompt, chosen.answer, chosen.vocabulary)
    sides = {
        side: [s for record in range(chosen.records) for s in sequences(f"{side}{record}", *shape)]
        for side in ("forget", "retain")
    }
    plan, once = (Plan(sides, chosen.questions, epochs, 0) for epochs in (chosen.epochs, 1))
    first = copy.deepcopy(model.state_dict())

    def again(work: Callable[[], Any]) -> Any:
        model.load_state_dict(first)
        return work()

    ours = again(lambda: engine_run(model, method, once)[0])
    theirs = again(lambda: peer_run(package, peer, model, method, once, 2))
    if not all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-4) for a, b in zip(ours, theirs, strict=False)):
        raise SystemExit(f"{peer.method}: the losses differ: {ours[:2]} and {theirs}")
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        "peer": (lambda: peer_run(package, peer, model, method, once, 2), 2),
        "engine": (lambda: engine_run(model, method, plan), plan.steps),
        "once": (lambda: engine_run(model, method, once), once.steps),
    }
    best = dict.fromkeys(ways, math.inf)
    for _ in range(chosen.turns):
        for way, (work, steps) in ways.items():
            model.load_state_dict(first)
            best[way] = min(best[way], cpu_seconds(work) / steps)
    flops = again(lambda: counted_flops(ways["once"][0])) / once.steps
    print(
        f"{peer.method:22} peer {best['peer']:7.3f} s  engine {best['engine']:7.3f} s "
        f"{best['peer'] / best['engine']:5.1f}x  once {best['once']:7.3f} s {best['peer'] / best['once']:5.1f}x  "
        f"{flops / 1e9:7.1f} GFLOP a step once, {flops / best['once'] / peak:4.0%} of the peak",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shape(parser)
    parser.add_argument("--peer", type=Path, required=True, help="checkout of locuslab/open-unlearning")
    parser.add_argument("--trainable", default="all", help="all, or layer for --layer alone (RMU: all through it)")
    parser.add_argument("--methods", nargs="+", choices=[peer.method for peer in PEERS], help="all unless named")
    chosen = parser.parse_args()
    package = trainers(chosen.peer)
    torch.set_num_threads(1)
    peak = peak_flops()
    print(f"1 thread, fp32, peak {peak / 1e9:.0f} GFLOP/s, {vars(chosen)}")
    for peer in PEERS if chosen.methods is None else [one for one in PEERS if one.method in chosen.methods]:
        compare(package, peer, chosen, peak)


if __name__ == "__main__":
    main()
