"""Standings of a model on each patient: one number from 0 to 1 per way of asking, higher = knows more of the
patient.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pandas as pd

from medunlearn.attacks.attack_protocol import AskedSubject, AskingWay
from medunlearn.attacks.attacked import Attacked
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.facts import facts_of, facts_said
from medunlearn.data.records import RECORD
from medunlearn.results.evaluated import Evaluated
from medunlearn.statistics.others import Surprise

PROMPTS: Mapping[str, str] = {
    "completion": "the beginning of a note",
    "cloze": "a sentence with a gap",
    "generation": "the prompt of a note",
}
"""Kind of question -> what the model is given, in plain words."""
OTHER_PROMPT = "a question"
IDENTIFIERS = ("name", "identifier", "date")
"""Kinds of facts that tell who somebody is; others say what somebody has."""
GAP, UNSEEN = "cloze", "utility"
"""Kind of gaps; fold of patients whom no model saw."""
NATS = "nats"
"""Column of -ln p of a fact's rank."""
_FOLDS = {"holdout": "", "train": " as in training", "rephrase": " in other words"}


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
    """

    ways: dict[str, AskingWay] = field(default_factory=dict)
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    probes: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    surprises: dict[str, dict[str, Surprise]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

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

    def add_attack(self, name: str, attacked: Attacked) -> None:
        """Add the ways of asking under an attack; what cannot be asked is missing, with the reason."""
        if not attacked.measured:
            self.missing[name] = attacked.failed.get(name, "it has no result")
            return
        before = len(self.ways)
        for way, rows in attacked.family.ways(_continued(attacked.scores), attacked.strengths):
            self.add(way, rows)
        notes = "; ".join(dict.fromkeys(attacked.facts.get("notes", {}).values()))
        if notes or len(self.ways) == before:
            self.missing[name] = notes or "no probe under it could be scored"


def standings(
    evaluated: Evaluated, benchmark: Benchmark, attacked: Mapping[str, Attacked], folds: Sequence[str]
) -> Standings:
    """Standings of a model from its evaluation and its attacks.

    Args:
        attacked: name of an attack -> its result on the same split.
        folds: folds of the questions about the request's patients; unseen patients have a single fold.
    """
    result = Standings(problems=tuple(evaluated.record.info.problems))
    readings = (
        _ranks(evaluated.facts, folds),
        _answers(evaluated, benchmark, folds),
    )
    for way, rows in chain.from_iterable(readings):
        result.add(way, rows)
    for name, attack in attacked.items():
        result.add_attack(name, attack)
    return result


def _answers(evaluated: Evaluated, benchmark: Benchmark, folds: Sequence[str]) -> Iterator[Reading]:
    """Share of the true answer's values that the model's answers contain, for each kind."""
    answers = _values_said(evaluated, benchmark)
    forget = answers[(answers["side"] == "forget") & answers["fold"].isin(folds)]
    for kind, fold in sorted({(str(k), str(f)) for k, f in zip(forget["kind"], forget["fold"], strict=True)}):
        same = answers[answers["kind"] == kind]
        rows = same[(same["fold"] == fold) & (same["side"] == "forget") | (same["fold"] == UNSEEN)]
        prompt = PROMPTS.get(kind, OTHER_PROMPT) + _FOLDS[fold]
        name = f"said {kind}" if fold == "holdout" else f"said {kind} {fold}"
        measure = "share of the values of the true answer that stand in what the model says"
        yield AskingWay(name, f"Values said after {prompt}", prompt, measure), rows


def _values_said(evaluated: Evaluated, benchmark: Benchmark) -> pd.DataFrame:
    """One row per question: its labels, and the share of its answer's values that the response contains.

    Text similarity is not used: a model that learned to write such notes does so for any patient.
    """
    questions, shares = evaluated.questions, list[float | None]()
    for name in questions["question_id"]:
        question = benchmark.question[name]
        identifiers = benchmark.record[question.record_id].identifiers
        hits = facts_said(question, identifiers, [evaluated.responses[name].response])
        values = any(fact.kind not in ("statement", "option") for fact in facts_of(question, identifiers))
        shares.append(sum(hits) / len(hits) if hits and values else None)
    return questions.assign(value=pd.Series(shares, index=questions.index, dtype="float64"))


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
    in_records = ranked["context"] == RECORD
    hers = (ranked["side"] == "forget") & ranked["fold"].isin(folds)
    places = (
        ("answers", "questions, gaps and beginnings of notes", ~in_records & (hers | (ranked["fold"] == UNSEEN))),
        ("notes", "the note up to each of them", in_records),
    )
    # Apart, since one may be forgotten and the other not.
    identifiers = ranked["fact"].isin(IDENTIFIERS)
    subjects: tuple[tuple[AskedSubject, pd.Series], ...] = (("identifiers", identifiers), ("values", ~identifiers))
    for subject, of_subject in subjects:
        for place, prompt, rows in places:
            title = f"{subject.capitalize()} in {place}"
            yield AskingWay(f"{subject} {place}", title, prompt, measure, subject), ranked[rows & of_subject]


def _continued(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores of texts that are continued, if there are some about the request's patients; else all."""
    continued = scores[scores["kind"] != GAP]
    return continued if (continued["side"] == "forget").any() else scores
