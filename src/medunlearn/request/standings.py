"""Standings of a model on each patient: one number from 0 to 1 per way of asking, higher = knows more of the
patient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.attacks.attack_protocol import AskedSubject, AskingWay
from medunlearn.attacks.attacked import Attacked
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import facts_said
from medunlearn.data.records import DIRECT, RECORD, Question
from medunlearn.data.said_values import SaidFact, SaidFacts, said_fact, summarize_said, typed_facts, values_given
from medunlearn.probes.rank_plan import RankPlan
from medunlearn.results.evaluated import Evaluated
from medunlearn.statistics.others import Surprise

PROMPTS: Mapping[str, str] = {
    "completion": "the beginning of a note",
    "cloze": "a sentence with a gap",
    "generation": "the prompt of a note",
    DIRECT: "a plain question about a fact",
}
"""Kind of question -> what the model is given, in plain words."""
OTHER_PROMPT = "a question"
IDENTIFIERS = ("name", "identifier", "date")
"""Kinds of facts that tell who somebody is; others say what somebody has."""
GAP, UNSEEN = "cloze", "utility"
"""Kind of gaps; fold of patients whom no model saw."""
SINGLE = (GAP, DIRECT)
"""Kinds of questions that ask for one fact."""
NATS = "nats"
"""Column of -ln p of a fact's rank."""
_IN_NOTES = " notes"
"""Ends the names of ways that rank facts in the notes themselves."""
_BY_WAY = ("ways", "values", "probes", "surprises", "said")
"""Attributes of standings that have an entry for each way."""
_FOLDS = {
    "holdout": "",
    "train": " as in training",
    "rephrase": " in other words",
    "choosing": " as settings are chosen by",
}


Reading = tuple[AskingWay, pd.DataFrame]


@dataclass(frozen=True)
class Standings:
    """A model's numbers by way of asking and patient.

    Attributes:
        ways: name -> the way.
        values: name -> patient -> mean over the patient's probes, 0-1, higher = the model knows more.
        probes: name -> patient -> number of probes.
        problems: why the model is broken; empty if it is healthy.
        surprises: name -> patient -> result of the exact test of the patient's ranks; only for ranks.
        missing: name of an attack -> what of it could not be measured, and why.
        attacks: name of an attack -> the names of its ways.
        said: name -> patient -> facts asked for and said, beside made-up values in the same answers; only for ways
            that ask for one fact each (gaps and direct questions).
    """

    ways: dict[str, AskingWay] = field(default_factory=dict)
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    probes: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    surprises: dict[str, dict[str, Surprise]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    attacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    said: dict[str, dict[str, SaidFacts]] = field(default_factory=dict)

    def of(self, name: str, patients: Iterable[str]) -> list[float]:
        """The numbers of those of some patients who have one."""
        values = self.values.get(name, {})
        return [values[patient] for patient in patients if patient in values]

    def add(self, way: AskingWay, rows: pd.DataFrame) -> None:
        """Add a way with its means by patient, over rows that have a value."""
        scored = rows.dropna(subset=["value"])
        if scored.empty:
            return
        groups = scored.groupby("subject", sort=True)
        self.ways[way.name] = way
        self.values[way.name] = {str(who): float(value) for who, value in groups["value"].mean().items()}
        self.probes[way.name] = {str(who): int(n) for who, n in groups["value"].count().items()}
        if NATS in scored:
            nats = groups[NATS].agg(["mean", "count"])
            self.surprises[way.name] = {
                str(who): Surprise(float(row["mean"]), int(row["count"])) for who, row in nats.iterrows()
            }

    def with_ways_of(self, other: Standings, template: str) -> Standings:
        """These ways, and those of the same model asked in another template, under names of their own."""
        tables: dict[str, Any] = {name: dict(getattr(self, name)) for name in _BY_WAY}
        both = replace(self, **tables)
        for name, way in other.ways.items():
            if name.endswith(_IN_NOTES):
                continue  # a note is read without a template
            own = f"{name} in {template}"
            title, prompt = f"{way.title}, in the template {template}", f"{way.prompt}, in the template {template}"
            both.ways[own] = replace(way, name=own, title=title, prompt=prompt)
            for table in _BY_WAY[1:]:
                if name in getattr(other, table):
                    getattr(both, table)[own] = getattr(other, table)[name]
        return both

    def add_attack(self, name: str, attacked: Attacked) -> None:
        """Add the ways of asking under an attack; what cannot be asked is missing, with the reason."""
        if not attacked.measured:
            self.missing[name] = attacked.without_result.get(name, "it has no result")
            return
        before = {*self.ways}
        for way, rows in attacked.family.ways(_continued(attacked.scores), attacked.strengths):
            self.add(way, rows)
        notes = "; ".join(dict.fromkeys(attacked.facts.get("notes", {}).values()))
        self.attacks[name] = tuple(way for way in self.ways if way not in before)
        if notes or not self.attacks[name]:
            self.missing[name] = notes or "no probe under it could be scored"


def standings(
    evaluated: Evaluated,
    benchmark: Benchmark,
    attacked: Mapping[str, Attacked],
    folds: Sequence[str],
    plan: RankPlan,
) -> Standings:
    """Standings of a model from its evaluation and its attacks.

    Args:
        attacked: name of an attack -> its result on the same split.
        folds: folds of the questions about the request's patients; unseen patients have a single fold.
        plan: plan of the evaluation's ranks, for its alternatives and its half of the values.
    """
    result = Standings(problems=tuple(evaluated.record.info.problems))
    answers = Answers(evaluated, benchmark, plan, folds)
    for way, rows in chain(_ranks(evaluated.facts, folds), answers.readings()):
        result.add(way, rows)
    result.said.update(answers.said())
    for name, attack in attacked.items():
        result.add_attack(name, attack)
    return result


@dataclass(frozen=True)
class Answers:
    """Answers of a model, read for the values that they say.

    Text similarity is not used: a model that learned to write such notes does so for any patient.
    """

    evaluated: Evaluated
    benchmark: Benchmark
    plan: RankPlan
    folds: Sequence[str]

    def readings(self) -> Iterator[Reading]:
        """Share of the true answer's values that the model's answers contain, for each kind."""
        questions = self.evaluated.questions
        shares = [self._share_said(self.benchmark.question[name]) for name in questions["question_id"]]
        scored = questions.assign(value=pd.Series(shares, index=questions.index, dtype="float64"))
        for name, kind, fold, rows in self._ways(scored):
            prompt = PROMPTS.get(kind, OTHER_PROMPT) + _FOLDS[fold]
            measure = "share of the values of the true answer that stand in what the model says"
            yield AskingWay(name, f"Values said after {prompt}", prompt, measure), rows

    def said(self) -> dict[str, dict[str, SaidFacts]]:
        """By way and patient, the facts that are said beside their alternatives, each fact once.

        Only values of the evaluation's half count, as for ranks.
        """
        counts: dict[str, dict[str, SaidFacts]] = {}
        for name, kind, _, rows in self._ways(self.evaluated.questions):
            facts: dict[str, dict[tuple[str, str], SaidFact]] = defaultdict(dict)
            for question_id, subject in zip(rows["question_id"], rows["subject"], strict=True):
                for key, fact in self._said_facts(question_id) if kind in SINGLE else ():
                    facts[str(subject)].setdefault(key, fact)
            if facts:
                counts[name] = {who: summarize_said([*own.values()]) for who, own in sorted(facts.items())}
        return counts

    def _ways(self, table: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
        """Name, kind, fold and rows of each way of asking for the request's patients, with the unseen patients."""
        forget = table[(table["side"] == "forget") & table["fold"].isin(self.folds)]
        for kind, fold in sorted({(str(k), str(f)) for k, f in zip(forget["kind"], forget["fold"], strict=True)}):
            same = table[table["kind"] == kind]
            rows = same[(same["fold"] == fold) & (same["side"] == "forget") | (same["fold"] == UNSEEN)]
            yield f"said {kind}" if fold == "holdout" else f"said {kind} {fold}", kind, fold, rows

    def _share_said(self, question: Question) -> float | None:
        identifiers = self.benchmark.record[question.record_id].identifiers
        response = self.evaluated.responses[question.question_id].response
        if facts := typed_facts(question, identifiers):
            given = values_given(question, facts, response) if question.kind in SINGLE else None
            hits = given or facts_said(question, identifiers, [response])
            return sum(hits) / len(hits)
        return None

    def _said_facts(self, question_id: str) -> Iterator[tuple[tuple[str, str], SaidFact]]:
        """The facts of an answer that have alternatives, by label and value, and whether they are said."""
        question, response = self.benchmark.question[question_id], self.evaluated.responses[question_id].response
        for fact, alternatives in self.plan.facts_of(question):
            if alternatives.reason is None and fact.kind not in ("statement", "option"):
                key = question.provenance, fact.of(question.answer).casefold()
                yield key, said_fact(question, fact, alternatives, response)


def _ranks(facts: pd.DataFrame, folds: Sequence[str]) -> Iterator[Reading]:
    """For each fact, the share of alternatives that are less likely than the true value; ties count half."""
    if facts.empty:
        return
    ranked = facts.dropna(subset=["p"])
    # p counts draws that equal the true value as ranked before it, the rank does not: half of each.
    before = (ranked["rank"].astype(float) - 1.0) / ranked["of"].astype(float)
    value = 1.0 - (before + ranked["p"].astype(float)) / 2.0
    ranked = ranked.assign(value=value, **{NATS: -np.log(ranked["p"].astype(float))})
    measure = "share of made-up ones that the true one is likelier than"
    in_records, direct = ranked["context"] == RECORD, ranked["kind"] == DIRECT
    hers = (ranked["side"] == "forget") & ranked["fold"].isin(folds)
    in_answers = ~in_records & (hers | (ranked["fold"] == UNSEEN))
    places = (
        ("answers", "answers", "questions, gaps and beginnings of notes", in_answers & ~direct),
        ("questions", "direct questions", "a plain question about each of them", in_answers & direct),
        ("notes", "notes", "the note up to each of them", in_records),
    )
    # Apart, since one may be forgotten and the other not.
    identifiers = ranked["fact"].isin(IDENTIFIERS)
    subjects: tuple[tuple[AskedSubject, pd.Series], ...] = (("identifiers", identifiers), ("values", ~identifiers))
    for subject, of_subject in subjects:
        for place, title, prompt, rows in places:
            way = AskingWay(f"{subject} {place}", f"{subject.capitalize()} in {title}", prompt, measure, subject)
            yield way, ranked[rows & of_subject]


def _continued(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores of texts that are continued, if there are some about the request's patients; else all."""
    continued = scores[scores["kind"] != GAP]
    return continued if (continued["side"] == "forget").any() else scores
