"""Run an edit method: load, read both sides, write to the weights, save. It cannot resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Record
from medunlearn.errors import InputError
from medunlearn.methods.editing import EditedModel, EditMethod
from medunlearn.models.activations import SequenceReader, Side
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.folders import file_facts
from medunlearn.models.layer_choice import chosen_layers
from medunlearn.models.layouts import describe_layouts
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.sequences import Rendering, TokenSequence, image_tokens
from medunlearn.probes.material import NOTHING_LEFT, forgotten_before, sequences, training_data
from medunlearn.progress import progress
from medunlearn.results.runs import Recording, Run, folder_of
from medunlearn.study.forget_loss import KEY as FORGET_LOSS
from medunlearn.study.forget_loss import ForgetSample
from medunlearn.training.saving import save, write_history


class Samples(NamedTuple):
    """One side's records and questions, the same sequences without images (None if there are none), and their
    groups.
    """

    sequences: tuple[TokenSequence, ...]
    bare: tuple[TokenSequence, ...] | None
    groups: tuple[Mapping[str, str], ...]


def edit(
    recording: Recording,
    target: Run,
    benchmark: Benchmark,
    settings: UnlearnSettings,
    method: EditMethod,
    rendering: Rendering,
    *,
    device: str,
    quiet: bool,
) -> None:
    """Edit the target's model; save it and a report in the recording's folder.

    Raises:
        InputError: the model has no such layers, or no MLPs that can be edited.
        MedunlearnError: memory runs out with a single sample.
    """
    split = benchmark.split(settings.split)
    with recording.stage("load"):
        live = load_model(target.model, device=device, weights=settings.weights, images=benchmark.folder)
        live.model.eval()
        before, earlier = forgotten_before(target, benchmark, settings.split)
        samples = _side_samples(benchmark, settings, live, rendering, earlier)
        how: dict[str, Any] = {"batch_size": settings.micro_batch_size, "seed": settings.seed}
        sample = ForgetSample.measure(live, samples["forget"].sequences, **how)
    total = sum(len(side.sequences) for side in samples.values())
    with recording.stage("edit"), progress(recording.label, total, quiet=quiet) as advance:
        # Read up to the last layer that the method needs.
        last = max(chosen_layers(method.layers, len(decoder_layers(live.model))))
        sides = {
            name: Side(
                SequenceReader(live, side.sequences, last, side.bare),
                side.groups,
                settings.micro_batch_size,
                advance,
            )
            for name, side in samples.items()
        }
        report = method.edit(EditedModel(live.model, benchmark.levels, split.level), **sides)
    recording.info.results = {
        "rendering": asdict(rendering.dated(live.tokenizer)),
        "benchmark_folder": folder_of(benchmark),
        "steps": 0,
        "tokens": sum(len(sequence.ids) for side in samples.values() for sequence in side.sequences),
        "samples": {name: len(side.sequences) for name, side in samples.items()},
        "batches": describe_layouts(live.model),
        "parameters": sum(tensor.numel() for tensor in live.model.parameters()),
        "split": {"name": split.name, "level": split.level, "forget": len(split.forget)},
        "forgotten_before": before,
        "edit": report,
        FORGET_LOSS: sample.again(live).to_json(),
    }
    recording.info.results["saved"] = save(live, recording.folder / "model", base=target.model)
    write_history([], recording.folder)
    recording.info.model_files = file_facts(recording.folder / "model")


def _side_samples(
    benchmark: Benchmark,
    settings: UnlearnSettings,
    language_model: LanguageModel,
    rendering: Rendering,
    earlier: frozenset[str],
) -> dict[str, Samples]:
    """The samples to forget and to retain: records and questions of the train fold, without those of earlier
    requests.

    Raises:
        InputError: a side has none.
    """
    by_id, sides = benchmark.record, benchmark.sides(benchmark.split(settings.split))
    records, questions = training_data(benchmark, None, settings.train_on)
    pairs: list[tuple[TokenSequence, Record]] = []
    for record in records:
        pairs += [(piece, record) for piece in sequences([record], [], by_id, language_model, rendering)]
    for question in questions:
        pieces = sequences([], [question], by_id, language_model, rendering)
        pairs += [(piece, by_id[question.record_id]) for piece in pieces]
    samples: dict[str, Samples] = {}
    for name in SIDES:
        of_side = [(piece, record) for piece, record in pairs if sides[record.record_id] == name]
        side = [(piece, record) for piece, record in of_side if record.record_id not in earlier]
        if of_side and not side:
            raise InputError(NOTHING_LEFT)
        if not side:
            raise InputError(f"The {name} set has no sequences. Choose another train_on.")
        bare = [
            without_image(piece, image_tokens(record, rendering, language_model.pictures)) for piece, record in side
        ]
        has_images = any(len(plain.ids) < len(piece.ids) for plain, (piece, _) in zip(bare, side, strict=True))
        samples[name] = Samples(
            tuple(piece for piece, _ in side),
            tuple(bare) if has_images else None,
            tuple(record.groups for _, record in side),
        )
    return samples


def without_image(sequence: TokenSequence, image: tuple[int, ...]) -> TokenSequence:
    """A sequence without its image tokens; unchanged if it has none."""
    ids, length = sequence.ids, len(image)
    start = next((at for at in range(len(ids) - length + 1) if ids[at : at + length] == image), None)
    if not length or start is None:
        return sequence
    shared = sequence.shared - length if start + length <= sequence.shared else sequence.shared
    rest = (*ids[:start], *ids[start + length :])
    return replace(sequence, ids=rest, shared=shared, scored_from=max(1, sequence.scored_from - length))
