"""Run an edit method: load, read both sides, write to the weights, save. It cannot resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Record
from medunlearn.errors import InputError
from medunlearn.methods.editing import EditedModel, EditMethod
from medunlearn.models.activations import SequenceReader, Side
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.layouts import describe_layouts
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.mlps import chosen_layers
from medunlearn.models.sequences import Rendering, TokenSequence, image_tokens
from medunlearn.pipeline.material import chosen, sequences, training_data
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
    """Edit the target's model; save it and a report of the edit in the recording's folder.

    Raises:
        InputError: the model has no such layers, or no MLPs that can be edited.
        MedunlearnError: memory runs out with a single sample.
    """
    split = benchmark.split(settings.split)
    rendering = target.rendering(settings.template, settings.context, settings.max_length, settings.long_notes)
    with recording.stage("load"):
        live = load_model(target.model, device=device, weights=settings.weights, images=benchmark.folder)
        live.model.eval()
        samples = side_samples(benchmark, settings, live, rendering)
    total = sum(len(side.sequences) for side in samples.values())
    with recording.stage("edit"), progress(recording.label, total, quiet=quiet) as advance:
        sides = {name: side_of(live, side, method, settings, advance) for name, side in samples.items()}
        report = method.edit(EditedModel(live.model, benchmark.levels, split.level), **sides)
    recording.info.results = {
        "rendering": asdict(rendering),
        "steps": 0,
        "tokens": sum(len(sequence.ids) for side in samples.values() for sequence in side.sequences),
        "samples": {name: len(side.sequences) for name, side in samples.items()},
        "batches": describe_layouts(live.model),
        "parameters": sum(tensor.numel() for tensor in live.model.parameters()),
        "split": {"name": split.name, "level": split.level, "forget": len(split.forget)},
        "edit": report,
    }
    recording.info.results["saved"] = finish(live, [], recording.folder, base=target.model)


@dataclass(frozen=True)
class Samples:
    """The samples of one side.

    Attributes:
        sequences: pieces of records, and questions with their answers, as the target saw them.
        bare: the same without their images; None where no sample has one.
        groups: level -> node, of the record behind each.
    """

    sequences: tuple[TokenSequence, ...]
    bare: tuple[TokenSequence, ...] | None
    groups: tuple[Mapping[str, str], ...]


def side_of(
    live: LanguageModel, samples: Samples, method: EditMethod, settings: UnlearnSettings, advance: Advance
) -> Side:
    """A side's samples, read up to the last layer that the method needs."""
    last = max(chosen_layers(method.layers, len(decoder_layers(live.model))))
    reader = SequenceReader(live, samples.sequences, last, samples.bare)
    return Side(reader, samples.groups, settings.micro_batch_size, advance)


def side_samples(
    benchmark: Benchmark, settings: UnlearnSettings, language_model: LanguageModel, rendering: Rendering
) -> dict[str, Samples]:
    """The samples to forget and to retain: records and questions of the train fold.

    Args:
        language_model: its tokenizer, and how it takes images.

    Raises:
        InputError: a side has none.
    """
    sides = benchmark.sides(benchmark.split(settings.split))
    records, questions = chosen(*training_data(benchmark, None), settings.train_on)
    behind: list[tuple[Record, list[TokenSequence]]] = [
        (record, sequences([record], [], benchmark.record, language_model, rendering)) for record in records
    ]
    behind += [
        (benchmark.record[one.record_id], sequences([], [one], benchmark.record, language_model, rendering))
        for one in questions
    ]
    found: dict[str, Samples] = {}
    for side in SIDES:
        pairs = [(one, record) for record, some in behind if sides[record.record_id] == side for one in some]
        if not pairs:
            raise InputError(f"There is nothing to read: the {side} set has no sequences. Choose another train_on.")
        bare = [
            without_image(one, image_tokens(record, rendering, language_model.pictures)) for one, record in pairs
        ]
        found[side] = Samples(
            tuple(one for one, _ in pairs),
            tuple(bare) if any(len(a.ids) < len(b.ids) for a, (b, _) in zip(bare, pairs, strict=True)) else None,
            tuple(record.groups for _, record in pairs),
        )
    return found


def without_image(sequence: TokenSequence, image: tuple[int, ...]) -> TokenSequence:
    """A sequence without its image tokens; the same where it has none."""
    ids, length = sequence.ids, len(image)
    start = next((at for at in range(len(ids) - length + 1) if ids[at : at + length] == image), None)
    if not length or start is None:
        return sequence
    shared = sequence.shared - length if start + length <= sequence.shared else sequence.shared
    rest = (*ids[:start], *ids[start + length :])
    return replace(sequence, ids=rest, shared=shared, scored_from=max(1, sequence.scored_from - length))
