"""Results of all attacks on one page: what brings it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from medunlearn.attacks import attack_class
from medunlearn.attacks.attack_protocol import Attack
from medunlearn.attacks.attacked import Attacks, recorded_attacks
from medunlearn.attacks.measure_trust import trust, trust_table
from medunlearn.attacks.membership.membership_results import READINGS as MEMBERSHIP_READINGS
from medunlearn.attacks.recovery.recovery_results import BELOW, DAMAGED, NOT_TOLD_APART, READINGS
from medunlearn.errors import InputError
from medunlearn.metrics import get_metric
from medunlearn.reports.battery import COLUMNS, COSTS, NAME, TITLE, battery_section, battery_table
from medunlearn.reports.blocks import Notice, Report, blocks
from medunlearn.reports.content import AttackPart
from medunlearn.reports.readings import rows_of
from medunlearn.reports.view import ResultView, titled
from medunlearn.results.runs import Run


@dataclass(frozen=True)
class BroughtBack:
    """Results of all attacks on some models.

    Attributes:
        table: rows of :data:`medunlearn.reports.battery.COLUMNS`, in the order of the registry.
        attacks: name -> class of every attack that was run.
        left_out: sentences on states that the rows leave out, since a model's answers in them mean nothing.
    """

    table: pd.DataFrame
    attacks: Mapping[str, type[Attack]]
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, attacks: Attacks) -> BroughtBack:
        """Results of one command."""
        records = [model.record for model in attacks.models]
        failures = [
            Failure(family, model.run, reason)
            for model in attacks.models
            for family, reason in model.without_result.items()
        ]
        return cls.gather(attacks.by_family.values(), records, failures)

    @classmethod
    def gather(cls, results: Iterable[Attacks], records: Iterable[Run], failures: Iterable[Failure]) -> BroughtBack:
        """Results of each family, the records of its attacks, and attacks without a result."""
        names = dict.fromkeys(name for record in records for name in recorded_attacks(record)[0])
        attacks = {attack_class(name).name: attack_class(name) for name in names}
        by_family: dict[str, type[Attack]] = {}
        for attack in attacks.values():
            by_family.setdefault(attack.family.name, attack)
        own_results = [*results]
        tables = [own.family.recovered(own) for own in own_results]
        titles = {own.family.name: _titles(table) for own, table in zip(own_results, tables, strict=True)}
        failed = [row for one in failures for row in one.rows(by_family, titles.get(one.family, {}))]
        # Attacks that bring nothing back stand beside those that do, and make no page by themselves.
        if not failed and not any(own.family.brings_back for own in own_results):
            tables = []
        tables.append(pd.DataFrame(failed))
        table = pd.concat([own for own in tables if len(own)] or [pd.DataFrame()], ignore_index=True)
        table = _beside_damage(table).reindex(columns=list(COLUMNS))
        left_out = tuple(dict.fromkeys(text for own in own_results for text in _left_out(own)))
        return cls(cls.ordered(table.astype({"states": "Int64", "n_subjects": "Int64"})), attacks, left_out)

    @staticmethod
    def ordered(table: pd.DataFrame) -> pd.DataFrame:
        """Rows by the best known trust in a measure of their attack; attacks that were not tried come last."""
        if table.empty:
            return table
        known: dict[str, float] = {}
        for row in rows_of(table):
            attack, area = str(row["attack"]), _trust_of(row)
            known[attack] = max(known.get(attack, -1.0), -1.0 if area is None else area)
        order = [known[str(name)] for name in table["attack"]]
        return table.iloc[sorted(range(len(order)), key=lambda n: -order[n])].reset_index(drop=True)

    def part(self) -> AttackPart:
        """The section and its numbers, for a report; no section without numbers or failures."""
        titles = {row["title"]: self._attack(row["attack"]) for row in rows_of(self.table)}
        alone = {title: attack.alone for title, attack in titles.items() if attack is not None}
        words = {**READINGS, **MEMBERSHIP_READINGS}
        notes = (*_about_order(self.table), *self.left_out)
        shown = battery_section(self.table, words, self.measure_titles, alone, notes)
        data = {"table": self.table, "measures": self.meanings, "left_out": self.left_out}
        return AttackPart(NAME, shown, data)

    def page(self, attacks: Attacks, title: str) -> Report:
        """The page by itself, with the warnings to read first.

        Raises:
            InputError: no attack that brings something back was run.
        """
        part = self.part()
        if part.section is None:
            names = ", ".join(self.attacks)
            raise InputError(f"None of the attacks ({names}) tries to bring anything back: --attacks battery does.")
        caveats = attacks.caveats
        page = blocks(Notice("Read this first", caveats) if caveats else None, part.section)
        facts = tuple((model.run.label, model.run.role) for model in attacks.models)
        return Report(title, page, "Attacks", facts, {NAME: part.data, "caveats": caveats}, drawn=attacks.undecided)

    def view(self) -> ResultView:
        """The table for the terminal."""
        tables = []
        for title, is_cost in ((TITLE, False), (COSTS, True)):
            rows = [row for row in rows_of(self.table) if (row["side"] == "retain") == is_cost]
            if shown := battery_table(rows, self.measure_titles):
                tables.append(titled(title, shown))
        return ResultView(blocks=tables)

    @property
    def measure_titles(self) -> dict[str, str]:
        return {name: meaning["title"] for name, meaning in self.meanings.items()}

    @cached_property
    def meanings(self) -> dict[str, dict[str, str]]:
        """Name of a measure on the page -> its title and meaning."""
        own: dict[str, tuple[str, str]] = {}
        for attack in self.attacks.values():
            own |= getattr(attack, "measures", {})
        meanings = {}
        for name in map(str, self.table["measure"].dropna().unique()):
            title, meaning = own[name] if name in own else meaning_of_metric(name)
            meanings[name] = {"title": title, "meaning": meaning}
        return meanings

    def _attack(self, label: str) -> type[Attack] | None:
        names = (name for name in self.attacks if f"{label}.".startswith(f"{name}."))
        return self.attacks.get(next(names, ""))


def _titles(table: pd.DataFrame) -> dict[str, str]:
    """Part of an attack -> its title, of those with numbers."""
    return {str(row["attack"]): str(row["title"]) for row in rows_of(table)} if len(table) else {}


def _left_out(attacks: Attacks) -> Iterator[str]:
    """States in which a model's answers mean nothing; the other models' rows leave them out, too."""
    for model in attacks.measured_models:
        for state, problems in model.facts.get("problems", {}).items():
            yield f"{state} is left out of every row: {model.run.label} in it: {'; '.join(problems)}."


def _beside_damage(table: pd.DataFrame) -> pd.DataFrame:
    """The rows, in which a model that lost answers about retained patients is not read as one that forgot.

    Lost: the whole interval of a difference from the retrained model is below 0.
    """
    if not {"side", "difference_high"} <= {*table.columns}:
        return table
    lost = (table["side"] == "retain") & (pd.to_numeric(table["difference_high"]) < 0).fillna(False)
    is_damaged = table["model"].isin(table.loc[lost, "model"]) & table["reading"].isin((NOT_TOLD_APART, BELOW))
    return table.assign(reading=table["reading"].mask(is_damaged, DAMAGED))


@dataclass(frozen=True)
class Failure:
    """A family of attacks without a result on a model, and the reason."""

    family: str
    run: Run
    reason: str

    def rows(self, by_family: Mapping[str, type[Attack]], titles: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Its rows of the page, if the family's attacks bring something back.

        Args:
            titles: part of an attack of the family -> its title, of those with numbers of other models.
        """
        attack = by_family.get(self.family)
        if attack is None or not (attack.family.brings_back or attack.sets):
            return
        for part, title in (titles or {self.family: attack.family.title}).items():
            place = {"attack": part, "title": title, "model": self.run.label, "role": self.run.role}
            yield {**place, "reason": self.reason}


def _trust_of(row: Mapping[str, Any]) -> float | None:
    measure = row["measure"]
    return trust(str(row["attack"]), measure) if isinstance(measure, str) else None


def _about_order(table: pd.DataFrame) -> tuple[str, ...]:
    """A sentence on the order of the rows, with the numbers that it stands on; none without any."""
    areas = {row["title"]: area for row in rows_of(table) if (area := _trust_of(row)) is not None}
    if len(areas) < 2:
        return ()
    models = next(iter(trust_table().values()))["models"]
    listed = ", ".join(f"{title} {area:.2f}" for title, area in areas.items())
    return (
        "The first rows are the most trusted: how often a measure put a tiny model that knows the patients above "
        f"one that does not ({models} models; what hides the patients was trained into the last layer alone, which "
        f"favours measures that read the layers below; 0.5 = tells nothing): {listed}.",
    )


def meaning_of_metric(name: str) -> tuple[str, str]:
    metric = get_metric(name)
    return metric.title, metric.meaning
