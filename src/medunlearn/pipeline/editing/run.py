"""A run of an edit method: load, read both sides, write to the weights, save. It is done or it is not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.methods.editing import EditedModel, EditMethod
from medunlearn.models.activations import SequenceReader, Side
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.feeding import described
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.mlps import chosen_layers
from medunlearn.models.sequences import Rendering
from medunlearn.pipeline.editing.samples import Samples, side_samples
from medunlearn.pipeline.material import rendering_of
from medunlearn.pipeline.outcome import finish
from medunlearn.progress import Advance, progress
from medunlearn.results.runs import Recording, Run


def edit(
    recording: Recording,
    target: Run,
    benchmark: Benchmark,
    settings: UnlearnSettings,
    method: EditMethod,
    *,
    device: str,
    quiet: bool,
) -> None:
    """Edit the target's model, and save it in the recording's folder with what was done.

    Raises:
        InputError: the model has no such layers, or no MLPs that can be edited.
        MedunlearnError: memory runs out with a single sample.
    """
    split = benchmark.split(settings.split)
    rendering = rendering_of(target, settings.template, settings.context, settings.max_length, settings.long_notes)
    with recording.stage("load"):
        live = load_model(target.model, device=device, weights=settings.weights, images=benchmark.folder)
        live.model.eval()
        samples = side_samples(benchmark, settings, live, rendering)
    total = sum(len(one.sequences) for one in samples.values())
    with recording.stage("edit"), progress(recording.label, total, quiet=quiet) as advance:
        sides = {name: side_of(live, one, method, settings, advance) for name, one in samples.items()}
        report = method.edit(EditedModel(live.model, benchmark.levels, split.level), **sides)
    recording.info["results"] = {
        **_facts(live, rendering, samples),
        "split": {"name": split.name, "level": split.level, "forget": len(split.forget)},
        "edit": report,
    }
    recording.info["results"]["saved"] = finish(live, [], recording.folder, base=target.model)


def side_of(
    live: LanguageModel, samples: Samples, method: EditMethod, settings: UnlearnSettings, advance: Advance
) -> Side:
    """A side's samples, read as far up as the method looks."""
    last = max(chosen_layers(method.layers, len(decoder_layers(live.model))))
    reader = SequenceReader(live, samples.sequences, last, samples.bare)
    return Side(reader, samples.groups, settings.micro_batch_size, advance)


def _facts(live: LanguageModel, rendering: Rendering, samples: dict[str, Samples]) -> dict[str, Any]:
    return {
        "rendering": asdict(rendering),
        "steps": 0,
        "tokens": sum(len(sequence.ids) for one in samples.values() for sequence in one.sequences),
        "samples": {name: len(one.sequences) for name, one in samples.items()},
        "batches": described(live.model),
        "parameters": sum(tensor.numel() for tensor in live.model.parameters()),
    }
