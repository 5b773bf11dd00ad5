"""Facts that an evaluation ranks: their subjects, questions and records, and their alternatives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from medunlearn.config import EvaluateSettings
from medunlearn.data.alternatives import VERSION, AlternativePool, pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import Facts, facts_with_alternatives, record_facts
from medunlearn.data.facts import facts_in
from medunlearn.data.records import DIRECT, SIDES, Question, Record, Side
from medunlearn.data.splits import Split, shuffled
from medunlearn.data.value_halves import ValueHalves
from medunlearn.metrics import get_metric
from medunlearn.probes.question_selection import questions_of_side, sample_subjects

RANKS, NOTES = "fact_ranks", "note_ranks"
"""Needs of measures that rank."""
_SETTINGS = {
    *("folds", "limit", "ranked", "facts", "alternatives", "versions"),
    *("rank_in", "seed", "subjects", "values", "rank_retained"),
}
"""Settings that decide over the facts."""


@dataclass(frozen=True)
class RankPlan:
    """The facts to rank on a split, computed once for all models with the same settings.

    Attributes:
        needs: needs of the ranking measures: :data:`RANKS`, :data:`NOTES`.
    """

    benchmark: Benchmark = field(compare=False)
    fingerprint: str
    split: str
    settings: EvaluateSettings = field(compare=False)
    key: str
    needs: frozenset[str]

    @cached_property
    def pool(self) -> AlternativePool:
        return pool_of(self.benchmark, self.settings.alternatives)

    @cached_property
    def questions(self) -> Mapping[str, Facts]:
        """Facts in the answers of the selected questions, by question."""
        if RANKS not in self.needs or self.settings.rank_in == "records":
            return {}
        ranked_questions: dict[str, Facts] = {}
        for subject_questions in self._by_subject_and_fold():
            ranked = 0
            for question in subject_questions:
                if self.settings.facts is not None and ranked >= self.settings.facts:
                    break
                facts = self._in_half(question, facts_with_alternatives(question, self.benchmark.record, self.pool))
                ranked_questions[question.question_id] = facts
                ranked += sum(alternatives.reason is None for _, alternatives in facts)
        return ranked_questions

    def facts_of(self, question: Question) -> Facts:
        """The facts of a question's answer in the selected half, with their alternatives, ranked or not."""
        ready = self.questions.get(question.question_id)
        if ready is not None:
            return ready
        return self._in_half(question, facts_with_alternatives(question, self.benchmark.record, self.pool))

    @cached_property
    def records(self) -> Mapping[str, Facts]:
        """Facts in the selected records, by record, with whole notes if requested.

        From the train fold, and from unseen subjects if their questions (``utility``) are asked.
        """
        notes = self.settings.versions if NOTES in self.needs else 0
        everybody = self.settings.rank_in in ("records", "both")
        ranked_records: dict[str, Facts] = {}
        for side in SIDES:
            for subject, records in self.records_of(side).items():
                in_place = RANKS in self.needs and (everybody or subject not in self._subjects_asked[side])
                for record in records if in_place or notes else ():
                    most = self.settings.facts if in_place else 0
                    candidates = [f for f in facts_in(record) if self.keeps(subject, f.of(record.text))]
                    facts = record_facts(record, candidates, self.pool, most, notes=notes)
                    if facts:
                        ranked_records[record.record_id] = facts
        return ranked_records

    def records_of(self, side: Side) -> Mapping[str, list[Record]]:
        """Records of a side's selected subjects, by subject."""
        folds = {"train", *(["holdout"] if "utility" in self.settings.folds else [])}
        questioned, trained = self._subjects_asked[side], defaultdict[str, list[Record]](list)
        for record in self.benchmark.records_of(self._split, side):
            if record.fold in folds:
                trained[self.benchmark.subject(record.record_id)].append(record)
        with_questions = self._sample(questioned & set(trained), side)
        # Halves are of subjects with questions.
        without = self._sample(set(trained) - questioned, side) if self.settings.subjects == "all" else []
        return {subject: trained[subject] for subject in [*with_questions, *without]}

    def keeps(self, subject: str, value: str) -> bool:
        """True if a value of a subject is in the selected half."""
        return self._halves.keeps(subject, value, self.settings.values)

    @cached_property
    def _halves(self) -> ValueHalves:
        return ValueHalves(self.benchmark, self.settings.seed)

    def _in_half(self, question: Question, facts: Facts) -> Facts:
        """The facts of an answer whose values are in the selected half."""
        subject = self.benchmark.subject(question.record_id)
        return [(fact, others) for fact, others in facts if self.keeps(subject, fact.of(question.answer))]

    @property
    def _split(self) -> Split:
        return self.benchmark.split(self.split)

    @cached_property
    def _subjects_asked(self) -> Mapping[Side, set[str]]:
        """Subjects of each side with a question in the evaluated folds."""
        return {side: {self.benchmark.subject(q.record_id) for q in self._questions_of(side)} for side in SIDES}

    def _questions_of(self, side: Side) -> Sequence[Question]:
        return questions_of_side(self.benchmark, self._split, side, self.settings)

    @cached_property
    def _trained(self) -> frozenset[str]:
        """Subjects that a model is trained on."""
        return frozenset(
            map(self.benchmark.subject, (r.record_id for r in self.benchmark.records if r.fold == "train"))
        )

    def _sample(self, subjects: Iterable[str], side: Side) -> list[str]:
        """A seeded sample of subjects; smaller samples are subsets of larger ones."""
        if side == "retain" and not self.settings.rank_retained:
            subjects = set(subjects) - self._trained
        most = min((n for n in (self.settings.limit, self.settings.ranked) if n is not None), default=None)
        return sample_subjects(subjects, side, self.settings, most)

    def _by_subject_and_fold(self) -> Iterable[list[Question]]:
        for side in SIDES:
            subjects = set(self._sample(self._subjects_asked[side], side))
            groups: dict[tuple[str, ...], dict[str, Question]] = defaultdict(dict)
            for question in self._questions_of(side):
                subject = self.benchmark.subject(question.record_id)
                if subject in subjects:
                    # Apart, so that neither takes the other's share of the facts.
                    direct = (DIRECT,) if question.kind == DIRECT else ()
                    groups[(subject, question.fold, *direct)][question.question_id] = question
            for place, own in groups.items():
                yield [own[name] for name in ranked_order(own, self.settings.seed, *place)]


def ranked_order(questions: Iterable[str], seed: int, *place: str) -> list[str]:
    """Ids of a subject's questions of a fold, and of direct questions apart, in seeded ranking order."""
    return shuffled(questions, "ranked questions", seed, *place)


def rank_plan(benchmark: Benchmark, split: str, settings: EvaluateSettings, metrics: Sequence[str]) -> RankPlan:
    """The facts that an evaluation ranks; empty without ranking measures."""
    key, needs = repr(settings.model_dump(include=_SETTINGS)), frozenset(_rank_needs(metrics))
    return _latest(RankPlan(benchmark, benchmark.fingerprint, split, settings, key, needs))


def rank_versions(metrics: Sequence[str]) -> dict[str, int]:
    """The version of the alternatives used for ranks; empty without ranking measures."""
    return {"alternatives": VERSION} if _rank_needs(metrics) else {}


def _rank_needs(metrics: Sequence[str]) -> Set[str]:
    return {need for name in metrics for need in get_metric(name).needs} & {RANKS, NOTES}


# A request has one to choose by, one to verify, one for attacks, and two for further questions, by turns.
@lru_cache(maxsize=6)
def _latest(plan: RankPlan) -> RankPlan:
    """An equal earlier plan, whose alternatives are already drawn."""
    return plan
