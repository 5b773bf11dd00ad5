"""Quantization: rounded weights, and whether they bring back what was forgotten. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from medunlearn.attacks.attack_protocol import AskingWay, Touch
from medunlearn.attacks.recovery.recovery_attacks import State, WeightAttack
from medunlearn.attacks.recovery.recovery_interface import FIRST, rows_of

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.models.quantization import WeightType

PLAIN, AWQ, GPTQ = ("int8", "int4", "nf4"), "awq", "gptq"
TEXTS = 16
"""Retained texts that a linear map's inputs are measured on."""


@dataclass(frozen=True)
class Quantization(WeightAttack):
    """Decoder-layer weights rounded to 8 and to 4 bits, in memory.

    Unlearning changes weights only a little, and rounding may undo the change. Embeddings and the output head keep
    their precision. The formulas are those of :mod:`medunlearn.models.quantization` and
    :mod:`medunlearn.models.error_compensation`.

    Source: Zhang et al. 2024 (arXiv 2410.16454), "Catastrophic failure of LLM unlearning via quantization".

    Attributes:
        types: ``int8``, ``int4``, ``nf4``, ``all`` of them, or ``int`` for the first two; ``awq``: int4 with input
            channels scaled by what retained texts put into them; ``gptq``: int4 whose errors later channels make up
            for on retained texts; ``everything``: all five.
    """

    name: ClassVar[str] = "quantization"
    title: ClassVar[str] = "Quantization"
    source: ClassVar[str] = "Zhang et al. 2024 (arXiv 2410.16454)"
    question: ClassVar[str] = "whether rounded weights bring back what was forgotten"
    in_battery: ClassVar[bool] = True
    touches: ClassVar[tuple[Touch, ...]] = ("weights",)
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "battery": {"types": "everything"},
        "quick": {"types": "int4", "subjects": 20, "facts": 2},
    }
    about: ClassVar[tuple[str, ...]] = (
        "The matrices of the decoder layers are rounded to 8 and to 4 bits. Strength: their type; none: as they "
        "are.",
        "Unlearning moves weights by little, and rounding may move them back. Rounding also damages: read the "
        "retain side beside the forget side.",
    )

    types: Literal["all", "int8", "int4", "nf4", "int", "awq", "gptq", "everything"] = "all"

    @property
    def strengths(self) -> tuple[str, ...]:
        """Names of the quantized weight types."""
        several = {"int": ("int8", "int4"), "all": PLAIN, "everything": (*PLAIN, AWQ, GPTQ)}
        return several.get(self.types, (self.types,))

    def states(self, model: AttackedModel) -> Iterator[State]:
        from medunlearn.models.error_compensation import round_compensated
        from medunlearn.models.quantization import input_sizes, round_activation_aware, round_weights

        for place, kind in enumerate(self.strengths):
            with model.changed():
                weights = model.live.model
                if kind == AWQ:
                    round_activation_aware(weights, input_sizes(weights, _retained_texts(model)))
                elif kind == GPTQ:
                    round_compensated(weights, _retained_texts(model))
                else:
                    round_weights(weights, cast("WeightType", kind))
                yield State(kind, place)

    def number_of_states(self, model: AttackedModel) -> int:
        return len(self.strengths)

    @classmethod
    def in_deletion(cls, shared: Mapping[str, Any]) -> dict[str, Any]:
        return {**shared, "types": "int", "ranks_only": True}

    @classmethod
    def ways(cls, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        """Each type is a way, since one may bring back what another does not."""
        for bits in sorted(strengths):
            prompt = f"the same prompts, with weights rounded to {bits}"
            way = AskingWay(f"weights {bits}", f"Facts with weights rounded to {bits}", prompt, FIRST)
            yield way, rows_of(scores, "ranked_first", bits)


def _retained_texts(model: AttackedModel) -> list[tuple[int, ...]]:
    """Token ids of some retained items of the train fold: nothing of the forgotten subjects is shown."""
    sides = model.benchmark.sides(model.benchmark.split(model.settings.split))
    records, questions = model.training_data("both")
    kept = [record for record in records if sides[record.record_id] == "retain"][:TEXTS]
    asked = [question for question in questions if sides[question.record_id] == "retain"][:TEXTS]
    rendering = model.run.rendering(max_length=model.run.info.rendering["max_length"])
    return [sequence.ids for sequence in model.sequences(kept, asked, rendering)][:TEXTS]
