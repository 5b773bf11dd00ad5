"""Equality of a device with the CPU, for a small random model of each family, for on_gpu.py.

Compared are log-probabilities, likelihoods and ranks of facts, losses and gradients of objectives, and greedy
answers, in fp32 and in bf16. The truth is the CPU in fp64. A device rounds as often as the CPU at the same
precision, in another order; so its error is of the size of the CPU's own, and the bound is four times that.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from medunlearn.data.alternatives import pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import facts_with_alternatives
from medunlearn.data.responses import ResponseStore
from medunlearn.generation.decode import decode
from medunlearn.generation.fact_ranking import FactRanker, RankSequences
from medunlearn.methods import make_method
from medunlearn.models.load import LanguageModel
from medunlearn.models.precision import Precision
from medunlearn.models.reference import Reference
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.models.tiny import build_tiny
from medunlearn.models.vision.tiny_vision import build_tiny_vision
from medunlearn.training.batch_plan import Plan
from medunlearn.training.gradients import Training, gradients
from medunlearn.training.loop_settings import LoopSettings
from medunlearn.training.micro_batch import MicroBatch
from medunlearn.training.objectives import NextToken, Objective, Unlearning
from medunlearn.training.processes import ALONE
from medunlearn.training.trainable import choose_trainable, trained

SLACK = 4.0
"""Errors of the CPU at a precision that an error of the device at that precision may be."""
NEW_TOKENS, QUESTIONS, ALTERNATIVES = 12, 4, 9
COMMON: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.1,
    "bos_token_id": 0,
    "eos_token_id": None,
    "pad_token_id": 2,
}
WINDOW = 100
"""Less than a note with its question; more than the padding of a batch, since fp64 has no mask of padding alone."""
SLIDING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
VISION = "tiny-vision"
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {},
    VISION: {},
    "GPT2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "Qwen2": {"use_sliding_window": True, **SLIDING},
    "Gemma2": {"head_dim": 16, **SLIDING},
    "Phi3": {},
    "Qwen3": {"head_dim": 16},
    "Mistral": {"sliding_window": WINDOW},
    "Gemma": {"head_dim": 16},
    "Gemma3": {"head_dim": 16, **SLIDING},
    "Olmo2": {},
    "Phi": {},
    "Bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 4},
}
OWN_NAMES = ("GPT2", "Bloom")
"""Families with names of their own for the sizes in COMMON."""
OBJECTIVES: dict[str, Callable[[], Objective]] = {
    "next token": NextToken,
    **{
        name: partial(lambda name, values: Unlearning(make_method(name, values)), name, values)
        for name, values in {"npo": {}, "kl_min": {}, "rmu": {"layer": 1}}.items()
    },
}


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Material:
    """A benchmark and a model of one family on the CPU in fp32, with what it is asked."""

    benchmark: Benchmark
    live: LanguageModel
    sides: Mapping[str, Sequence[TokenSequence]]
    rendering: Rendering


@dataclass(frozen=True)
class Outputs:
    """What a model gives on one device at one precision; losses and gradients by objective."""

    log_probs: Array
    facts: tuple[tuple[float, ...], ...]
    ranks: tuple[int | None, ...]
    losses: Mapping[str, Array]
    gradients: Mapping[str, Array]
    answers: tuple[tuple[int, ...], ...]

    @property
    def likelihoods(self) -> Array:
        return np.array([value for own in self.facts for value in own])


@cache
def _notes() -> Benchmark:
    from medunlearn.papers.amnesia.build import build
    from medunlearn.papers.amnesia.settings import AmnesiaSettings

    return build(AmnesiaSettings(synthetic=6))


def _texts(benchmark: Benchmark) -> list[str]:
    return [*(r.text for r in benchmark.records), *(f"{q.question} {q.answer}" for q in benchmark.questions)]


def family(name: str, folder: Path) -> Material:
    """A random model of a family; ``folder`` takes images."""
    if name == VISION:
        return _with_images(folder)
    benchmark, rendering = _notes(), Rendering("plain", "note")
    tokenizer = build_tiny(_texts(benchmark), vocabulary=600, width=16, layers=1).tokenizer
    config = getattr(transformers, f"{'Gemma3Text' if name == 'Gemma3' else name}Config")
    head = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    sizes = {
        key: value for key, value in COMMON.items() if name not in OWN_NAMES or key.endswith(("_id", "_range"))
    }
    torch.manual_seed(1)
    model = getattr(transformers, head)(config(**{**sizes, **FAMILIES[name]}, vocab_size=len(tokenizer)))
    model.generation_config.eos_token_id = None
    return _material(benchmark, LanguageModel(model.eval(), tokenizer, name), rendering)


def _with_images(folder: Path) -> Material:
    from medunlearn.papers.medforget.assemble import build_medforget

    size = {"synthetic": 4, "institutions": 1, "studies": 1, "sections": 2, "image_size": 32}
    build_medforget(size, folder / "bench")
    benchmark = Benchmark.load(folder / "bench")
    text = build_tiny(_texts(benchmark), vocabulary=600, width=64, layers=2)
    images = [benchmark.folder / image for record in benchmark.records for image in record.images]
    live = build_tiny_vision(text, images, folder=benchmark.folder, seed=0, pixels=32, patch=8)
    live.model.eval()
    return _material(benchmark, live, Rendering("plain", "closed_book"))


def _material(benchmark: Benchmark, live: LanguageModel, rendering: Rendering) -> Material:
    asked = [q for q in benchmark.questions if q.fold == "train"][: 2 * QUESTIONS]
    made = [live.question_sequence(q, benchmark.record[q.record_id], rendering) for q in asked]
    notes = [s for record in benchmark.records[:2] for s in live.record_sequences(record, rendering)]
    sides = {"forget": [*made[:QUESTIONS], *notes[:1]], "retain": [*made[QUESTIONS:], *notes[1:]]}
    return Material(benchmark, live, sides, rendering)


def outputs(material: Material, device: str, kind: torch.dtype) -> Outputs:
    """Outputs of the model on a device; in bf16 the weights of scoring are bf16, and training is autocast."""
    live = _on(material.live, device, kind)
    sequences = [*material.sides["forget"], *material.sides["retain"]]
    log_probs = [p for score in score_answers(live, sequences, batch_size=6) for p in score.log_probs]
    facts, ranks = _ranks(material, live)
    asked = [sequence for sequence in sequences if sequence.scored_from > 1]
    decoded = decode(
        live,
        [sequence.prompt for sequence in asked],
        shared=[sequence.shared for sequence in asked],
        max_new_tokens=NEW_TOKENS,
        batch_size=6,
    )
    answers = [
        answer.tokens for _, answer in sorted((pair for batch in decoded for pair in batch), key=lambda p: p[0])
    ]
    steps = {name: _step(material, device, kind, make()) for name, make in OBJECTIVES.items()}
    losses, slopes = ({name: step[place] for name, step in steps.items()} for place in (0, 1))
    return Outputs(np.array(log_probs), facts, ranks, losses, slopes, tuple(answers))


def _on(live: LanguageModel, device: str, kind: torch.dtype) -> LanguageModel:
    # A copy has no probe of layouts: that is made where it runs.
    model = copy.deepcopy(live.model)
    vars(model).pop("_layout_probe", None)
    return LanguageModel(model.to(device, kind), live.tokenizer, live.source, live.pictures)


def _ranks(material: Material, live: LanguageModel) -> tuple[tuple[tuple[float, ...], ...], tuple[int | None, ...]]:
    """Likelihoods of each fact and its alternatives, and the facts' ranks."""
    benchmark, rendering = material.benchmark, material.rendering
    questions = [q for q in benchmark.questions if q.fold == "train"][:QUESTIONS]
    pool = pool_of(benchmark, ALTERNATIVES)
    facts = {q.question_id: facts_with_alternatives(q, benchmark.record, pool) for q in questions}
    with tempfile.TemporaryDirectory() as folder:
        store = ResponseStore(Path(folder), {})
        sequences = RankSequences(live.tokenizer, benchmark.record, rendering, pictures=live.pictures)
        ranker = FactRanker(live, sequences, store)
        ranks = ranker.of_questions(questions, facts)
        kept = sorted(store.read().items())
    facts_rated = tuple(response.answer_log_probs or () for _, response in kept)
    return facts_rated, tuple(rank.rank for own in ranks.values() for rank in own)


def _step(material: Material, device: str, kind: torch.dtype, objective: Objective) -> tuple[Array, Array]:
    """Terms of an optimizer step, and the gradient by all parameters in one row."""
    wide = torch.float32 if kind == torch.bfloat16 else kind
    precision: Precision = "bf16" if kind == torch.bfloat16 else "fp32"
    live = _on(material.live, device, wide)
    model = choose_trainable(live.model, "all")
    sides = material.sides if isinstance(objective, Unlearning) else {"forget": material.sides["forget"]}
    plan = Plan(sides, len(material.sides["forget"]), 1, 0)
    settings = LoopSettings(1e-4, micro_batch_size=6, precision=precision)
    parts = trained(model)
    optimizer = torch.optim.SGD(parts.values(), lr=0.0)
    reference = Reference(model) if isinstance(objective, Unlearning) else None
    if reference is not None:
        # At the reference itself, divergences and their gradients are 0.
        draw = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for tensor in parts.values():
                noise = torch.randn(tensor.shape, generator=draw)
                tensor.add_(noise.to(tensor), alpha=0.02)
    # Without dropout: each device draws its own.
    model.eval()
    training = Training(
        model, 0, objective, plan, settings, MicroBatch(6), optimizer, parts, reference, ALONE, False
    )
    terms = gradients(training, plan.step(0), 0).terms
    slopes = [(torch.zeros_like(t) if t.grad is None else t.grad).flatten().double().cpu() for t in parts.values()]
    return np.array(list(terms.values())), torch.cat(slopes).numpy()


def compare(name: str, device: str, report: Any) -> None:
    """A row for each quantity and precision."""
    with tempfile.TemporaryDirectory() as folder:
        material = family(name, Path(folder))
        exact = outputs(material, "cpu", torch.float64)
        for precision, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            here, there = outputs(material, "cpu", kind), outputs(material, device, kind)
            for quantity in ("log_probs", "likelihoods", "losses", "gradients"):
                each = [getattr(own, quantity) for own in (exact, here, there)]
                rows = [(quantity.replace("_", "-"), *each)]
                if isinstance(each[0], Mapping):
                    rows = [(f"{quantity} of {own}", *(values[own] for values in each)) for own in each[0]]
                differences = [_Difference.of(title, kind, *values) for title, *values in rows]
                worst = max(differences, key=lambda difference: difference.device / difference.bound)
                report.add(
                    "equality",
                    family=name,
                    precision=precision,
                    quantity=worst.quantity,
                    **{"device to CPU": worst.apart, "device to fp64": worst.device, "CPU to fp64": worst.own},
                    bound=worst.bound,
                    within=worst.device <= worst.bound,
                )
            _compare_choices(name, precision, material, exact, here, there, report)


@dataclass(frozen=True)
class _Difference:
    """Errors of the CPU and of the device at a precision, and between the two."""

    quantity: str
    own: float
    device: float
    apart: float
    bound: float

    @staticmethod
    def of(quantity: str, kind: torch.dtype, exact: Array, here: Array, there: Array) -> _Difference:
        apart = _relative if quantity.startswith("gradients") else _largest
        own = apart(exact, here)
        # One rounding of the largest value is the least, where the CPU happened to make none.
        size = 1.0 if apart is _relative else float(np.abs(exact).max())
        bound = SLACK * max(own, float(torch.finfo(kind).eps) / 2 * size)
        return _Difference(quantity, own, apart(exact, there), apart(here, there), bound)


def _largest(first: Array, second: Array) -> float:
    return float(np.abs(first - second).max())


def _relative(first: Array, second: Array) -> float:
    """Norm of a difference by that of the first."""
    return float(np.linalg.norm(first - second) / np.linalg.norm(first))


def _compare_choices(
    name: str, precision: str, material: Material, exact: Outputs, here: Outputs, there: Outputs, report: Any
) -> None:
    """Ranks and greedy answers: how many are the CPU's, and whether the others are ties at this precision."""
    error = SLACK * _largest(exact.likelihoods, here.likelihoods)
    moves = [abs(_rank(a) - _rank(b)) for a, b in zip(exact.facts, there.facts, strict=True)]
    ties = [sum(abs(other - own[0]) <= 2 * error for other in own[1:]) for own in exact.facts]
    report.add(
        "choices",
        family=name,
        precision=precision,
        quantity="ranks",
        other=f"{sum(a != b for a, b in zip(here.ranks, there.ranks, strict=True))} of {len(here.ranks)}",
        **{"furthest from fp64": max(moves, default=0)},
        within=all(move <= tie for move, tie in zip(moves, ties, strict=True)),
    )
    error = SLACK * _largest(exact.log_probs, here.log_probs)
    gaps = [
        gap for gap in map(partial(_gap, material), range(len(here.answers)), here.answers, there.answers) if gap
    ]
    report.add(
        "choices",
        family=name,
        precision=precision,
        quantity="greedy answers",
        other=f"{len(gaps)} of {len(here.answers)}",
        **{"furthest from fp64": max(gaps, default=0.0)},
        within=max(gaps, default=0.0) <= 2 * error,
    )


def _rank(likelihoods: Sequence[float]) -> int:
    return 1 + sum(other >= likelihoods[0] for other in likelihoods[1:])


def _gap(material: Material, place: int, first: tuple[int, ...], second: tuple[int, ...]) -> float:
    """Log-probabilities in fp64 between two answers' tokens where they part; 0 for equal answers."""
    if first == second:
        return 0.0
    asked = [s for s in (*material.sides["forget"], *material.sides["retain"]) if s.scored_from > 1]
    at = next(
        (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    end = (material.live.tokenizer.eos_token_id,)
    head = asked[place].prompt + first[:at]
    tails = [
        TokenSequence(str(n), (*head, (*said, *end)[at]), 0, len(head)) for n, said in enumerate((first, second))
    ]
    scores = score_answers(_on(material.live, "cpu", torch.float64), tails)
    return abs(scores[0].log_probs[0] - scores[1].log_probs[0])


def equality_parts(device: str) -> list[tuple[str, float, Callable[[Any], None]]]:
    """A part for each family: name, seconds, work."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return [(f"equality {name}", 8.0, partial(compare, name, device)) for name in FAMILIES]
