"""Prices of one model's stages on a benchmark. No model is built or loaded, and torch only for attacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.config import TINIES, AttackSettings, TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.images import image_size
from medunlearn.data.records import Record
from medunlearn.errors import ModelError
from medunlearn.models.folders import adapter_base, cached_file, is_adapter, model_folder
from medunlearn.models.folders import chain as model_chain
from medunlearn.models.light_tokenizer import LETTERS_A_TOKEN, TOKENIZER, LightTokenizer
from medunlearn.models.sequences import Rendering
from medunlearn.models.shape import Shape, Tower, shape_of, tiny_shape
from medunlearn.models.tiny import common_words
from medunlearn.probes.material import rendering_for
from medunlearn.results.runs import Run
from medunlearn.seeds import generator
from medunlearn.study.cost.formulas import Cost
from medunlearn.study.cost.memory import Precision
from medunlearn.study.cost.model_pricing import ModelPricing
from medunlearn.study.cost.sizes import TokenSizes

if TYPE_CHECKING:
    from medunlearn.study.cost.attack_pricing import AttackPrice

FITTED = 1000
"""Texts at most that the tiny model's tokenizer is fitted on in a plan."""
MEASURED = 200
"""Images at most whose size is read."""
TEXT_ALONE = "The benchmark has images, and {} takes text alone. Give a vision-language model, or --images ignore."
QWEN_TOWER = Tower(676_550_144, 32, 1280, 4, 0, 28)
"""Of Qwen2.5-VL-7B and models trained from it (its configuration on the hub), for one that is not here."""
USUAL_TOWER = " Its vision tower is taken for Qwen2.5-VL's: a picture token for 28 x 28 pixels."
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
        shape, tokenizer = _tiny(benchmark, settings) if settings.model in TINIES else _of_folder(settings.model)
        doubts = [shape.doubt] if shape.doubt else []
        if tokenizer.is_stand_in and not shape.doubt:
            doubts.append(NO_TOKENIZER.format(settings.model, LETTERS_A_TOKEN))
        images = {} if settings.images == "ignore" else _images(benchmark)
        if images and shape.tower is None:
            if not shape.doubt:
                raise ModelError(TEXT_ALONE.format(settings.model))
            shape = replace(shape, tower=QWEN_TOWER)
            doubts.append(USUAL_TOWER)
        if not images:
            shape = shape if settings.images == "use" else replace(shape, tower=None)
        sizes = TokenSizes(benchmark, tokenizer, _picture_tokens(images, shape.tower, benchmark.folder))
        rendering = rendering or rendering_for(settings)
        return Pricing(sizes, shape, settings, rendering, auto_precision(on_gpu), processes, doubts=tuple(doubts))

    @staticmethod
    def of_run(run: Run, benchmark: Benchmark, **how: Any) -> Pricing:
        """Prices of what is made from a run's model."""
        settings = check(TrainSettings, {"model": str(run.model)})
        return Pricing.of(benchmark, settings, rendering=run.rendering(), **how)

    def attacks(self, settings: AttackSettings) -> Mapping[str, AttackPrice]:
        """Name of each family of the attacks -> its price on a new model."""
        from medunlearn.study.cost.attack_pricing import attack_prices

        return attack_prices(self, settings)

    def attacking(self, settings: AttackSettings) -> Cost:
        """Price of an `attack` run on a new model."""
        return sum((price.cost for price in self.attacks(settings).values()), Cost())


def auto_precision(on_gpu: bool) -> Precision:
    """Precision that ``auto`` most likely is on a GPU, or on this machine's processor."""
    try:
        instructions = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        instructions = ""
    return "bf16" if on_gpu or "amx_tile" in instructions or "avx512_bf16" in instructions else "fp32"


def _tiny(benchmark: Benchmark, settings: TrainSettings) -> tuple[Shape, LightTokenizer]:
    """The tiny model, with its tokenizer fitted on a sample of the texts."""
    trained = [question for question in benchmark.questions if question.fold == "train"]
    places = generator("fitted sample", settings.seed).permutation(len(benchmark.records) + len(trained))[:FITTED]
    owned: dict[str, list[str]] = {}
    for place in places.tolist():
        row = [*benchmark.records, *trained][place]
        text = row.text if isinstance(row, Record) else f"Question: {row.question}\nAnswer: {row.answer}"
        owned.setdefault(benchmark.subject(row.record_id), []).append(text)
    every: Iterable[str] = chain.from_iterable(owned.values())
    fitted = common_words(owned) if settings.tiny_tokenizer == "common" else every
    tokenizer = LightTokenizer.of_tiny(fitted, settings.tiny_vocabulary)
    pixels = settings.tiny_pixels if settings.model == "tiny-vision" else 0
    vocabulary = tokenizer.vocabulary or settings.tiny_vocabulary
    size = settings.tiny_width, settings.tiny_layers, vocabulary
    return tiny_shape(*size, pixels=pixels, patch=settings.tiny_patch), tokenizer


def light_tokenizer(model: str) -> LightTokenizer:
    """The tokenizer of a model folder, run or hub id."""
    return _of_folder(model)[1]


def _of_folder(model: str) -> tuple[Shape, LightTokenizer]:
    """A model on this machine; or a stand-in for one that is not."""
    source = model_folder(model)
    fetched = None if Path(source).is_dir() else cached_file(source, "config.json")
    folder = Path(source) if fetched is None else fetched.parent
    shape = shape_of(str(folder) if fetched or folder.is_dir() else source)
    if not folder.is_dir():
        return shape, LightTokenizer.stand_in()
    if is_adapter(folder) and not (folder / TOKENIZER).exists():
        return shape, _of_folder(adapter_base(folder))[1]
    return shape, LightTokenizer.of_folder(folder if is_adapter(folder) else model_chain(folder, check=False)[0])


def _images(benchmark: Benchmark) -> dict[str, tuple[str, ...]]:
    """Record -> its images."""
    return {record.record_id: record.images for record in benchmark.records if record.image}


def _picture_tokens(
    images: Mapping[str, tuple[str, ...]], tower: Tower | None, folder: Path | None
) -> dict[str, int]:
    """Record -> tokens of its images, by their size unless the model has one size; of many a sample is read."""
    if tower is None:
        return {}
    if tower.tokens:
        return {record: tower.tokens * len(own) for record, own in images.items()}
    distinct = sorted({image for own in images.values() for image in own})
    places = generator("measured images", len(distinct)).permutation(len(distinct))[:MEASURED].tolist()
    counts = dict[str, int]()
    for image in (distinct[place] for place in places):
        width, height = image_size(Path(image) if folder is None else folder / image)
        counts[image] = max(1, round(width / tower.side)) * max(1, round(height / tower.side))
    usual = round(sum(counts.values()) / max(1, len(counts)))
    return {record: sum(counts.get(image, usual) for image in own) for record, own in images.items()}
