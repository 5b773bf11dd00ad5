"""Gather the attacks on evaluated models for a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from medunlearn.attacks.attack_protocol import AttackFamily
from medunlearn.attacks.attacked import FOLDER, Attacked, Attacks, all_families, recorded_attacks
from medunlearn.attacks.brought_back import BroughtBack, Failure
from medunlearn.attacks.membership.membership_attack import MEMBERSHIP
from medunlearn.data.storage import sha256_of_json
from medunlearn.reports.blocks import Bullets, section
from medunlearn.reports.content import AttackPart, ReportContent
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run

MaybeAttacked = Sequence[Attacked | None]


def attack_parts(
    content: ReportContent, models: Sequence[Evaluated], replicates: int, seed: int
) -> tuple[AttackPart, ...]:
    """The part of every family of attacks, with notes on models that have no result."""
    records = [record for model in models for record in _records(model)]
    parts, results, failures = list[AttackPart](), list[Attacks](), list[Failure]()
    for family in all_families(records):
        attacked: MaybeAttacked = [find_attack(model, family) for model in models]
        own_failures = [failure for model in models for failure in _failures(model, family)]
        notes = [f"{failure.run.label} has no result: {failure.reason}" for failure in own_failures]
        if family.alike:
            attacked, others = _alike(models, attacked)
            notes += others
        attacks = attacks_on(attacked, models, replicates, seed)
        parts.append(family.report_part(content, attacks, notes))
        results += [attacks] if attacks is not None else []
        failures += own_failures
    together = BroughtBack.gather(results, records, failures).part()
    return (together, *parts, *_not_importable(records))


def _records(model: Evaluated) -> list[Run]:
    """Complete attacks on a model's evaluated split and benchmark, latest last."""
    info = model.record.info
    return [
        record
        for record in model.run.complete_below(FOLDER)
        if (record.info.split, record.info.benchmark) == (info.split, info.benchmark)
    ]


def _failures(model: Evaluated, family: AttackFamily) -> list[Failure]:
    """A family without a result in the latest attack that had it."""
    for record in reversed(_records(model)):
        attacked = Attacked(model.run, record, family)
        if family.name in attacked.without_result:
            return [Failure(family.name, model.run, attacked.without_result[family.name])]
        if attacked.measured:
            break
    return []


def _alike(models: Sequence[Evaluated], attacked: MaybeAttacked) -> tuple[MaybeAttacked, list[str]]:
    """The attacks with the settings of most models, and notes on the others."""
    settings = [None if attack is None else _settings(attack) for attack in attacked]
    usual = Counter(filter(None, settings)).most_common(1)
    alike = [
        attack if own is not None and own == usual[0][0] else None
        for attack, own in zip(attacked, settings, strict=True)
    ]
    notes = [
        f"{model.run.label} is left out: it was attacked with other settings."
        for model, attack, same in zip(models, attacked, alike, strict=True)
        if attack is not None and same is None
    ]
    return alike, notes


def _settings(attacked: Attacked) -> str:
    """The attack's own settings, and the seed of its questions."""
    config = attacked.record.info.config
    return sha256_of_json([attacked.arguments, config["seed"], config["weights"]])


def _not_importable(records: Sequence[Run]) -> list[AttackPart]:
    """A section on attacks whose code is not here, so that their results cannot be shown."""
    reasons = {name: why for record in records for name, why in recorded_attacks(record)[1].items()}
    lines = tuple(f"{name}: {why}" for name, why in reasons.items())
    if not lines:
        return []
    return [AttackPart("attacks_not_shown", section("Attacks that are not shown", Bullets(lines)), reasons)]


def find_attack(model: Evaluated, family: AttackFamily = MEMBERSHIP) -> Attacked | None:
    """The attack of a family on a model's evaluated split and benchmark."""
    attacked, about = Attacked.find(model.run, str(model.record.info.split), family), model.record.info.benchmark
    return attacked if attacked is not None and attacked.record.info.benchmark == about else None


def attacks_on(attacked: MaybeAttacked, models: Sequence[Evaluated], replicates: int, seed: int) -> Attacks | None:
    """The attacks on a report's models, under the models' labels; None without any."""
    pairs = zip(models, attacked, strict=True)
    labelled = tuple(replace(attack, run=model.run) for model, attack in pairs if attack is not None)
    return Attacks(labelled, replicates, seed, labelled[0].family) if labelled else None
