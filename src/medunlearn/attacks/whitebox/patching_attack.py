"""Activation patching: unlearning depth, layer by layer. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from medunlearn.attacks.attack_protocol import AskingWay, SecondRole
from medunlearn.attacks.recovery.recovery_interface import VariantScores, rows_of
from medunlearn.attacks.whitebox.whitebox_attack import (
    WhiteBoxAttack,
    layer_name,
    row,
    score_rows,
    sequences_of,
    value_tokens,
)
from medunlearn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel

AS_WELL = "the retrained model's states are as good as the target's: nothing that only the target knows"
NO_LEAD = "the model says the values as well as the target: nothing to restore"


@dataclass(frozen=True)
class Patching(WhiteBoxAttack):
    """Put a model's hidden states in the place of the target's, and the target's in the place of the model's.

    ``knowledge_kept`` is 1 - the unlearning depth (:mod:`medunlearn.attacks.whitebox.depth` defines positions,
    log-probabilities and scale): 1 = as much is left as in the target, 0 = as little as in the retrained model.
    ``lens_kept`` is the same by the logit lens. By layer: ``kept_at_layer``, the layer's own share, and
    ``restored_at_layer``, the share of the target's advantage that its states at that layer give back to the model.

    Without a retrained model there is no scale: ``left_of_target`` says what share of a value token's probability
    the target keeps with the model's states, the geometric mean over tokens and layers, whatever a model that never
    knew would leave.

    Source: Lee et al. 2026 (arXiv 2605.24614), Section 3.
    """

    name: ClassVar[str] = "patching"
    title: ClassVar[str] = "Activation patching"
    source: ClassVar[str] = "Lee et al. 2026 (arXiv 2605.24614), Section 3"
    question: ClassVar[str] = "whether the hidden states still hold what was forgotten"
    before: ClassVar[str] = "all layers"
    headline: ClassVar[tuple[str, ...]] = ("knowledge_kept", "left_of_target")
    second_models: ClassVar[tuple[SecondRole, ...]] = ("target", "retrained")
    alone: ClassVar[str] = (
        "the share of a value's probability that the target keeps with this model's hidden states; what a model "
        "that never saw the patients would leave is not known"
    )
    variant_words: ClassVar[str] = "by"
    about: ClassVar[tuple[str, ...]] = (
        "The model's hidden states at one layer take the place of the target's at the tokens that predict the "
        "values, and the target's layers go on from there. What the target then says less, the states lack.",
        "1 - depth: 1 = as much is left as in the target, 0 = as little as in the retrained model.",
    )
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "knowledge_kept": (
            "Knowledge kept (1 - depth)",
            "0-1, share of what only the target knows that the hidden states still hold; higher = leaks more",
        ),
        "lens_kept": (
            "Knowledge kept, logit lens",
            "0-1, the same decoded by the target's head instead of run through its layers; higher = leaks more",
        ),
        "left_of_target": (
            "Left of the target's probability",
            "0-1, of a value token with the model's states in the target; higher = leaks more",
        ),
        "kept_at_layer": ("Kept at the layer", "0-1, one layer's share of knowledge kept; higher = leaks more"),
        "restored_at_layer": (
            "Restored from the layer",
            "0-1, share of the target's advantage that its states at a layer give back; higher = less is above it",
        ),
    }

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        from medunlearn.attacks.whitebox.depth import Patched
        from medunlearn.attacks.whitebox.layer_pass import check_layers, why_unlike

        target, retrained, reason = model.second("target"), None, ""
        try:
            retrained = model.second("retrained")
        except InputError as error:
            reason = f"no scale without a retrained model: {error}"
        for other in filter(None, (target, retrained)):
            check_layers(other)
            if unlike := why_unlike(model.live, other):
                raise InputError(f"hidden states cannot be exchanged: {unlike}")
        questions = model.attacked
        sequences = sequences_of(model, questions)
        places = value_tokens(model, questions, sequences)
        size = model.settings.batch_size
        patched = Patched.of(model.live, target, retrained, sequences, places, size)
        kept, layers = list[dict[str, Any]](), list[dict[str, Any]]()
        for question, one in zip(questions, patched, strict=True):
            values = {
                "knowledge_kept": (one.kept, reason or AS_WELL),
                "lens_kept": (one.lens_kept, reason or AS_WELL),
                "left_of_target": (one.left_of_target, ""),
            }
            kept += [
                row(question.question_id, self.name, self.before, measure, value, why)
                for measure, (value, why) in values.items()
            ]
            by_layer = {"kept_at_layer": one.kept_at, "restored_at_layer": one.restored_at}
            reasons = {"kept_at_layer": reason or AS_WELL, "restored_at_layer": NO_LEAD}
            layers += [
                row(
                    question.question_id, f"{self.name}.layers", layer_name(layer), measure, value, reasons[measure]
                )
                for measure, column in by_layer.items()
                for layer, value in enumerate(column)
            ]
        yield VariantScores(self.name, score_rows(model, questions, kept), reason)
        strengths = tuple(dict.fromkeys(entry["strength"] for entry in layers))
        yield VariantScores(f"{self.name}.layers", score_rows(model, questions, layers), strengths=strengths)

    @classmethod
    def ways(cls, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        """The knowledge kept, 0 where nothing is known that only the target knows; none without a scale."""
        measure = "knowledge_kept"
        rows = rows_of(scores, measure, cls.before)
        if rows["value"].notna().any():
            prompt = "texts with the true values, of which the hidden states are read by the model before"
            is_nothing = (rows["reason"] == AS_WELL).fillna(False)
            way = AskingWay(cls.name, f"{cls.title}: knowledge kept", prompt, cls.measures[measure][0].lower())
            yield way, rows.assign(value=rows["value"].mask(is_nothing, 0.0))

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        model = sizes.model(self)
        # Each of three sources: its own pass, and from every layer to the top, on average half of one.
        yield sizes.scoring(model.attacked, 3 * (2 + sizes.layers // 2), models=3)
