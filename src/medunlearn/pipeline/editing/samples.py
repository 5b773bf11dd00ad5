"""The samples that an edit reads: what the target was trained on of each side, and whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from medunlearn.config import UnlearnSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Record
from medunlearn.errors import InputError
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Rendering, TokenSequence, image_tokens
from medunlearn.pipeline.material import chosen, sequences, training_data


@dataclass(frozen=True)
class Samples:
    """One side's samples.

    Attributes:
        sequences: pieces of records, and questions with their answers, as the target saw them.
        bare: the same without their images; None where no sample has one.
        groups: level -> node, of the record behind each.
    """

    sequences: tuple[TokenSequence, ...]
    bare: tuple[TokenSequence, ...] | None
    groups: tuple[Mapping[str, str], ...]


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
        bare = [without(one, image_tokens(record, rendering, language_model.pictures)) for one, record in pairs]
        found[side] = Samples(
            tuple(one for one, _ in pairs),
            tuple(bare) if any(len(a.ids) < len(b.ids) for a, (b, _) in zip(bare, pairs, strict=True)) else None,
            tuple(record.groups for _, record in pairs),
        )
    return found


def without(sequence: TokenSequence, image: tuple[int, ...]) -> TokenSequence:
    """A sequence without what stands for its image; the same where it has none."""
    ids, length = sequence.ids, len(image)
    start = next((at for at in range(len(ids) - length + 1) if ids[at : at + length] == image), None)
    if not length or start is None:
        return sequence
    shared = sequence.shared - length if start + length <= sequence.shared else sequence.shared
    rest = (*ids[:start], *ids[start + length :])
    return replace(sequence, ids=rest, shared=shared, scored_from=max(1, sequence.scored_from - length))
