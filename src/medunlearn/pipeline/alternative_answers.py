"""Alternative answers of a forget set: made by the target before the first step, and kept while the run goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from medunlearn.data.alternatives import pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import make_folder, read_table, write_table
from medunlearn.errors import InputError
from medunlearn.generation.counterfactuals import Counterfactuals, counterfactuals
from medunlearn.generation.forget_passages import ForgetPassage, passage_of
from medunlearn.methods.protocol import AlternativesMethod
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.progress import progress, remark

SIDE = "alternatives"
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("caps", pa.list_(pa.float64())),
        ("floors", pa.list_(pa.float64())),
        ("ids", pa.list_(pa.list_(pa.int64()))),
        ("shared", pa.list_(pa.int32())),
        ("scored_from", pa.list_(pa.int32())),
    ]
)
"""One row per forget sequence; the last three have one entry per alternative. Ids of picture tokens take 64 bits.
"""

Partners = Mapping[str, Sequence[TokenSequence]]


class NoAlternativesError(InputError):
    """A method that learns alternative answers has none for the whole forget set."""


def check_rendering(method: object, rendering: Rendering, name: str) -> None:
    """Refuse a method that learns alternative answers where the true ones stand in the prompt.

    Raises:
        InputError: says how to ask otherwise.
    """
    if isinstance(method, AlternativesMethod) and rendering.context == "note":
        raise InputError(
            f"{name} learns what would be said of a stranger, and in note context the patient's own note is in the "
            "prompt. Say --context closed_book."
        )


def with_alternatives(
    forget: Sequence[TokenSequence],
    benchmark: Benchmark,
    method: AlternativesMethod,
    language_model: LanguageModel,
    rendering: Rendering,
    *,
    seed: int,
    keep_in: Path | None = None,
    title: str = "",
    quiet: bool = True,
) -> tuple[list[TokenSequence], Partners]:
    """The forget sequences, with caps where the method reads them, and the alternatives of each.

    Sequences without alternatives are left out, and that is said.

    Args:
        language_model: the target.
        keep_in: file that what is made is written to, and read from by a run that goes on.

    Raises:
        NoAlternativesError: no sequence has an alternative.
    """
    answers = None if keep_in is None or not keep_in.exists() else _read(keep_in)
    if answers is None:
        passages = [_passage(sequence, benchmark, language_model) for sequence in forget]
        with progress(f"{title}: alternative answers", len(passages), quiet=quiet) as advance:
            answers = counterfactuals(
                language_model,
                passages,
                pool_of(benchmark, max(method.alternatives, 9)),
                rendering,
                method.alternatives,
                capped=method.capped,
                whole_values=getattr(method, "whole_values", False),
                seed=seed,
                advance=advance,
            )
        if keep_in is not None:
            _write(keep_in, answers)
    capped = [
        replace(s, caps=answers.caps.get(s.key, ()), floors=answers.floors.get(s.key, ()))
        for s in forget
        if answers.alternatives[s.key]
    ]
    if not capped:
        raise NoAlternativesError(
            f"{title}: no alternative answers can be made: no prompt names anybody, and no answer has a value. "
            "Choose another method, or build the benchmark with identifiers."
        )
    if missing := len(forget) - len(capped):
        remark(f"{title}: {missing} of {len(forget)} forget sequences have no alternative answer.")
    return capped, {sequence.key: answers.alternatives[sequence.key] for sequence in capped}


def stand_ins(forget: Sequence[TokenSequence], method: AlternativesMethod) -> tuple[list[TokenSequence], Partners]:
    """Sequences of the same lengths as :func:`with_alternatives` gives, to reckon a run's cost with."""
    capped = [replace(s, caps=(0.0,) * s.scored if method.capped else ()) for s in forget]
    return capped, {s.key: [replace(s, key=f"{s.key}~{n}") for n in range(method.alternatives)] for s in forget}


def _passage(sequence: TokenSequence, benchmark: Benchmark, language_model: LanguageModel) -> ForgetPassage:
    question = benchmark.question.get(sequence.key)
    record = question.record_id if question else sequence.key.rpartition("#")[0]
    return passage_of(sequence, benchmark.record[record], question, language_model.tokenizer)


def _write(path: Path, answers: Counterfactuals) -> None:
    make_folder(path.parent)
    rows = [
        {
            "key": key,
            "caps": list(answers.caps.get(key, ())),
            "floors": list(answers.floors.get(key, ())),
            "ids": [list(sequence.ids) for sequence in alternatives],
            "shared": [sequence.shared for sequence in alternatives],
            "scored_from": [sequence.scored_from for sequence in alternatives],
        }
        for key, alternatives in answers.alternatives.items()
    ]
    write_table(path, rows, _SCHEMA)


def _read(path: Path) -> Counterfactuals:
    alternatives = dict[str, tuple[TokenSequence, ...]]()
    caps, floors = dict[str, tuple[float, ...]](), dict[str, tuple[float, ...]]()
    for row in read_table(path, _SCHEMA):
        key, columns = row["key"], zip(row["ids"], row["shared"], row["scored_from"], strict=True)
        caps[key], floors[key] = tuple(row["caps"]), tuple(row["floors"])
        alternatives[key] = tuple(
            TokenSequence(f"{key}~{place}", tuple(ids), shared, scored_from)
            for place, (ids, shared, scored_from) in enumerate(columns)
        )
    return Counterfactuals(alternatives, caps, floors)
