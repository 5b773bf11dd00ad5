"""Measures of a model in memory on the questions of a recovery attack, computed as in `evaluate`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.attacks.attack_protocol import SecondRole
from medunlearn.attacks.attacked import FOLDER
from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.config import AttackSettings, EvaluateSettings, What, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import SIDES, Question, Record, Side
from medunlearn.data.refusals import is_refusal
from medunlearn.data.responses import Response
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import InputError
from medunlearn.generation.decodings import Decoding
from medunlearn.metrics import distinct_metrics
from medunlearn.metrics.measure import question_items
from medunlearn.models.health import answer_problems, weight_problems
from medunlearn.models.prompts import TemplateName
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.probes.material import sequences, training_data
from medunlearn.probes.question_selection import questions_to_ask
from medunlearn.probes.rank_plan import RankPlan, rank_plan, ranked_order
from medunlearn.probes.reference_tokens import reference_tokens
from medunlearn.probes.score import score_items
from medunlearn.progress import progress
from medunlearn.results.runs import Run
from medunlearn.results.scores import question_labels

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel

RANKED = "ranked_first"


def _no_second(role: SecondRole) -> LanguageModel:
    raise InputError(f"no {role} model was given")


@dataclass
class StateMeasurer:
    """Asks, ranks and scores a run's model with its current weights.

    Responses are stored with those of other attacks by the weights' fingerprint, so that an interrupted attack
    repeats nothing, unless its weights differ.

    Attributes:
        live: the run's model, in memory.
        second: loads the model of another role (:meth:`~medunlearn.attacks.model_holder.ModelHolder.second`).
        problems: strength or label -> why answers in that state are meaningless.
        silences: of each answer about the forget set, whether it is empty or a refusal.
    """

    run: Run
    benchmark: Benchmark
    attack: RecoveryAttack
    settings: AttackSettings
    live: LanguageModel
    quiet: bool
    problems: dict[str, tuple[str, ...]] = field(default_factory=dict)
    second: Callable[[SecondRole], LanguageModel] = _no_second
    silences: list[bool] = field(default_factory=list)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures of answers."""
        return tuple(distinct_metrics((*self.attack.scored_by, *self.settings.more_measures)).values())

    @cached_property
    def evaluation(self) -> EvaluateSettings:
        """Settings of an equivalent `evaluate`."""
        attack, settings = self.attack, self.settings
        own = {
            "folds": [attack.fold, *(["utility"] if attack.unseen else [])],
            "context": attack.context,
            "limit": attack.subjects,
            "max_new_tokens": attack.max_new_tokens or None,
            "alternatives": attack.alternatives,
            "ranked": None,
            "facts": attack.facts,
            "values": attack.values,
            "rank_retained": not attack.unseen,
            "rank_in": "questions",
        }
        shared = ("split", "batch_size", "weights", "allow_broken", "replicates", "seed")
        probes = own if settings.probes is None else {"probes": settings.probes}
        values = {name: getattr(settings, name) for name in shared}
        return check(EvaluateSettings, {**values, **probes, "metrics": self.measures})

    @cached_property
    def rendering(self) -> Rendering:
        return self.run.rendering(self.evaluation.template, self.evaluation.context)

    @cached_property
    def questions(self) -> list[Question]:
        """Questions on both sides, about the selected subjects and of the selected kinds.

        Raises:
            InputError: none of them is about the forget set.
        """
        questions = questions_to_ask(self.benchmark, self.benchmark.split(self.settings.split), self.evaluation)
        if self.attack.unseen:
            questions = self._beside_unseen(questions)
        questions = [question for question in questions if self._is_asked(question)]
        if not any(self.side(question) == "forget" for question in questions):
            if self.settings.probes is not None:
                raise InputError(f"The probe set {self.settings.probes} has no question about the forget set.")
            raise InputError(
                f"The split has no question of the fold {self.attack.fold} about its forget set. Choose another: "
                f"--{self.attack.name}.fold holdout."
            )
        return questions

    def keep(self, records: Collection[str]) -> None:
        """Ask only the questions on these records."""
        self.questions = [question for question in self.questions if question.record_id in records]

    def _beside_unseen(self, questions: Sequence[Question]) -> list[Question]:
        """Questions about the forget set, and for each unseen subject about as many as per forgotten subject.

        They are the first in the ranking order of their facts.
        """
        own = [question for question in questions if self.side(question) == "forget"]
        forgotten = {self.benchmark.subject(question.record_id) for question in own}
        of_kinds = sum(self._is_asked(question) for question in own)
        most = -(-of_kinds // max(1, len(forgotten)))
        unseen: dict[str, dict[str, Question]] = defaultdict(dict)
        for question in questions:
            if question.fold == "utility":
                unseen[self.benchmark.subject(question.record_id)][question.question_id] = question
        for subject, by_id in unseen.items():
            order = [by_id[name] for name in ranked_order(by_id, self.settings.seed, subject, "utility")]
            own += [question for question in order if self._is_asked(question)][:most]
        return own

    def _is_asked(self, question: Question) -> bool:
        return not self.attack.kinds or question.kind in self.attack.kinds

    @cached_property
    def _plan(self) -> RankPlan:
        return rank_plan(self.benchmark, self.settings.split, self.evaluation, self.measures)

    @property
    def folder(self) -> Path:
        """Folder of the responses of changed models."""
        return self.run.folder / FOLDER

    @cached_property
    def _sides(self) -> dict[str, Side]:
        return dict(self.benchmark.sides(self.benchmark.split(self.settings.split)))

    def side(self, question: Question) -> Side:
        return self._sides[question.record_id]

    def of_side(self, side: Side) -> list[Question]:
        return [question for question in self.questions if self.side(question) == side]

    @property
    def attacked(self) -> list[Question]:
        """Questions about the forget set, and about unseen subjects if the attack includes them."""
        return [q for q in self.questions if self.side(q) == "forget" or q.fold == "utility"]

    def measure(
        self, questions: Sequence[Question], attack: str, strength: str, live: LanguageModel | None = None
    ) -> pd.DataFrame:
        """The score table of the questions, with ``attack`` and ``strength``.

        Args:
            live: a wrapper of the run's model (a LoRA adapter); None: the run's own.
        """
        from medunlearn.probes.questioning import Questioning

        model, state, folder = live or self.live, self.run, None
        if strength != self.attack.before:
            state, folder = self._state(model, f"{attack}, {strength}"), self.folder
        how = (self.evaluation, self.rendering, str(model.device), self.quiet, model, folder)
        questioning = Questioning(state, self.benchmark, *how)
        responses = None if self.attack.ranks_only else self._heard(questions, questioning.ask(questions)[1])
        ranks, _, _ = questioning.rank(self._plan, {question.question_id for question in questions})
        labels = question_labels(self.benchmark, self.benchmark.split(self.settings.split), questions)
        tokens = reference_tokens(self.run, self.benchmark, questions, self.evaluation, self.measures)
        items = question_items(questions, self._sides, responses, ranks=ranks, reference_tokens=tokens)
        problems = weight_problems(model.model, model.tokenizer)
        # The same answer to all of the forget set alone is what some methods aim at.
        if responses is not None and {*map(self.side, questions)} == set(SIDES):
            pairs = ((question.answer, responses[question.question_id]) for question in questions)
            problems += answer_problems(
                [(reference, answer.response, answer.finished) for reference, answer in pairs]
            )
        if problems:
            self.problems[f"{attack} {strength}"] = problems
        measures = [name for name in self.measures if responses is not None or name == RANKED]
        scores = score_items(items, measures, self.evaluation, labels, str(model.device))
        return scores.assign(attack=attack, strength=strength)

    def ask(
        self,
        questions: Sequence[Question],
        wording: str,
        template: TemplateName | None = None,
        benchmark: Benchmark | None = None,
    ) -> dict[str, Response]:
        """Greedy responses to questions in other words, with the run's own weights; each is generated once.

        Args:
            wording: name of the wording, which the stored responses are known by; "" for the benchmark's own, whose
                responses are those of `evaluate`.
            template: other than that of the model's training.
            benchmark: records with other images; None: the benchmark's own.
        """
        from medunlearn.probes.questioning import Questioning

        rendering = self.rendering if template is None else replace(self.rendering, template=template)
        folder = self.folder if wording else None
        how = (self.evaluation, rendering, str(self.live.device), self.quiet, self.live, folder)
        key = sha256_of_json([self.settings.split, repr(self.attack)])[:12]
        variant = f"{wording} {key}" if wording else ""
        questioning = Questioning(self.run, benchmark or self.benchmark, *how, variant=variant)
        return self._heard(questions, questioning.ask(questions)[1])

    def _heard(self, questions: Sequence[Question], responses: dict[str, Response]) -> dict[str, Response]:
        """The responses, of which the silent ones about the forget set are counted."""
        self._count_silences(questions, {name: [response] for name, response in responses.items()})
        return responses

    def _count_silences(self, questions: Sequence[Question], responses: Mapping[str, Sequence[Response]]) -> None:
        forgotten = (q.question_id for q in questions if self._sides.get(q.record_id) == "forget")
        texts = (response.response for name in forgotten for response in responses.get(name, ()))
        self.silences += [not text.strip() or is_refusal(text) for text in texts]

    def score(
        self, questions: Sequence[Question], responses: Mapping[str, Response], measures: Sequence[str]
    ) -> pd.DataFrame:
        """The score table of responses to questions, which need not be the benchmark's own."""
        labels = question_labels(self.benchmark, self.benchmark.split(self.settings.split), questions)
        tokens = reference_tokens(self.run, self.benchmark, questions, self.evaluation, measures)
        items = question_items(questions, self._sides, responses, reference_tokens=tokens)
        return score_items(items, measures, self.evaluation, labels, str(self.live.device))

    @contextmanager
    def changed(self) -> Iterator[Mapping[str, Any]]:
        """Context with the weights by name, to be changed in place without gradients; restored bit by bit.

        Random numbers are drawn from the seed of the attack, in every context anew.
        """
        import torch

        from medunlearn.attacks.recovery.restored_weights import restored

        device = self.live.device
        devices = [device] if str(device).startswith("cuda") else []
        with restored(self.live), torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(self.settings.seed)
            yield dict(self.live.model.named_parameters())

    def sample(
        self, questions: Sequence[Question], decoding: Decoding, *, samples: int, seed: int, max_new_tokens: int
    ) -> dict[str, list[Response]]:
        """Sampled responses by question; stored ones are not sampled again."""
        from medunlearn.generation.respond import sample_responses
        from medunlearn.probes.run_stores import store_of

        store = store_of(
            self.run,
            self.benchmark,
            self.evaluation,
            self.rendering,
            max_new_tokens,
            folder=self.folder,
            decoding=f"{decoding.name}, seed {seed}",
        )
        total = samples * len(questions)
        with progress(f"{self.run.label}: samples", total, quiet=self.quiet) as advance:
            samples_of = sample_responses(
                self.live,
                questions,
                self.benchmark.record,
                store,
                self.rendering,
                decoding,
                samples=samples,
                seed=seed,
                max_new_tokens=max_new_tokens,
                batch_size=self.settings.batch_size,
                advance=advance,
            )
        self._count_silences(questions, samples_of)
        return samples_of

    def training_data(self, what: What) -> tuple[list[Record], list[Question]]:
        """Records and questions of the train fold."""
        return training_data(self.benchmark, None, what)

    def sequences(
        self, records: list[Record], questions: list[Question], rendering: Rendering
    ) -> list[TokenSequence]:
        """Records as plain text, then questions with their answers."""
        return sequences(records, questions, self.benchmark.record, self.live, rendering)

    def _state(self, model: LanguageModel, name: str) -> Run:
        """The model in its current state, with a separate name and fingerprint."""
        from medunlearn.training.trainable import checksums

        weights = checksums(dict(model.model.named_parameters()))
        facts = {**self.run.info.results, "fingerprint": sha256_of_json([self.run.fingerprint, name, weights])}
        info = replace(self.run.info, label=f"{self.run.label}, {name}", results=facts)
        return Run(self.run.folder, info)
