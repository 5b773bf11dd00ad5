"""Linear probe: whether hidden states tell true answers about forgotten patients from false ones. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from medunlearn.attacks.recovery.recovery_interface import VariantScores
from medunlearn.attacks.whitebox.whitebox_attack import WhiteBoxAttack, layer_name, row, score_rows, sequences_of
from medunlearn.data.records import Question
from medunlearn.errors import InputError
from medunlearn.seeds import generator

if TYPE_CHECKING:
    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel

FEWEST = 5
"""Retained pairs of a true and a false answer, to fit a probe."""


@dataclass(frozen=True)
class LinearProbe(WhiteBoxAttack):
    """Fit a probe on true and false answers about retained patients, and try it on forgotten ones.

    The false answer is the true one with another value of the same kind (:mod:`medunlearn.data.alternatives`).
    Random labels are the control (:mod:`medunlearn.attacks.whitebox.truth_probe`). Strength: the layer.

    Source: Alain & Bengio 2017 (arXiv 1610.01644); Hewitt & Liang 2019 (arXiv 1909.03368); on unlearned models
    Lynch et al. 2024 (arXiv 2402.16835), Section 3.
    """

    name: ClassVar[str] = "linear_probe"
    title: ClassVar[str] = "Linear probe"
    source: ClassVar[str] = "Hewitt & Liang 2019 (arXiv 1909.03368); Lynch et al. 2024 (arXiv 2402.16835)"
    question: ClassVar[str] = "whether hidden states tell what is true of the forgotten patients"
    before: ClassVar[str] = "random labels"
    headline: ClassVar[tuple[str, ...]] = ("probe_accuracy",)
    alone: ClassVar[str] = (
        "0.5 is guessing; a model that never saw the patients may be above it by what values are usual"
    )
    about: ClassVar[tuple[str, ...]] = (
        "A linear probe learns from retained patients to tell the state behind a true answer from that behind a "
        "false one, and is tried on the forgotten patients. Strength: the layer; random labels: the same probe on "
        "labels swapped at random, the mean over layers.",
    )
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "probe_accuracy": (
            "Pairs told apart",
            "0-1, share of pairs in which the true answer scores higher, 0.5 = guessing; higher = leaks more",
        ),
        "probe_selectivity": ("Selectivity", "-1 to 1, accuracy minus that of random labels; higher = leaks more"),
    }

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        from medunlearn.attacks.whitebox.layer_pass import check_layers
        from medunlearn.attacks.whitebox.truth_probe import last_states, pair_states, probe_pairs
        from medunlearn.models.scoring import in_batches

        check_layers(model.live)
        sides = {side: self._pairs(model, side) for side in ("retain", "forget")}
        for side, least in (("retain", FEWEST), ("forget", 1)):
            if len(sides[side]) < least:
                raise InputError(
                    f"a probe takes {least} {side} facts with other values of their kind, and there are "
                    f"{len(sides[side])}: raise --linear_probe.subjects"
                )
        states = {
            side: pair_states(
                *(
                    in_batches(last_states, model.live, sequences_of(model, questions), model.settings.batch_size)
                    for questions in zip(*pairs, strict=True)
                )
            )
            for side, pairs in sides.items()
        }
        questions, rows, controls = [true for true, _ in sides["forget"]], list[dict[str, Any]](), []
        layers = range(states["forget"][0].shape[1])
        for layer in layers:
            known, tried = (
                (true[:, layer], false[:, layer]) for true, false in (states["retain"], states["forget"])
            )
            own, control = probe_pairs(known, tried, model.settings.seed)
            controls.append(control)
            for question, accuracy, chance in zip(questions, own.tolist(), control.tolist(), strict=True):
                where = (question.question_id, self.name, layer_name(layer))
                rows.append(row(*where, "probe_accuracy", accuracy))
                rows.append(row(*where, "probe_selectivity", accuracy - chance))
        for place, question in enumerate(questions):
            chance = sum(float(control[place]) for control in controls) / len(controls)
            rows.append(row(question.question_id, self.name, self.before, "probe_accuracy", chance))
        strengths = tuple(layer_name(layer) for layer in layers)
        yield VariantScores(self.name, score_rows(model, questions, rows), strengths=strengths)

    def _pairs(self, model: AttackedModel, side: Any) -> list[tuple[Question, Question]]:
        """Each question with a fact that has alternatives: as it is, and with one of them (seeded)."""
        from medunlearn.data.alternatives import pool_of
        from medunlearn.data.fact_ranks import facts_with_alternatives

        pool, pairs = pool_of(model.benchmark, self.alternatives), []
        for question in model.of_side(side):
            texts = [
                text
                for _, alternatives in facts_with_alternatives(question, model.benchmark.record, pool)
                for text in alternatives.texts
            ]
            if texts:
                draw = generator("false answer", model.settings.seed, question.question_id)
                false = replace(
                    question, answer=texts[int(draw.integers(len(texts)))], options=(), answer_index=None
                )
                pairs.append((question, false))
        return pairs

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        yield sizes.scoring(sizes.model(self).questions, 2)
