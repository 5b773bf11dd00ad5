"""Prices of one model's stages on a benchmark. No model is built or loaded, and torch only for attacks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from medunlearn.config import TINIES, AttackSettings, TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.images import image_size
from medunlearn.data.records import Question, Record
from medunlearn.errors import ModelError
from medunlearn.models.light_tokenizer import LETTERS_A_TOKEN, LightTokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.models.shape import Shape, Tower, shape_of, tiny_shape
from medunlearn.models.tiny import common_words
from medunlearn.probes.material import rendering_for
from medunlearn.results.runs import Run
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.memory import Precision
from medunlearn.study.cost.model_pricing import ModelPricing
from medunlearn.study.cost.sizes import TokenSizes, sample
from medunlearn.study.plans.forecast import PlannedStage

FITTED = 1000
"""Texts at most that the tiny model's tokenizer is fitted on in a plan."""
MEASURED = 200
"""Images at most whose size is read."""
TEXT_ALONE = "The benchmark has images, and {} takes text alone. Give a vision-language model, or --images ignore."
QWEN_TOWER = Tower(676_550_144, 32, 1280, 4, 0, 28)
"""Of Qwen2.5-VL-7B and models trained from it (its configuration on the hub), for one that is not here."""
USUAL_TOWER = "Its vision tower is taken for Qwen2.5-VL's: a picture token for 28 x 28 pixels."
NO_TOKENIZER = "{} has no tokenizer.json: its texts are taken to have {} letters to a token."


@dataclass
class Pricing(ModelPricing):
    """Prices of one model's stages.

    Attributes:
        doubts: reasons why the numbers are estimates.
    """

    doubts: tuple[str, ...] = ()

    @staticmethod
    def of(
        benchmark: Benchmark,
        settings: TrainSettings,
        *,
        rendering: Rendering | None = None,
        on_gpu: bool = False,
        processes: int = 1,
    ) -> Pricing:
        """Prices of a target model that is trained by some settings, and of its descendants.

        Args:
            rendering: of an adopted model; None: that of the training.

        Raises:
            ModelError: a folder without a model, or a text model for images.
        """
        if settings.model in TINIES:
            shape, tokenizer = _tiny(benchmark, settings)
        else:
            shape, tokenizer = shape_of(settings.model), LightTokenizer.of_model(settings.model)
        doubts = [shape.doubt] if shape.doubt else []
        if tokenizer.is_stand_in and not shape.doubt:
            doubts.append(NO_TOKENIZER.format(settings.model, LETTERS_A_TOKEN))
        has_images = settings.images != "ignore" and any(record.image for record in benchmark.records)
        if has_images and shape.tower is None:
            if not shape.doubt:
                raise ModelError(TEXT_ALONE.format(settings.model))
            shape = replace(shape, tower=QWEN_TOWER)
            doubts.append(USUAL_TOWER)
        elif not has_images and settings.images != "use":
            shape = replace(shape, tower=None)
        images = _picture_tokens(benchmark, shape.tower) if has_images and shape.tower else {}
        sizes, rendering = TokenSizes(benchmark, tokenizer, images), rendering or rendering_for(settings)
        return Pricing(sizes, shape, settings, rendering, auto_precision(on_gpu), processes, doubts=tuple(doubts))

    @staticmethod
    def of_run(run: Run, benchmark: Benchmark, **how: Any) -> Pricing:
        """Prices of what is made from a run's model."""
        settings = check(TrainSettings, {"model": str(run.model)})
        return Pricing.of(benchmark, settings, rendering=run.rendering(), **how)

    def attacks(self, settings: AttackSettings) -> Mapping[str, PlannedStage]:
        """Name of each family of the attacks -> its stage on a new model."""
        from medunlearn.study.cost.attack_pricing import attack_stages

        return {stage.name: stage for stage in attack_stages(self, settings)}

    def attacking(self, settings: AttackSettings) -> PlannedStage:
        """An `attack` run on a new model."""
        stages = self.attacks(settings).values()
        note = "; ".join(stage.note for stage in stages if stage.note)
        return PlannedStage("attack", note=note, cost=sum((stage.cost for stage in stages), Cost()))


def auto_precision(on_gpu: bool) -> Precision:
    """Precision that ``auto`` most likely is on a GPU, or on this machine's processor."""
    try:
        instructions = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        instructions = ""
    return "bf16" if on_gpu or "amx_tile" in instructions or "avx512_bf16" in instructions else "fp32"


def _tiny(benchmark: Benchmark, settings: TrainSettings) -> tuple[Shape, LightTokenizer]:
    """The tiny model, with its tokenizer fitted on a sample of the texts."""
    owned = defaultdict[str, list[str]](list)
    items: list[Record | Question] = [*benchmark.records, *(q for q in benchmark.questions if q.fold == "train")]
    for item in sample("fitted sample", items, FITTED):
        text = item.text if isinstance(item, Record) else f"Question: {item.question}\nAnswer: {item.answer}"
        owned[benchmark.subject(item.record_id)].append(text)
    fitted = common_words(owned) if settings.tiny_tokenizer == "common" else chain.from_iterable(owned.values())
    tokenizer = LightTokenizer.of_tiny(fitted, settings.tiny_vocabulary)
    pixels = settings.tiny_pixels if settings.model == "tiny-vision" else 0
    size = settings.tiny_width, settings.tiny_layers, tokenizer.vocabulary or settings.tiny_vocabulary
    return tiny_shape(*size, pixels=pixels, patch=settings.tiny_patch), tokenizer


def _picture_tokens(benchmark: Benchmark, tower: Tower) -> dict[str, int]:
    """Record -> tokens of its images, by their size unless the model has one size; of many a sample is read."""
    images = {record.record_id: record.images for record in benchmark.records if record.image}
    counts, usual = dict[str, int](), tower.tokens
    if not tower.tokens:
        for image in sample("measured images", sorted({*chain.from_iterable(images.values())}), MEASURED):
            pixels = image_size(Path(image) if benchmark.folder is None else benchmark.folder / image)
            counts[image] = math.prod(max(1, round(length / tower.side)) for length in pixels)
        usual = round(sum(counts.values()) / max(1, len(counts)))
    return {record: sum(counts.get(image, usual) for image in own) for record, own in images.items()}
