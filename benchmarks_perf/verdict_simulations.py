"""Rates of verdicts on models of which it is known what they know, from drawn ranks instead of measured ones.

Each patient has identifiers and values, a third and two thirds of the facts, ranked among 59 alternatives in three
ways of asking: the same facts in all, with a correlation of 0.5. A patient of whom a model knows nothing has any
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
PLACES = ("answers", "questions", "notes")
STRANGERS, ALTERNATIVES, ALPHA, MARGIN = 12, 59, 0.05, 0.25
NOTHING, EVERYTHING, AT_MARGIN, OVER = 1.0, 60.0, 3.0, 0.02
"""Powers of a uniform p: what a model knows of a fact. 1 - E[p ** 3] is 0.75, 0.25 above a stranger."""
NONE, FOUND = "no residual found", "residual found"
SHORT: Mapping[str, str] = {FOUND: "found", NONE: "none"}


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


Range = tuple[float, float]
ANY, SELDOM, USUALLY, ALWAYS = (0.0, 1.0), (0.0, 0.05), (0.7, 1.0), (0.95, 1.0)
"""Ranges of the rate of a verdict."""


@dataclass(frozen=True)
class SimulatedRule:
    """A kind of model with the goals of its verdicts' rates.

    Attributes:
        facts: of a patient.
        found, none: allowed rates of *residual found* and of *no residual found*.
        of_strangers: least and most facts of an unseen patient, drawn evenly; None for as many as of a patient.
        share: of identifiers among the facts.
    """

    name: str
    model: SimulatedModel
    patients: int
    facts: int
    found: Range = ANY
    none: Range = ANY
    of_strangers: tuple[int, int] | None = None
    share: float = 1 / 3

    @property
    def key(self) -> str:
        return f"{self.name}, {self.patients} patients, {self.facts} facts"

    def counts(self, subject: AskedSubject, draws: np.random.Generator) -> list[int]:
        """Facts of each unseen patient, then of each patient of the request."""
        least, most = self.of_strangers or (self.facts, self.facts)
        totals = [*draws.integers(least, most + 1, STRANGERS).tolist(), *[self.facts] * self.patients]
        identifiers = [max(1, round(n * self.share)) for n in totals]
        if subject == "identifiers":
            return identifiers
        return [max(1, n - own) for n, own in zip(totals, identifiers, strict=True)]

    @property
    def goals(self) -> Mapping[str, Range]:
        return {FOUND: self.found, NONE: self.none}

    @property
    def goal(self) -> str:
        """``found ≤ 5%, none ≥ 70%``."""
        words = []
        for verdict, (least, most) in self.goals.items():
            if (least, most) != ANY:
                words.append(f"{SHORT[verdict]} {f'≥ {least:.0%}' if least > 0.0 else f'≤ {most:.0%}'}")
        return ", ".join(words)

    def is_met(self, verdicts: Mapping[str, int]) -> bool:
        """Whether the rates are in their ranges, to three standard errors."""
        number = sum(verdicts.values())
        for verdict, bounds in self.goals.items():
            share = verdicts.get(verdict, 0) / number
            least, most = (3 * (bound * (1 - bound) / number) ** 0.5 for bound in bounds)
            if not bounds[0] - least <= share <= bounds[1] + most:
                return False
        return True


def rules() -> Iterator[SimulatedRule]:
    """Every line of the table."""
    for facts in (4, 8, 12, 16, 24):
        for patients in (1, 5, 20):
            none = USUALLY if facts >= 12 else ANY
            yield SimulatedRule("retrained", SimulatedModel(), patients, facts, found=SELDOM, none=none)
    for patients in (1, 5, 20):
        uneven = "retrained, strangers with 4 to 12 facts"
        yield SimulatedRule(uneven, SimulatedModel(), patients, 12, SELDOM, USUALLY, (4, 12))
        fewer = "retrained, strangers with 12 facts"
        yield SimulatedRule(fewer, SimulatedModel(), patients, 4, SELDOM, ANY, (12, 12))
    for patients in (1, 5, 20):
        never = SimulatedModel(before=NOTHING)
        yield SimulatedRule("never seen", never, patients, 12, found=SELDOM, none=SELDOM)
    for facts in (4, 12):
        everything = SimulatedModel(EVERYTHING, EVERYTHING)
        yield SimulatedRule("did nothing", everything, 1, facts, found=ALWAYS, none=SELDOM)
        for patients in (2, 5, 8, 12, 20):
            one = SimulatedModel(first=EVERYTHING)
            yield SimulatedRule("one remembered", one, patients, facts, found=ALWAYS, none=SELDOM)
    for patients in (1, 5):
        for name, identifiers, values in (
            ("values at the margin", NOTHING, AT_MARGIN),
            ("values at the margin, identifiers over-forgotten", OVER, AT_MARGIN),
            ("identifiers at the margin, values over-forgotten", AT_MARGIN, OVER),
            ("identifiers over-forgotten", OVER, NOTHING),
            ("all over-forgotten", OVER, OVER),
        ):
            yield SimulatedRule(name, SimulatedModel(identifiers, values), patients, 12, none=SELDOM)
    for values in (1, 2):
        left, name = SimulatedModel(values=EVERYTHING), f"identifiers forgotten, {values} of 12 facts a value, left"
        yield SimulatedRule(name, left, 1, 12, none=SELDOM, share=1 - values / 12)
    for name, identifiers, values in (("identifiers", AT_MARGIN, NOTHING), ("values", NOTHING, AT_MARGIN)):
        words, model = f"{name} at the margin, strangers with 12 facts", SimulatedModel(identifiers, values)
        yield SimulatedRule(words, model, 1, 4, none=SELDOM, of_strangers=(12, 12))
    for patients in (5, 20):
        at_margin = SimulatedModel(first=AT_MARGIN)
        yield SimulatedRule("one patient at the margin", at_margin, patients, 12, none=SELDOM)


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
    line = {"model": rule.name, "patients": f"{rule.patients}", "facts": f"{rule.facts}"}
    line |= {word: f"{verdicts.get(name, 0) / number:.1%}" for name, word in SHORT.items()}
    line["inconclusive"] = f"{verdicts.get('inconclusive', 0) / number:.1%}"
    return {**line, "goal": rule.goal, "met": "yes" if rule.is_met(verdicts) else "**no**"}


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
        counts = rule.counts(subject, np.random.default_rng((seed // 2, len(subject))))
        powers = [*[1.0] * len(unseen), *(model.power(patient, subject) for patient in range(rule.patients))]
        shared = draws.normal(size=(len(everybody), max(counts)))
        for place in PLACES:
            p = norm.cdf((shared + draws.normal(size=shared.shape)) / 2**0.5) ** np.array(powers)[:, None]
            ranks, name = np.ceil(p * of).clip(1, of), f"{subject} {place}"
            own = {who: ranks[row, : counts[row]] for row, who in enumerate(everybody)}
            standings.ways[name] = AskingWay(name, name, "drawn", "share", subject)
            standings.values[name] = {
                who: float((1 - (of_patient - 0.5) / of).mean()) for who, of_patient in own.items()
            }
            standings.probes[name] = dict(zip(everybody, counts, strict=True))
            standings.surprises[name] = {
                who: Surprise(float(-np.log(of_patient / of).mean()), len(of_patient))
                for who, of_patient in own.items()
            }
    return standings
