"""Rates of verdicts on models of which it is known what they know, from drawn ranks instead of measured ones.

Each patient has identifiers and values, a third and two thirds of the facts, ranked among 59 alternatives in two
ways of asking: the same facts in both, with a correlation of 0.5. A patient of whom a model knows nothing has any
rank. The model before knows all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm

from medunlearn.attacks.attack_protocol import AskedSubject, AskingWay
from medunlearn.request.battery_checks import BatteryMaterial
from medunlearn.request.case.evidence import Battery
from medunlearn.request.case.verdicts import decide
from medunlearn.request.standings import Standings
from medunlearn.statistics.others import Surprise

SUBJECTS: tuple[AskedSubject, ...] = ("identifiers", "values")
PLACES = ("answers", "notes")
STRANGERS, ALTERNATIVES, ALPHA, MARGIN = 12, 59, 0.05, 0.25
NOTHING, EVERYTHING, AT_MARGIN, OVER = 1.0, 60.0, 3.0, 0.02
"""Powers of a uniform p: what a model knows of a fact. 1 - E[p ** 3] is 0.75, 0.25 above a stranger."""
NONE, FOUND = "no residual found", "residual found"


@dataclass(frozen=True)
class SimulatedModel:
    """Powers of the ranks of a patient's identifiers and values after; of the first patient, where they differ."""

    identifiers: float = NOTHING
    values: float = NOTHING
    first: float | None = None
    before: float = EVERYTHING

    def power(self, patient: int, subject: AskedSubject) -> float:
        if patient == 0 and self.first is not None:
            return self.first
        return self.identifiers if subject == "identifiers" else self.values


@dataclass(frozen=True)
class SimulatedRule:
    """A rate to look at: of one verdict on one kind of model, with its goal."""

    name: str
    model: SimulatedModel
    patients: int
    facts: int
    verdict: str
    least: float = 0.0
    most: float = 1.0

    @property
    def key(self) -> str:
        return f"{self.name}, {self.patients} patients, {self.facts} facts"

    def facts_of(self, subject: AskedSubject) -> int:
        """Facts of a patient: a third are identifiers."""
        identifiers = round(self.facts / 3)
        return identifiers if subject == "identifiers" else self.facts - identifiers

    @property
    def goal(self) -> str:
        if self.least > 0.0:
            return f"{self.verdict} ≥ {self.least:.0%}"
        return f"{self.verdict} ≤ {self.most:.0%}" if self.most < 1.0 else "–"


def rules() -> Iterator[SimulatedRule]:
    """Every rate of the table."""
    for facts in (4, 8, 12, 16, 24):
        for patients in (1, 5, 20):
            yield SimulatedRule("retrained", SimulatedModel(), patients, facts, FOUND, most=0.05)
            if facts >= 12:
                yield SimulatedRule("retrained", SimulatedModel(), patients, facts, NONE, least=0.7)
    for facts in (4, 12):
        for patients in (1, 5, 20):
            never = SimulatedModel(before=NOTHING)
            yield SimulatedRule("never seen", never, patients, facts, FOUND, most=0.05)
            yield SimulatedRule("never seen", never, patients, facts, NONE, most=0.05)
    for facts in (4, 12):
        yield SimulatedRule("did nothing", SimulatedModel(EVERYTHING, EVERYTHING), 1, facts, FOUND, least=0.95)
        for patients in (2, 5, 8, 12, 20):
            yield SimulatedRule(
                "one remembered", SimulatedModel(first=EVERYTHING), patients, facts, FOUND, least=0.95
            )
    for patients in (1, 5, 20):
        for name, identifiers, values in (
            ("values at the margin", NOTHING, AT_MARGIN),
            ("values at the margin, identifiers over-forgotten", OVER, AT_MARGIN),
            ("identifiers at the margin, values over-forgotten", AT_MARGIN, OVER),
            ("identifiers over-forgotten", OVER, NOTHING),
            ("all over-forgotten", OVER, OVER),
        ):
            yield SimulatedRule(name, SimulatedModel(identifiers, values), patients, 12, NONE, most=0.05)
    for patients in (5, 20):
        at_margin = SimulatedModel(first=AT_MARGIN)
        yield SimulatedRule("one patient at the margin", at_margin, patients, 12, NONE, most=0.05)


def simulated(file: Path, draws: int, *, read: bool = False, again: bool = False) -> Iterator[dict[str, str]]:
    """Lines of the table; rates are kept in a file, so that an interrupted simulation goes on."""
    stored: dict[str, dict[str, int]] = {}
    if file.exists() and not again:
        stored = json.loads(file.read_text())
    for rule in rules():
        known = stored.get(rule.key)
        if not read and (known is None or sum(known.values()) < draws):
            known = stored[rule.key] = dict(verdicts_of(rule, draws))
            file.write_text(json.dumps(stored, indent=1))
            print(f"simulated: {rule.key}: {known}", flush=True)
        if known is not None:
            yield row_of(rule, known)


def row_of(rule: SimulatedRule, verdicts: Mapping[str, int]) -> dict[str, str]:
    number = sum(verdicts.values())
    share = verdicts.get(rule.verdict, 0) / number
    error = 3 * max((bound * (1 - bound) / number) ** 0.5 for bound in (rule.least, rule.most))
    met = rule.least - error <= share <= rule.most + error
    line = {"model": rule.name, "patients": f"{rule.patients}", "facts": f"{rule.facts}"}
    line |= {word: f"{verdicts.get(name, 0) / number:.1%}" for word, name in (("found", FOUND), ("none", NONE))}
    return {
        **line,
        "inconclusive": f"{verdicts.get('inconclusive', 0) / number:.1%}",
        "goal": rule.goal,
        "met": "yes" if met else "no",
    }


def verdicts_of(rule: SimulatedRule, draws: int) -> Counter[str]:
    """How often each verdict comes out."""
    model, verdicts = rule.model, Counter[str]()
    names = {str(place): f"{place:064x}" for place in range(rule.patients)}
    unseen = tuple(f"unseen-{place}" for place in range(STRANGERS))
    for seed in range(draws):
        before = drawn(SimulatedModel(model.before, model.before), rule, unseen, 2 * seed)
        after = drawn(model, rule, unseen, 2 * seed + 1)
        material = BatteryMaterial(before, after, None, names, unseen, False, MARGIN)
        checks = (*material.means(ALPHA), *material.checks())
        battery = Battery(name="simulated", version="1", alpha=ALPHA, checks=checks)
        verdicts[decide(battery, models=("in", "out"), patients=[*names.values()]).verdict] += 1
    return verdicts


def drawn(model: SimulatedModel, rule: SimulatedRule, unseen: tuple[str, ...], seed: int) -> Standings:
    """A model's ranks of everybody's facts."""
    draws, everybody, standings = (
        np.random.default_rng(seed),
        (*unseen, *map(str, range(rule.patients))),
        Standings(),
    )
    of = ALTERNATIVES + 1
    for subject in SUBJECTS:
        facts = rule.facts_of(subject)
        shared = draws.normal(size=(len(everybody), facts))
        powers = [*[1.0] * len(unseen), *(model.power(patient, subject) for patient in range(rule.patients))]
        for place in PLACES:
            p = norm.cdf((shared + draws.normal(size=shared.shape)) / 2**0.5) ** np.array(powers)[:, None]
            ranks, name = np.ceil(p * of).clip(1, of), f"{subject} {place}"
            shares, nats = (1 - (ranks - 0.5) / of).mean(axis=1), -np.log(ranks / of).mean(axis=1)
            standings.ways[name] = AskingWay(name, name, "drawn", "share", subject)
            standings.values[name] = dict(zip(everybody, shares.tolist(), strict=True))
            standings.probes[name] = dict.fromkeys(everybody, facts)
            surprises = (Surprise(float(mean), facts) for mean in nats)
            standings.surprises[name] = dict(zip(everybody, surprises, strict=True))
    return standings
