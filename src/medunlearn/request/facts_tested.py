"""Facts of a request's patients: in which ways an evaluation tests each, or the reason why in none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import Facts
from medunlearn.data.records import DIRECT, RECORD, Question, Record
from medunlearn.notes.direct_questions import SOURCE, direct_facts
from medunlearn.notes.note_gaps import gaps_in
from medunlearn.notes.note_probes import NoteProbes
from medunlearn.probes.evaluate import metric_names
from medunlearn.probes.rank_plan import RankPlan, rank_plan
from medunlearn.request.direct_probes import is_made_by_rule
from medunlearn.request.standings import SINGLE
from medunlearn.results.evaluated import Evaluated

WAYS: Mapping[str, str] = {
    DIRECT: "direct questions",
    "cloze": "gaps",
    "completion": "beginnings of notes",
    "generation": "prompts of notes",
    RECORD: "notes",
}
"""Kind of question, or the record itself -> name of a way of asking."""
OTHER_WAY = "other questions"
OTHER_HALF = "settings were chosen by it"
NOT_DRAWN = "more facts than are asked for (--facts, --build.questions, --build.clozes)"
_CLOZE = "notes:cloze:"
Key = tuple[str, str, str]
"""Patient, label and value of a fact."""


@dataclass(frozen=True, slots=True)
class FactTested:
    """A fact of a patient, without its value and without words of the note.

    Attributes:
        patient: id.
        kind: ``identifier``, ``date``, ``value``, ``number``, ``finding``; ``question`` for a hospital's own.
        type: declared type of an identifier; ``dose``, ``value``, ``duration`` or ``number`` of a number.
        ways: names of the ways of asking that can tell it from made-up values (:data:`WAYS`); empty if it is not
            tested.
        reason: why it is not tested; None if it is.
    """

    patient: str
    kind: str
    type: str
    ways: tuple[str, ...]
    reason: str | None


def facts_tested(evaluated: Evaluated, benchmark: Benchmark, patients: Collection[str]) -> list[FactTested]:
    """Each distinct fact of some patients' notes, and of a hospital's own questions, with the ways that test it.

    A way tests a fact if the fact has made-up alternatives there: it is ranked among them, or compared with them in
    what the model says. A value in the half that settings are chosen by is not tested by the other half, nor is one
    that the model's tokenizer gives away.
    """
    settings = check(EvaluateSettings, dict(evaluated.record.info.config))
    plan = rank_plan(benchmark, settings.split, settings, metric_names(benchmark, settings))
    question_ids = frozenset(str(name) for name in evaluated.questions["question_id"])
    return [*_FactCoverage(benchmark, plan, frozenset(patients), question_ids, _unranked(evaluated)).rows()]


def _unranked(evaluated: Evaluated) -> dict[tuple[str, int], str]:
    """Question or record, and place of a fact in it -> why the evaluation could not rank it."""
    if evaluated.facts.empty:
        return {}
    facts = evaluated.facts[evaluated.facts["p"].isna() & evaluated.facts["reason"].notna()]
    places = zip(facts["item"], facts["place"], facts["reason"], strict=True)
    return {(str(item), int(place)): str(reason) for item, place, reason in places}


@dataclass(frozen=True)
class _FactCoverage:
    benchmark: Benchmark
    plan: RankPlan
    patients: frozenset[str]
    question_ids: frozenset[str]
    unranked: Mapping[tuple[str, int], str]

    def rows(self) -> Iterator[FactTested]:
        ways, reasons = defaultdict[Key, dict[str, None]](dict), dict[Key, str]()
        for way, key, reason in self._probes():
            if reason is None:
                ways[key][way] = None
            else:
                reasons.setdefault(key, reason)
        for key, (kind, unasked) in self._facts.items():
            patient, label, value = key
            reason = None if key in ways else reasons.get(key) or self._unprobed(patient, value, unasked)
            shown = "own" if kind == DIRECT else label.partition(":")[0]
            yield FactTested(patient, kind, shown, tuple(way for way in WAYS.values() if way in ways[key]), reason)

    def _unprobed(self, patient: str, value: str, unasked: str | None) -> str:
        """Reason why no way of asking has a fact."""
        if not self.plan.keeps(patient, value):
            return OTHER_HALF
        return unasked or NOT_DRAWN

    @cached_property
    def _records(self) -> list[Record]:
        level = self.benchmark.subject_level
        return [record for record in self.benchmark.records if record.groups[level] in self.patients]

    @cached_property
    def _questions(self) -> list[Question]:
        about = {record.record_id for record in self._records}
        return [q for q in self.benchmark.questions if q.record_id in about and q.question_id in self.question_ids]

    @cached_property
    def _facts(self) -> dict[Key, tuple[str, str | None]]:
        """Each fact, its kind, and the reason why it has no direct question; None if it may have one."""
        facts: dict[Key, tuple[str, str | None]] = {}
        order = NoteProbes((), 0, (), 0, self.benchmark.seed).order
        for record in self._records:
            for fact in direct_facts(record, order(record)):
                if fact.gap.group != "section":
                    key = (self._patient(record), fact.gap.label, fact.answer)
                    facts.setdefault(key, (fact.gap.group, fact.reason))
        for question in self._questions:
            if question.kind == DIRECT and not is_made_by_rule(question):
                facts[self._key(question)] = (DIRECT, None)
        return facts

    def _patient(self, record: Record) -> str:
        return record.groups[self.benchmark.subject_level]

    def _key(self, question: Question) -> Key:
        """The fact that a question asks for, by its provenance."""
        label = question.provenance.removeprefix(_CLOZE).removeprefix(SOURCE)
        return self.benchmark.subject(question.record_id), label, question.answer

    @cached_property
    def _places(self) -> dict[tuple[str, int], Key]:
        """Record and offset -> the fact that begins there."""
        return {
            (record.record_id, gap.start): (
                self._patient(record), gap.label, " ".join(record.text[gap.start : gap.end].split())
            )
            for record in self._records
            for gap in reversed(gaps_in(record.text, record.identifiers))
            if gap.group != "section"
        }  # fmt: skip

    def _probes(self) -> Iterator[tuple[str, Key, str | None]]:
        """Way, fact, and the reason why it cannot be told from made-up values there, if any."""
        for question in self._questions:
            single = question.kind in SINGLE
            facts = self.plan.facts_of(question) if single else self.plan.questions.get(question.question_id, ())
            way = WAYS.get(question.kind, OTHER_WAY)
            if single and self._key(question) in self._facts:
                yield from ((way, self._key(question), others.reason) for _, others in facts)
            else:
                record = self.benchmark.record[question.record_id]
                start = record.text.find(question.answer)
                yield from self._in_place(way, question.question_id, record, facts, start)
        for record in self._records:
            facts = self.plan.records.get(record.record_id, ())
            yield from self._in_place(WAYS[RECORD], record.record_id, record, facts, 0)

    def _in_place(
        self, way: str, item: str, record: Record, facts: Facts, start: int
    ) -> Iterator[tuple[str, Key, str | None]]:
        """Facts of a text that begins at an offset of its record; none if it does not stand there."""
        for place, (fact, others) in enumerate(facts if start >= 0 else ()):
            key = self._places.get((record.record_id, start + fact.start))
            if key is not None and fact.kind != "note":
                yield way, key, others.reason or self.unranked.get((item, place))
