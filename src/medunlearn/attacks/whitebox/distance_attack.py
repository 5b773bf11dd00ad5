"""Distance of hidden states from the target's and from the retrained model's. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from medunlearn.attacks.attack_protocol import SecondRole
from medunlearn.attacks.recovery.recovery_interface import VariantScores
from medunlearn.attacks.whitebox.whitebox_attack import WhiteBoxAttack, layer_name, row, score_rows, sequences_of
from medunlearn.errors import InputError

if TYPE_CHECKING:
    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel

ALIKE = "target and retrained model have the same states here"


@dataclass(frozen=True)
class HiddenDistance(WhiteBoxAttack):
    """Compare hidden states at the answers with those of the target and of the retrained model, layer by layer.

    ``nearness_to_target`` is d(retrained) / (d(retrained) + d(target)) with d the relative distance, the norm of
    the difference over that of the other model's states, averaged over the tokens that predict the answer: 1 = the
    target's states, 0 = the retrained model's, 0.5 = as far from both, as is a model that was damaged. It does not
    say what the states mean: any training moves them.

    Source: relative L2 and cosine as in representation analyses of unlearning; Kornblith et al. 2019 (arXiv
    1905.00414) on what such distances miss.
    """

    name: ClassVar[str] = "hidden_distance"
    title: ClassVar[str] = "Hidden-state distance"
    source: ClassVar[str] = "relative L2 distance; Kornblith et al. 2019 (arXiv 1905.00414)"
    question: ClassVar[str] = "whether the hidden states are still those of the target"
    before: ClassVar[str] = "all layers"
    headline: ClassVar[tuple[str, ...]] = ("nearness_to_target", "cosine_to_target")
    has_readings: ClassVar[bool] = False  # damage, too, is nearer to the target than the retrained model is
    second_models: ClassVar[tuple[SecondRole, ...]] = ("target", "retrained")
    alone: ClassVar[str] = "cosine to the target's states; a model that never saw the patients has a high one, too"
    variant_words: ClassVar[str] = "by"
    about: ClassVar[tuple[str, ...]] = (
        "Hidden states at the tokens that predict the answers, beside the target's and the retrained model's. They "
        "tell where a method changed the model, not what it still knows.",
    )
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "nearness_to_target": (
            "Nearness to the target",
            "0-1, 1 = the target's hidden states, 0 = the retrained model's; higher = nearer to the target",
        ),
        "cosine_to_target": ("Cosine to the target", "-1 to 1, of hidden states; higher = nearer to the target"),
        "nearness_at_layer": ("Nearness at the layer", "0-1, as nearness to the target, of one layer"),
        "cosine_at_layer": ("Cosine at the layer", "-1 to 1, as cosine to the target, of one layer"),
    }

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        from medunlearn.attacks.whitebox.distances import state_distances
        from medunlearn.attacks.whitebox.layer_pass import why_unlike

        others, reason = [model.second("target")], ""
        try:
            others.append(model.second("retrained"))
        except InputError as error:
            reason = f"no retrained model to be near to: {error}"
        for other in others:
            if unlike := why_unlike(model.live, other):
                raise InputError(f"hidden states cannot be compared: {unlike}")
        questions = model.attacked
        sequences = sequences_of(model, questions)
        distances = state_distances(model.live, others, sequences, model.settings.batch_size)
        whole, layers = list[dict[str, Any]](), list[dict[str, Any]]()
        for question, own in zip(questions, distances, strict=True):
            for measure, values in (("nearness", own.nearness), ("cosine", own.cosines)):
                known = [value for value in values if value is not None]
                mean = sum(known) / len(known) if known else None
                item, why = question.question_id, reason or ALIKE
                whole.append(row(item, self.name, self.before, f"{measure}_to_target", mean, why))
                layers += [
                    row(item, f"{self.name}.layers", layer_name(n), f"{measure}_at_layer", value, why)
                    for n, value in enumerate(values)
                ]
        yield VariantScores(self.name, score_rows(model, questions, whole), reason)
        strengths = tuple(dict.fromkeys(entry["strength"] for entry in layers))
        yield VariantScores(f"{self.name}.layers", score_rows(model, questions, layers), strengths=strengths)

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        yield sizes.scoring(sizes.model(self).attacked, 3, models=3)
