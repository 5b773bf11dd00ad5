"""Quantization: rounded weights, and whether they bring back what was forgotten. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from medunlearn.attacks.attack_protocol import AskingWay, Touch
from medunlearn.attacks.recovery.recovery_attacks import State, WeightAttack
from medunlearn.attacks.recovery.recovery_interface import FIRST, rows_of

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.recovery.attacked_model import AttackedModel


@dataclass(frozen=True)
class Quantization(WeightAttack):
    """Decoder-layer weights rounded to 8 and to 4 bits, in memory.

    Unlearning changes weights only a little, and rounding may undo the change. Embeddings and the output head keep
    their precision. The formulas are those of :mod:`medunlearn.models.quantization`.

    Source: Zhang et al. 2024 (arXiv 2410.16454), "Catastrophic failure of LLM unlearning via quantization".

    Attributes:
        types: ``int8``, ``int4``, ``nf4``, ``all`` of them, or ``int`` for the first two.
    """

    name: ClassVar[str] = "quantization"
    title: ClassVar[str] = "Quantization"
    source: ClassVar[str] = "Zhang et al. 2024 (arXiv 2410.16454)"
    question: ClassVar[str] = "whether rounded weights bring back what was forgotten"
    in_battery: ClassVar[bool] = True
    touches: ClassVar[tuple[Touch, ...]] = ("weights",)
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "battery": {},
        "quick": {"types": "int4", "subjects": 20, "facts": 2},
    }
    about: ClassVar[tuple[str, ...]] = (
        "The matrices of the decoder layers are rounded to 8 and to 4 bits. Strength: their type; none: as they "
        "are.",
        "Unlearning moves weights by little, and rounding may move them back. Rounding also damages: read the "
        "retain side beside the forget side.",
    )

    types: Literal["all", "int8", "int4", "nf4", "int"] = "all"

    @property
    def strengths(self) -> tuple[Literal["int8", "int4", "nf4"], ...]:
        """Names of the quantized weight types."""
        if self.types == "int":
            return ("int8", "int4")
        return ("int8", "int4", "nf4") if self.types == "all" else (self.types,)

    def states(self, model: AttackedModel) -> Iterator[State]:
        from medunlearn.models.quantization import round_weights

        for place, kind in enumerate(self.strengths):
            with model.changed():
                round_weights(model.live.model, kind)
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
