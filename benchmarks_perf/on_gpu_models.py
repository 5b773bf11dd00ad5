"""Models with random weights, made on their device, and what they are trained on and asked, for on_gpu.py."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from medunlearn.config import EvaluateSettings, TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import Facts
from medunlearn.data.images import image_size
from medunlearn.data.responses import ResponseStore
from medunlearn.generation.fact_ranking import FactRanker, RankSequences
from medunlearn.models.light_tokenizer import LightTokenizer
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Rendering
from medunlearn.models.shape import Shape, shape_of
from medunlearn.models.tiny import build_tiny
from medunlearn.models.vision import family_of
from medunlearn.models.vision.pictures import Pictures
from medunlearn.models.vision.qwen import END, PAD, START
from medunlearn.models.vision.seeing import give_sight
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.papers.medforget.assemble import build_medforget
from medunlearn.probes.material import rendering_for
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.memory import Precision
from medunlearn.study.cost.model_pricing import ModelPricing
from medunlearn.study.cost.sizes import TokenSizes
from medunlearn.study.cost.throughput import DECODING, DEVICES, PASSES
from medunlearn.study.plans.capacity import capacity_of


@cache
def benchmark(patients: int) -> Benchmark:
    """Patients with a note and six questions to train on each; random_25 forgets a quarter of them."""
    return build(AmnesiaSettings(synthetic=patients, note_length="long" if patients > 8 else "short"))


@cache
def pictured(patients: int, pixels: int) -> Benchmark:
    """Patients with a drawn X-ray and two report sections on it each."""
    folder = Path(tempfile.mkdtemp()) / "bench"
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    size = {"institutions": 1, "patients": patients, "studies": 1, "sections": 2, "rephrase": "none"}
    build_medforget({"synthetic": patients, "image_size": pixels, **size}, folder)
    return Benchmark.load(folder)


@cache
def tokenizer(fingerprint: str, texts: tuple[str, ...]) -> Any:
    """A tokenizer of a benchmark, with Qwen2.5-VL's tokens around images."""
    made = build_tiny(texts, vocabulary=2048, width=16, layers=1).tokenizer
    made.add_special_tokens({"additional_special_tokens": [START, PAD, END]})
    return made


def texts_of(benchmark: Benchmark) -> tuple[str, ...]:
    return (*(r.text for r in benchmark.records), *(f"{q.question} {q.answer}" for q in benchmark.questions))


@dataclass(frozen=True)
class World:
    """A model's shape, its benchmark and the plan's prices on one device."""

    name: str
    config: Mapping[str, Any]
    device: str
    weights: Precision
    pricing: ModelPricing
    memory: float
    peak_products: float
    patients: int = 40
    split: str = "random_25"
    new_tokens: int = 45
    questions: int = 256
    batch_size: int = 64
    ranked: int = 10
    compared: int = 2

    @property
    def benchmark(self) -> Benchmark:
        return self.pricing.benchmark

    @property
    def precision(self) -> str:
        """Of products: that of the settings' ``auto``, which needs no instructions for bf16 on a CPU."""
        return "auto" if self.device == "cuda" else "fp32"

    def rendering(self, context: Any) -> Rendering:
        return replace(self.pricing.rendering, context=context)

    def live(self) -> LanguageModel:
        """A new model with random weights."""
        kind, words = torch.bfloat16 if self.weights == "bf16" else torch.float32, self.tokenizer
        config = AutoConfig.for_model(**self.config)
        family = family_of(config)
        if family is not None:
            config.image_token_id = words.convert_tokens_to_ids(PAD)
        torch.manual_seed(0)
        with torch.device(self.device):
            auto: Any = AutoModelForCausalLM if family is None else AutoModelForImageTextToText
            model = auto.from_config(config, dtype=kind)
        # An answer ends at the tokenizer's EOS alone.
        model.generation_config.eos_token_id = None
        pictures = None
        if family is not None:
            vision = config.vision_config
            processor = Qwen2VLImageProcessorPil(patch_size=vision.patch_size, merge_size=vision.spatial_merge_size)
            pictures = Pictures(family, processor, config, words, self.benchmark.folder)
            give_sight(model, pictures)
        return LanguageModel(model.eval(), words, self.name, pictures)

    @property
    def tokenizer(self) -> Any:
        return tokenizer(self.benchmark.fingerprint, texts_of(self.benchmark))

    def ranks(self, live: LanguageModel, questions: Mapping[str, Facts], settings: EvaluateSettings) -> Any:
        """Ranks of facts, as `evaluate` takes them."""
        sequences = RankSequences(live.tokenizer, self.benchmark.record, self.pricing.rendering)
        asked: Sequence[Any] = [self.benchmark.question[key] for key in questions]
        with tempfile.TemporaryDirectory() as folder:
            store = ResponseStore(Path(folder), {})
            return FactRanker(live, sequences, store, settings.batch_size).of_questions(asked, questions)

    def reset_peak(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int | None:
        """Peak bytes of tensors since the last reset; None on a CPU."""
        return torch.cuda.max_memory_allocated() if self.device == "cuda" else None

    def planned_seconds(self, cost: Cost) -> float:
        """Seconds by the plan: a share of the products, and of the bandwidth in decoding."""
        sheet = next((own for key, own in DEVICES.items() if key == self.sheet), None)
        read = cost.generated / self.batch_size * cost.memory.weights
        decoding = read / (DECODING * sheet.bandwidth) if sheet else 0.0
        return cost.flops / (PASSES * self.peak_products) + decoding

    @property
    def sheet(self) -> str | None:
        """Name of the device in the plan's table."""
        name = torch.cuda.get_device_name(0) if self.device == "cuda" else ""
        return max((key for key in DEVICES if key in name), key=len, default=None)


def world(name: str, config: Mapping[str, Any], device: str) -> World:
    """The world of a shape; large models have weights in bf16, others those of the settings' default."""
    from on_gpu_speed import peak_products

    shape, tiny = shape_of(config), name.startswith("tiny")
    weights: Precision = "bf16" if shape.hidden >= 2048 else "fp32"
    own: dict[str, Any] = {"patients": 8 if tiny else 40}
    if tiny:
        own |= {"questions": 32, "batch_size": 16, "new_tokens": 4, "ranked": 1, "compared": 1}
    if shape.tower is None:
        made = benchmark(own["patients"])
    else:
        own |= {"split": "patient_25"}
        made = pictured(own["patients"], 56 if tiny else 448)
    trained = check(TrainSettings, {"model": name, "max_length": 1024})
    words = tokenizer(made.fingerprint, texts_of(made))
    sizes = TokenSizes(made, LightTokenizer(words.backend_tokenizer, None, {}), _picture_tokens(made, shape))
    fast: Precision = "bf16" if device == "cuda" else "fp32"
    pricing = ModelPricing(sizes, shape, trained, rendering_for(trained), fast)
    available = capacity_of(device, Path()).available
    return World(name, config, device, weights, pricing, available, peak_products(device), **own)


def _picture_tokens(made: Benchmark, shape: Shape) -> dict[str, int]:
    """Record -> tokens of its images, all of one size."""
    if shape.tower is None:
        return {}
    image = next(image for record in made.records for image in record.images)
    wide, high = image_size(made.folder / image)
    tokens = round(wide / shape.tower.side) * round(high / shape.tower.side) + 2
    return {record.record_id: tokens * len(record.images) for record in made.records if record.images}
