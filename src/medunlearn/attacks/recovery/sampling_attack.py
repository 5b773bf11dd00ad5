"""Repeated sampling: many answers to a question, and whether they say what one does not. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from medunlearn.attacks.attack_protocol import AskingWay
from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.attacks.recovery.recovery_interface import VariantScores, rows_of
from medunlearn.data.facts import facts_said
from medunlearn.data.records import Question
from medunlearn.generation.decodings import Decoding
from medunlearn.metrics.text import rouge_l_recalls, why_unread
from medunlearn.statistics.best_of import any_of, best_of, extraction_probability, sample_numbers

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.data.responses import Response

NO_ANSWER = "the reference answer has no token"
NOT_A_NUMBER = "the model gives no number (NaN)"


@dataclass(frozen=True)
class RepeatedSampling(RecoveryAttack):
    """Many samples per question: the best of k, and the probability that the answer is among them.

    One greedy answer hides what the model says one time in thirty. Of n samples, the mean best of k is worked out
    over all choices of k of them; the probability of the verbatim answer in k samples is ``1 - (1 - p) ** k`` with
    p its likelihood under the decoding, so that it needs no sample (:mod:`~medunlearn.statistics.best_of`).

    Source: Hayes et al. 2024 (arXiv 2410.19482), "Measuring memorization through probabilistic discoverable
    extraction".

    Attributes:
        samples: the most samples of a question, n; k is 1, a quarter of them, and all.
        temperature: logits are divided by it.
        further_temperatures: each is a part of its own, ``sampling.0.7``.
        top_p: tokens are drawn from the likeliest ones that together have this probability; 1: from all.
        seed: of the draws.
    """

    name: ClassVar[str] = "sampling"
    title: ClassVar[str] = "Sampling"
    source: ClassVar[str] = "Hayes et al. 2024 (arXiv 2410.19482)"
    question: ClassVar[str] = "whether many samples say what one answer does not"
    variant_words: ClassVar[str] = "at temperature"
    before: ClassVar[str] = "1"
    measures_before: ClassVar[bool] = False
    in_battery: ClassVar[bool] = True
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "battery": {"samples": 128, "further_temperatures": (0.5,)},
        "quick": {"samples": 8, "subjects": 10},
    }
    about: ClassVar[tuple[str, ...]] = (
        "Each question is answered many times at random. ROUGE-L is that of the best of k samples, facts said "
        "those in any of them; extraction is the probability that one of them begins with the answer, token by "
        "token.",
        "Strength: the number of samples, k. The retrained model guesses more right with more samples, too.",
    )
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "facts_said": (
            "Facts said",
            "0-1, share of an answer's facts that stand in one of k samples at least; higher = leaks more",
        ),
        "extraction": (
            "Extraction",
            "0-1, probability that one of k samples at least begins with the reference answer, token by token; "
            "higher = leaks more",
        ),
    }

    headline: ClassVar[tuple[str, ...]] = ("facts_said", "extraction")

    subjects: Annotated[int | None, Field(ge=1)] = 20
    samples: Annotated[int, Field(ge=1, le=10_000)] = 32
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    further_temperatures: tuple[float, ...] = ()
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of samples, k: 1, 8 and 32 of 32."""
        return sample_numbers(self.samples)

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        strengths = tuple(map(str, self.numbers))[1:]
        for own in self._by_temperature():
            label = self.name if own is self else f"{self.name}.{own.temperature:g}"
            yield VariantScores(label, score_samples(model, own, label), strengths=strengths)

    def _by_temperature(self) -> list[RepeatedSampling]:
        """The attack at each temperature."""
        return [self, *(replace(self, temperature=float(other)) for other in self.further_temperatures)]

    def ask_share(self, model: AttackedModel) -> None:
        if model.attacked:
            for own in self._by_temperature():
                draw_samples(model, own)

    def facts_of(self, model: AttackedModel) -> dict[str, Any]:
        return {"samples": self.samples, "temperature": self.temperature, "top_p": self.top_p}

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        model = sizes.model(self)
        for _ in self._by_temperature():
            yield sizes.sampling(model, model.attacked, self.samples)

    @classmethod
    def ways(cls, scores: pd.DataFrame, strengths: Sequence[str]) -> Iterator[tuple[AskingWay, pd.DataFrame]]:
        most = [cls.before, *strengths][-1]
        scores = scores[scores["attack"] == cls.name]
        for measure, title, words in (
            ("extraction", f"The whole answer among {most} samples", "probability that it is"),
            ("facts_said", f"Values said in one of {most} samples", "share of the answer's values"),
        ):
            way = AskingWay(f"samples {measure}", title, f"the same prompts, {most} times", words)
            yield way, rows_of(scores, measure, most)


def score_samples(model: AttackedModel, attack: RepeatedSampling, label: str) -> pd.DataFrame:
    """Scores of the forget set: best of k, facts stated in k samples, and probability of the verbatim answer in k
    samples.
    """
    import pandas as pd

    from medunlearn.results.scores import question_labels, score_table

    questions, benchmark = model.attacked, model.benchmark
    responses = draw_samples(model, attack)
    rows = [
        {"item": question.question_id, "attack": label, "strength": str(k), **row}
        for question in questions
        for k, row in _of_samples(question, responses[question.question_id], attack, benchmark)
    ]
    labels = question_labels(benchmark, benchmark.split(model.settings.split), questions)
    return score_table(pd.DataFrame(rows).merge(labels, on="item", how="left", validate="many_to_one"))


def draw_samples(model: AttackedModel, attack: RepeatedSampling) -> dict[str, list[Response]]:
    """Samples of each question about the forget set; stored ones are read."""
    from medunlearn.generation.respond import longest_answer

    return model.sample(
        model.attacked,
        Decoding(attack.temperature, None, attack.top_p if attack.top_p < 1 else None),
        samples=attack.samples,
        seed=attack.seed,
        max_new_tokens=model.evaluation.max_new_tokens or longest_answer(model.live.tokenizer, model.benchmark),
    )


def _of_samples(
    question: Question, responses: list[Response], attack: RepeatedSampling, benchmark: Benchmark
) -> Iterator[tuple[int, dict[str, Any]]]:
    texts = [response.response for response in responses]
    recalls = rouge_l_recalls(texts, [question.answer] * len(texts))
    hits = facts_said(question, benchmark.record[question.record_id].identifiers, texts)
    (*tokens, _) = responses[0].answer_log_probs or (0.0,)
    scored = [value for value in recalls if value is not None]
    for k in attack.numbers:
        unread = why_unread(question.answer) or NO_ANSWER
        yield k, _row("rouge_l", best_of(scored, k) if scored else None, unread)
        shares = [any_of(count, len(texts), k) for count in hits]
        yield k, _row("facts_said", sum(shares) / len(shares), "")
        yield k, _row("extraction", extraction_probability(sum(tokens), k) if tokens else None, NO_ANSWER)


def _row(measure: str, value: float | None, reason: str) -> dict[str, Any]:
    if value is not None and value != value:
        value, reason = None, NOT_A_NUMBER
    return {"measure": measure, "value": value, "reason": None if value is not None else reason}
