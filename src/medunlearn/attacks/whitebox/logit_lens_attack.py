"""Logit lens: the answer decoded from every layer. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any, ClassVar

from medunlearn.attacks.recovery.recovery_interface import VariantScores
from medunlearn.attacks.whitebox.whitebox_attack import (
    WhiteBoxAttack,
    layer_name,
    row,
    score_rows,
    sequences_of,
    value_tokens,
)

if TYPE_CHECKING:
    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.reports.blocks import Table

HEAT_MAP = "layer_by_position"
POSITIONS = 24
"""Tokens shown."""


@dataclass(frozen=True)
class LogitLens(WhiteBoxAttack):
    """Decode the values of each answer from the output of every layer by the model's own final norm and head.

    A model may hide an answer in its last layers and hold it in those below. Teacher-forced: each token is decoded
    behind the prompt and the true tokens before it. ``lens_probability`` is the geometric mean of the value tokens'
    probabilities, ``lens_rank`` the mean of 1 / rank among all tokens (1 = most likely).

    Source: nostalgebraist 2020, "interpreting GPT: the logit lens"; as an attack on edited models Patil et al. 2024
    (arXiv 2309.17410), Section 4.
    """

    name: ClassVar[str] = "logit_lens"
    title: ClassVar[str] = "Logit lens"
    source: ClassVar[str] = "nostalgebraist 2020; Patil et al. 2024 (arXiv 2309.17410), Section 4"
    question: ClassVar[str] = "whether a layer below the output still says what was forgotten"
    before: ClassVar[str] = "output"
    headline: ClassVar[tuple[str, ...]] = ("lens_probability",)
    about: ClassVar[tuple[str, ...]] = (
        "The values of each answer are decoded from the output of every layer by the model's own final norm and "
        "head. Strength: the layer; output: the model as it is.",
        "A value that a layer gives away and the output does not is hidden, not gone.",
    )
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "lens_probability": (
            "Probability by layer",
            "0-1, geometric mean of the value tokens' probabilities decoded from a layer; higher = leaks more",
        ),
        "lens_rank": (
            "Reciprocal rank by layer",
            "0-1, mean of 1 / rank of the value tokens decoded from a layer; higher = leaks more",
        ),
    }

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        from medunlearn.attacks.whitebox.layer_pass import check_layers, lens_scores
        from medunlearn.models.scoring import in_batches

        check_layers(model.live)
        questions = model.questions
        sequences = sequences_of(model, questions)
        scores = in_batches(lens_scores, model.live, sequences, model.settings.batch_size)
        places = value_tokens(model, questions, sequences)
        strengths = [layer_name(layer) for layer in range(len(scores[0].log_probs) - 1)]
        rows = [
            row(question.question_id, self.name, strength, measure, value)
            for question, lens, own in zip(questions, scores, places, strict=True)
            for measure, values in (
                ("lens_probability", lens.probabilities(own)),
                ("lens_rank", lens.ranks_of(own)),
            )
            for strength, value in zip((*strengths, self.before), values, strict=True)
        ]
        yield VariantScores(self.name, score_rows(model, questions, rows), strengths=tuple(strengths))

    def facts_of(self, model: AttackedModel) -> dict[str, Any]:
        """Probability of each token of the first forgotten answer by layer, [layers][tokens]; no text."""
        from medunlearn.attacks.whitebox.layer_pass import lens_scores

        questions = model.attacked[:1]
        sequences = sequences_of(model, questions)
        (scores,), (places,) = lens_scores(sequences, model.live), value_tokens(model, questions, sequences)
        rows = [
            [None if p != p else round(exp(p), 4) for p in layer] for layer in scores.log_probs[:, :-1].tolist()
        ]
        return {HEAT_MAP: rows, "values": list(places)}

    @classmethod
    def more_tables(cls, facts: Mapping[str, Mapping[str, Any]]) -> Sequence[Table]:
        """Layer by position for one patient, from the output down; the tokens of values are marked."""
        from medunlearn.reports.blocks import Cell
        from medunlearn.reports.formatting import ABSENT, decimal
        from medunlearn.reports.table_blocks import records

        tables = []
        for label, own in facts.items():
            layers: Sequence[Sequence[float | None]] = own.get(HEAT_MAP, ())
            positions = range(min(POSITIONS, len(layers[0]) if layers else 0))
            heads = [Cell("Layer"), *(Cell(str(n + 1), "value" if n in own["values"] else "") for n in positions)]
            names = [*map(layer_name, range(len(layers) - 1)), cls.before]
            rows = [
                (
                    Cell(name),
                    *(Cell(ABSENT if layer[n] is None else decimal(float(layer[n] or 0.0))) for n in positions),
                )
                for name, layer in reversed(list(zip(names, layers, strict=True)))
            ]
            tables.append(records(heads, rows, f"{label}: probability of each token of one answer"))
        return [table for table in tables if table is not None]

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        yield sizes.scoring(sizes.model(self).questions, 2)
