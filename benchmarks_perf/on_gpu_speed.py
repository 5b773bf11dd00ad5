"""Speed and peak memory of training, unlearning, scoring, ranks and generation, beside the plan's, for on_gpu.py.

What runs is the engine under `train`, `unlearn` and `evaluate`, without their run folders. The benchmark and the
batch sizes are such that a run has seven steps, of which the first two warm up; the forecast is the plan's for the
same settings. The passes of a micro-batch are the largest that the plan lets fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import torch
from cost_formulas import SHAPES
from on_gpu import release
from on_gpu_models import World, world
from on_gpu_others import transformers_answers, transformers_scores, transformers_steps

from medunlearn.config import EvaluateSettings, TrainSettings, UnlearnSettings, check
from medunlearn.errors import MedunlearnError
from medunlearn.generation.decode import decode
from medunlearn.methods.protocol import AlternativesMethod, default_trainable
from medunlearn.models.layouts import LayoutProbe, decoder_of
from medunlearn.models.load import LanguageModel
from medunlearn.models.reference import Reference
from medunlearn.models.scoring import score_answers
from medunlearn.models.shape import shape_of
from medunlearn.probes.material import loop_settings, phase_plans
from medunlearn.study.alternative_answers import SIDE, with_alternatives
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.throughput import DEVICES, PASSES
from medunlearn.study.presets import unlearning_method
from medunlearn.study.unlearn import training_sides
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import train_loop
from medunlearn.training.objectives import NextToken, Objective, Unlearning
from medunlearn.training.precompute import CachePlan
from medunlearn.training.trainable import choose_trainable

WARM = 2
LAYER = 7
ROOM = 0.9
"""Share of the device's memory that a job may be forecast to take."""
GIB = 2**30
Settings = TrainSettings | UnlearnSettings


def timed_products(device: str) -> float:
    """FLOP/s of one large product in bf16; in fp32 on a CPU."""
    side, kind = (8192, torch.bfloat16) if device == "cuda" else (512, torch.float32)
    one, other = (torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
    for _ in range(3):
        one @ other
    return 2 * side**3 * 10 / seconds_of(lambda: [one @ other for _ in range(10)])


@cache
def peak_products(device: str) -> float:
    """FLOP/s of the device's data sheet; timed where it has none here."""
    name = torch.cuda.get_device_name(0) if device == "cuda" else ""
    known = [sheet for key, sheet in DEVICES.items() if key in name]
    return known[-1].products if known else timed_products(device)


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], Any]) -> float:
    wait()
    started = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - started


@dataclass(frozen=True)
class Measured:
    """What a job took.

    Attributes:
        before: seconds before the first step.
        steps: seconds of each timed step.
        tokens: of a timed step, of each sequence whole.
        micro_batch_size: the smallest used.
        loss: of the first step.
        note: error after which the steps were over.
    """

    before: float
    steps: list[float]
    tokens: float
    micro_batch_size: int
    loss: float
    note: str = ""

    @property
    def step(self) -> float:
        return sum(self.steps) / len(self.steps)


@dataclass(frozen=True)
class Job:
    """A training of one model by the engine, or by another way over the same batches."""

    name: str
    settings: Mapping[str, Any]
    way: str = "engine"

    def checked(self, world: World) -> Settings:
        lr = 5e-3 if world.weights == "bf16" else 1e-4
        common = {"lr": lr, "schedule": "constant", "warmup_ratio": 0.0, "epochs": 1, "max_length": 1024}
        common |= {"weights": world.weights, "precision": world.precision}
        if "method" in self.settings:
            own = {"split": world.split, "batch_size": world.patients // 4, **self.settings}
            return check(UnlearnSettings, {**common, **own})
        own = {"model": world.name, "pretrain_epochs": 0, "batch_size": world.patients, **self.settings}
        if self.settings.get("train_on") == "records":
            own["batch_size"] = max(1, world.patients // 8)
        return check(TrainSettings, {**common, **own})


def cost_of(settings: Settings, world: World) -> Cost:
    """The plan's price of a job."""
    pricing = world.pricing
    return pricing.unlearning(settings) if isinstance(settings, UnlearnSettings) else pricing.training(settings)


def with_micro_batch(settings: Settings, world: World) -> Settings:
    """The settings with the largest micro-batch that fits by the plan."""
    sizes = [settings.batch_size // parts for parts in (1, 2, 4, 8, 16, 40) if settings.batch_size // parts]
    for size in sizes:
        settings = settings.model_copy(update={"micro_batch_size": size})
        if cost_of(settings, world).memory.total <= ROOM * world.memory:
            break
    return settings


def train(job: Job, world: World, report: Any) -> None:
    """A row of one job."""
    settings = with_micro_batch(job.checked(world), world)
    cost = cost_of(settings, world)
    world.reset_peak()
    live = world.live()
    measured = {"engine": by_engine, "padded": by_engine, "transformers": transformers_steps}[job.way](
        live, world, settings, *([job.way] if job.way != "transformers" else [])
    )
    peak, of_engine = world.peak(), job.way == "engine"
    whole = measured.before + cost.steps * measured.step
    report.add(
        "training",
        model=world.name,
        job=job.name,
        **{
            "micro-batch": f"{measured.micro_batch_size} of {settings.batch_size}",
            "s before": measured.before,
            "s a step": measured.step,
            "spread": max(measured.steps) / min(measured.steps),
            "tokens/s": measured.tokens / measured.step,
            "MFU": cost.flops / whole / world.peak_products if of_engine else None,
            "plan s / s": cost.flops / (PASSES * world.peak_products) / whole if of_engine else None,
            "peak GiB": None if peak is None else peak / GIB,
            "plan GiB": cost.memory.total / GIB if of_engine else None,
            "plan / peak": cost.memory.total / peak if peak and of_engine else None,
            "first loss": measured.loss,
            "note": measured.note,
        },
    )
    if job.way == "engine":
        report.add("memory by part", model=world.name, job=job.name, **_in_gib(cost), peak=peak and peak / GIB)


def _in_gib(cost: Cost) -> dict[str, float]:
    return {part: size / GIB for part, size in vars(cost.memory).items() if part != "retained"}


def by_engine(live: LanguageModel, world: World, settings: Settings, way: str) -> Measured:
    """The steps of `train` or `unlearn`."""
    started = time.perf_counter()
    pad, reference = live.tokenizer.pad_token_id, None
    loop = loop_settings(settings, settings.seed)
    if isinstance(settings, UnlearnSettings):
        method = unlearning_method(settings)
        plan = _unlearning_plan(live, world, settings, method)
        chosen = default_trainable(method) if settings.trainable == "default" else settings.trainable
        objective: Objective = Unlearning(method)
        live.model = choose_trainable(live.model, chosen)
        cache_plan = CachePlan(live.model, pad, objective, plan, loop.micro_batch_size, int(settings.keep_gb * 1e9))
        kept = cache_plan.fill(None, loop.precision)
        reference = Reference(live.model, kept, complete=cache_plan.complete)
    else:
        plan, objective = phase_plans(world.benchmark, settings, live)["finetune"], NextToken()
        live.model = choose_trainable(live.model, settings.trainable)
    if way == "padded":
        support = decoder_of(live.model).support
        LayoutProbe.of(live.model).support = replace(support, attention="padded")
        live.model.set_attn_implementation("sdpa")
    wait()
    before, ends, rows = time.perf_counter() - started, list[float](), list[dict[str, Any]]()

    def on_step(row: dict[str, Any]) -> None:
        wait()
        ends.append(time.perf_counter())
        rows.append(row)

    note = ""
    try:
        train_loop(live.model, pad, objective, plan, loop, reference=reference, on_step=on_step)
    except MedunlearnError as error:
        if len(rows) <= WARM:
            raise
        note = f"{type(error).__name__}: {error}"[:200]
    # The last step of an epoch may have fewer sequences.
    full = [place for place in range(WARM, len(rows)) if rows[place]["tokens"] > 0.5 * rows[0]["tokens"]]
    steps = [ends[place] - ends[place - 1] for place in full]
    tokens = sum(rows[place]["tokens"] for place in full) / len(full)
    smallest = min(row["micro_batch_size"] for row in rows)
    return Measured(before, steps, tokens, smallest, rows[0]["loss"], note)


def _unlearning_plan(live: LanguageModel, world: World, settings: UnlearnSettings, method: Any) -> Plan:
    rendering = world.pricing.rendering if settings.context is None else world.rendering(settings.context)
    sides = training_sides(world.benchmark, settings, live, rendering)
    partners = {}
    if isinstance(method, AlternativesMethod):
        sides["forget"], partners[SIDE] = with_alternatives(
            sides["forget"], world.benchmark, method, live, rendering, seed=settings.seed
        )
    return Plan(sides, settings.batch_size, settings.epochs, settings.seed, partners=partners)


def score(world: World, report: Any) -> None:
    """Likelihoods of reference answers behind their notes."""
    live, pricing = world.live(), world.pricing
    questions = world.benchmark.questions[: world.questions]
    rows = [live.question_sequence(q, world.benchmark.record[q.record_id], pricing.rendering) for q in questions]
    lengths = pricing.sizes.of_questions(questions, pricing.rendering)
    cost = pricing.reading(lengths, world.batch_size, world.weights)
    score_answers(live, rows[: world.batch_size], batch_size=world.batch_size)
    tokens = sum(len(row.ids) for row in rows)
    ours = partial(score_answers, live, rows, batch_size=world.batch_size)
    _passes(world, report, "scoring", ours, tokens, cost)
    few = rows[: world.questions // 4]
    theirs = partial(transformers_scores, live, few, 8)
    _passes(world, report, "scoring by transformers", theirs, sum(len(row.ids) for row in few), None)


def generate(world: World, report: Any) -> None:
    """Greedy answers to questions on notes."""
    live, pricing, new = world.live(), world.pricing, world.new_tokens
    questions = world.benchmark.questions[: world.questions]
    rows = [live.question_sequence(q, world.benchmark.record[q.record_id], pricing.rendering) for q in questions]
    settings = check(EvaluateSettings, {"split": world.split, "max_new_tokens": new, "batch_size": world.batch_size,
                                        "weights": world.weights})  # fmt: skip
    lengths = pricing.sizes.of_questions(questions, pricing.rendering)
    cost = pricing.answering(questions, settings)
    cost = replace(cost, flops=cost.flops - pricing.reading(lengths, world.batch_size, world.weights).flops)

    def ours(count: int = len(rows)) -> None:
        prompts, shared = [row.prompt for row in rows[:count]], [row.shared for row in rows[:count]]
        answers = decode(live, prompts, shared=shared, max_new_tokens=new, batch_size=world.batch_size)
        assert sum(len(batch) for batch in answers) == count

    ours(world.batch_size)
    _passes(world, report, "generation", ours, len(rows) * new, cost)
    few = rows[: world.batch_size]
    theirs = partial(transformers_answers, live, few, new)
    _passes(world, report, "generation by transformers", theirs, len(few) * new, None)


def rank(world: World, report: Any) -> None:
    """Ranks of facts as an evaluation takes them, and each fact's texts whole."""
    from on_gpu_others import separate_ranks

    from medunlearn.probes.rank_plan import rank_plan

    live, pricing = world.live(), world.pricing
    settings = check(EvaluateSettings, {"split": world.split, "metrics": ["rank"], "batch_size": world.batch_size,
                                        "weights": world.weights, "ranked": world.ranked})  # fmt: skip
    plan = rank_plan(world.benchmark, world.split, settings, ["rank"])
    cost, facts = pricing.ranking(settings), sum(map(len, plan.questions.values()))
    _passes(world, report, "ranks", lambda: world.ranks(live, plan.questions, settings), facts, cost, unit="facts")
    few = [world.benchmark.question[key] for key in list(plan.questions)[: world.compared]]
    work = partial(separate_ranks, live, few, world.benchmark, settings.alternatives, pricing.rendering)
    count = sum(len(plan.questions[question.question_id]) for question in few)
    _passes(world, report, "ranks by whole sequences", work, count, None, unit="facts")


def _passes(
    world: World,
    report: Any,
    job: str,
    work: Callable[[], Any],
    count: float,
    cost: Cost | None,
    unit: str = "tokens",
) -> None:
    world.reset_peak()
    seconds, peak = seconds_of(work), world.peak()
    report.add(
        "passes",
        model=world.name,
        job=job,
        unit=unit,
        number=count,
        **{
            "s": seconds,
            "a second": count / seconds,
            "MFU": None if cost is None else cost.flops / seconds / world.peak_products,
            "plan s / s": None if cost is None else world.planned_seconds(cost) / seconds,
            "peak GiB": None if peak is None else peak / GIB,
            "plan GiB": None if cost is None else cost.memory.total / GIB,
            "plan / peak": None if cost is None or not peak else cost.memory.total / peak,
        },
    )


def jobs(layers: int, *, large: bool = False) -> list[Job]:
    """Trainings, most valuable first."""
    layer = min(LAYER, layers - 1)
    listed = [
        Job("train", {}),
        Job("npo", {"method": "npo"}),
        Job("train, lora", {"trainable": "lora:16"}),
        Job("train, lora by transformers", {"trainable": "lora:16"}, "transformers"),
        Job("rmu", {"method": "rmu", "arguments": {"layer": layer}}),
        Job("counterfactual", {"method": "counterfactual", "context": "closed_book", "train_on": "questions"}),
        Job("train, checkpointing", {"gradient_checkpointing": True}),
        Job("train, 8-bit moments", {"optimizer": "adamw_8bit"}),
        Job("train, lora, padded", {"trainable": "lora:16"}, "padded"),
        Job("train by transformers", {}, "transformers"),
        Job("train, padded", {}, "padded"),
        Job("npo, lora", {"method": "npo", "trainable": "lora:16"}),
        Job("train, records alone", {"train_on": "records"}),
        Job("train, moments on the host", {"offload": "optimizer"}),
    ]
    if not find_spec("bitsandbytes"):
        listed = [job for job in listed if job.settings.get("optimizer") != "adamw_8bit"]
    # A step on the host's cores would take the time of all other jobs of a large model; and where all of it is
    # trained, a pass has room for a single sequence, and nothing can be packed.
    small = [job for job in listed if "offload" in job.settings or (not job.settings and job.way != "engine")]
    return [job for job in listed if not large or job not in small]


def speed_parts(device: str, *, tiny: bool) -> list[tuple[str, float, Callable[[Any], None]]]:
    """A part for each job of each model: name, seconds, work."""
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    shapes = {"tiny": SHAPES["tiny"] | small, "tiny-qwen": TINY_QWEN}
    if not tiny:
        shapes = {"smollm2-135m": SHAPES["smollm2"], "llama3-8b": LLAMA3_8B, "qwen2.5-vl-7b": QWEN}
    passes = {"scoring": score, "generation": generate, "ranks": rank}
    parts: list[tuple[str, float, int, Callable[[Any], None]]] = []
    for name, config in shapes.items():
        large, make = name in LARGE, partial(world, name, _Frozen(config), device)
        needs, layers = 15.0 if large else 6.0, shape_of(config).layers
        listed = [job for job in jobs(layers, large=large) if "vision_config" not in config or job.name in PICTURED]
        for order, job in enumerate(listed):
            parts.append((f"{name} {job.name}", needs, order, partial(_run, partial(train, job), make)))
        for order, (title, work) in enumerate(passes.items() if "vision_config" not in config else ()):
            parts.append((f"{name} {title}", needs, 2 + order, partial(_run, work, make)))
    # The first jobs of each model come before the later ones of any.
    return [(name, needs, work) for name, needs, _, work in sorted(parts, key=lambda part: part[2])]


def _run(work: Callable[[World, Any], None], make: Callable[[], World], report: Any) -> None:
    release()
    work(make(), report)


class _Frozen(dict[str, Any]):
    """A configuration that a cache can take as a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(sorted(self.items())))


LARGE, PICTURED = ("llama3-8b", "qwen2.5-vl-7b"), ("train, lora", "npo, lora")
LLAMA3_8B: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
    "max_position_embeddings": 8192,
}  # fmt: skip
QWEN: dict[str, Any] = {
    "model_type": "qwen2_5_vl",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen2_5_vl_text", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        "tie_word_embeddings": False,
    },
    "vision_config": {
        "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "patch_size": 14,
        "spatial_merge_size": 2, "out_hidden_size": 3584, "fullatt_block_indexes": [7, 15, 23, 31],
        "window_size": 112,
    },
}  # fmt: skip
TINY_QWEN: dict[str, Any] = {
    **QWEN,
    "text_config": {
        **QWEN["text_config"], "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 2100,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
    },
    "vision_config": {
        **QWEN["vision_config"], "depth": 2, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2,
        "out_hidden_size": 32, "fullatt_block_indexes": [1],
    },
}  # fmt: skip
