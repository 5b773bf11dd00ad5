"""Attacks that read a model's hidden states at the answers to questions. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from medunlearn.attacks.attack_protocol import Touch
from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.data.records import Question

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.models.sequences import TokenSequence

NOT_A_NUMBER = "the model gives no number (NaN)"
Row = Mapping[str, Any]


@dataclass(frozen=True)
class WhiteBoxAttack(RecoveryAttack):
    """An attack whose adversary holds the weights and reads hidden states; it generates no answer."""

    scored_by: ClassVar[tuple[str, ...]] = ()
    measures_before: ClassVar[bool] = False
    shared: ClassVar[bool] = False
    touches: ClassVar[tuple[Touch, ...]] = ("hidden states",)
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"battery": {}, "quick": {"subjects": 10}}

    ranks_only: Literal[True] = True


def layer_name(layer: int) -> str:
    """Strength of a decoder layer; the first is layer 1."""
    return f"layer {layer + 1}"


def sequences_of(model: AttackedModel, questions: Sequence[Question]) -> list[TokenSequence]:
    """Prompt and reference answer of each question."""
    return model.live.question_sequences(questions, model.benchmark.record, model.rendering)


def value_tokens(
    model: AttackedModel, questions: Sequence[Question], sequences: Sequence[TokenSequence]
) -> list[list[int]]:
    """Indices of the tokens of each answer's values among its scored tokens."""
    from medunlearn.attacks.whitebox.layer_pass import value_places

    return [
        value_places(q, model.benchmark.record[q.record_id].identifiers, sequence, model.live.tokenizer)
        for q, sequence in zip(questions, sequences, strict=True)
    ]


def row(
    item: str, attack: str, strength: str, measure: str, value: float | None, reason: str = NOT_A_NUMBER
) -> dict[str, Any]:
    """A row of the score table, unscored with the reason if there is no number."""
    has_value = value is not None and value == value
    scored = {"value": value if has_value else None, "reason": None if has_value else reason}
    return {"item": item, "attack": attack, "strength": strength, "measure": measure, **scored}


def score_rows(model: AttackedModel, questions: Sequence[Question], rows: Iterable[Row]) -> pd.DataFrame:
    """The score table of rows on questions."""
    import pandas as pd

    from medunlearn.results.scores import question_labels, score_table

    labels = question_labels(model.benchmark, model.benchmark.split(model.settings.split), questions)
    return score_table(pd.DataFrame([*rows]).merge(labels, on="item", how="left", validate="many_to_one"))
