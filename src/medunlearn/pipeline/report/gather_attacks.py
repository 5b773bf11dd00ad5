"""Convert attacks on evaluated models into the content of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from medunlearn.attacks import ATTACKS, attack_class
from medunlearn.attacks.attacked import Attacked, Attacks
from medunlearn.attacks.reconstruction.reconstruction_results import reported
from medunlearn.attacks.recovery.recovery_attacks import RECOVERY
from medunlearn.attacks.recovery.recovery_results import EXTRA, READINGS, shown
from medunlearn.data.storage import sha256_of_json
from medunlearn.registry import names
from medunlearn.reports.content import Membership, Reconstruction, Recovery
from medunlearn.results.evaluated import Evaluated, joined
from medunlearn.results.reference_check import ReferenceCheck


def membership_content(attacks: Attacks, reference: ReferenceCheck | None, broken: Collection[str]) -> Membership:
    """Tables and curves of membership attacks; no readings for broken models or without a valid reference."""
    table, registered = attacks.table(), names("attacks", ATTACKS)
    if "reading" in table:
        table["reading"] = table["reading"].mask(table["model"].isin(list(broken)))
    if reference is not None and not reference.passed:
        table = table.assign(reading=None)
    return Membership(
        table=table,
        comparisons=attacks.comparisons,
        curves=joined([model.curves.assign(model=model.run.label) for model in attacks.models]),
        titles={name: attack_class(name).title for name in table["attack"].unique() if name in registered},
    )


def reconstruction_content(models: Sequence[Evaluated], replicates: int, seed: int) -> Reconstruction:
    """Tables of reconstruction attacks; empty without any."""
    attacks = attacks_on([find_attack(model, "reconstruction") for model in models], models, replicates, seed)
    return Reconstruction(reported(attacks.table()), reported(attacks.comparisons)) if attacks else Reconstruction()


def recovery_content(
    models: Sequence[Evaluated], reference: ReferenceCheck | None, replicates: int, seed: int
) -> Iterator[Recovery]:
    """Tables of the recovery attacks by kind; no readings for broken models or without a valid reference.

    A model attacked with other settings than most is skipped with a note.
    """
    broken = {model.run.label for model in models if model.record.info.problems}
    for kind in RECOVERY:
        attacked = [find_attack(model, kind) for model in models]
        usual = Counter(_settings(attack) for attack in attacked if attack is not None).most_common(1)
        alike = [attack if attack is not None and _settings(attack) == usual[0][0] else None for attack in attacked]
        attacks = attacks_on(alike, models, replicates, seed)
        if attacks is None:
            continue
        others = [
            f"{model.run.label} is left out: it was attacked with other settings."
            for model, attack, same in zip(models, attacked, alike, strict=True)
            if attack is not None and same is None
        ]
        table = shown(attacks.table())
        table["reading"] = table["reading"].mask(table["model"].isin(list(broken)))
        if reference is not None and not reference.passed:
            table = table.assign(reading=None)
        yield Recovery(
            kind=kind,
            title=attack_class(kind).title,
            table=table,
            comparisons=shown(attacks.comparisons),
            words=READINGS,
            measures=EXTRA,
            notes=(*(note for model in attacks.models for note in model.notes), *others),
        )


def _settings(attacked: Attacked) -> str:
    """The attack's own settings, and the seed of its questions."""
    config = attacked.record.info.config
    return sha256_of_json([config["arguments"].get(attacked.kind, {}), config["seed"], config["weights"]])


def find_attack(model: Evaluated, kind: str = "membership") -> Attacked | None:
    """The attack of a kind on a model's evaluated split and benchmark."""
    attacked, about = Attacked.find(model.run, str(model.record.info.split), kind), model.record.info.benchmark
    return attacked if attacked is not None and attacked.record.info.benchmark == about else None


def attacks_on(
    attacked: Sequence[Attacked | None], models: Sequence[Evaluated], replicates: int, seed: int
) -> Attacks | None:
    """The attacks on a report's models, under the models' labels; None without any."""
    pairs = zip(models, attacked, strict=True)
    labelled = tuple(replace(attack, run=model.run) for model, attack in pairs if attack is not None)
    return Attacks(labelled, replicates, seed) if labelled else None
