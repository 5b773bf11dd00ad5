"""Rows of ``medunlearn list``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from importlib import import_module
from math import inf, isfinite
from typing import Any

from medunlearn.errors import InputError
from medunlearn.paper import Paper, own_papers, paper_of, paper_targets
from medunlearn.ranges import range_text
from medunlearn.registry import choices_of, names, ranges_of
from medunlearn.reports.view import ResultView, plain_table

Rows = list[dict[str, str]]
CORPUS = ("audit MODEL CORPUS", "medunlearn.sources.corpus")


def _methods() -> Rows:
    from medunlearn.methods import METHODS, method_class
    from medunlearn.study.cost.method_outputs import method_needs

    classes = {name: method_class(name) for name in sorted(names("methods", METHODS))}
    return [
        {
            "name": name,
            "kind": getattr(cls, "kind", "loss"),
            **method_needs(cls()),
            "settings": _settings(cls),
            "what": _about(cls),
        }
        for name, cls in classes.items()
    ]


def _parts() -> Rows:
    """Parts that a method's name can have, as in ``npo+kl+sam``."""
    from medunlearn.methods.composition import PARTS, SLOTS, part_class

    classes = {name: part_class(name) for name in sorted(names("method_parts", dict(PARTS)))}
    return [
        {
            "name": name,
            "kind": SLOTS.get(getattr(cls, "slot", ""), ""),
            "settings": _settings(cls),
            "what": _about(cls),
        }
        for name, cls in classes.items()
    ]


def _measures() -> Rows:
    """Measures, with the verbs that use them by default."""
    from medunlearn.metrics import metric_targets

    defaults = _default_measures()
    return [_measure_row(name, defaults) for name in sorted(names("measures", metric_targets()))]


def _measure_row(name: str, defaults: Mapping[str, set[str]]) -> dict[str, str]:
    from medunlearn.metrics import get_metric

    row = {"name": name, "defaults": ", ".join(verb for verb, measures in defaults.items() if name in measures)}
    try:
        measure = get_metric(name)
    except InputError as error:
        return {**row, "needs": "", "range": "", "knows more": "", "what": f"not usable: {error}"}
    least, most = measure.range or (-inf, inf)
    bounds = {key: bound for key, bound in (("ge", least), ("le", most)) if isfinite(bound)}
    return {
        **row,
        "needs": ", ".join(measure.needs),
        "range": range_text(bounds),
        "knows more": measure.direction or "",
        "what": f"{measure.title}: {measure.meaning}",
    }


def _default_measures() -> dict[str, set[str]]:
    """Verb -> the measures that it uses where none are named; those of `evaluate` by benchmark."""
    from medunlearn.attacks import known_attacks
    from medunlearn.audit.measures import default_measures
    from medunlearn.config.forgetting import MEASURES

    papers = {
        f"evaluate ({paper.name})": {*paper.default_measures}
        for paper in _papers_of_all()
        if paper.builds and not paper.missing
    }
    everywhere = set.intersection(*papers.values()) if papers else set[str]()
    papers = {verb: measures - everywhere for verb, measures in papers.items()}
    of_attacks = {name for attack in known_attacks().values() for name in attack.scored_by}
    verbs = {"audit": {*default_measures()}, "attack": of_attacks, "forget": {*MEASURES}}
    return {"evaluate": everywhere, **papers, **verbs}


def _benchmarks() -> Rows:
    return [
        {"name": paper.name, "metrics": ", ".join(paper.default_measures), "what": paper.title}
        for paper in _papers_of_all()
        if paper.builds or paper.missing
    ]


def _attacks() -> Rows:
    """Registered attacks, then plug-ins that cannot be used, with the reason."""
    from medunlearn.attacks import broken_attacks, known_attacks

    usable = [
        {
            "name": name,
            "family": cls.family.name,
            "sets": ", ".join(cls.sets),
            "touches": ", ".join(cls.touches),
            "settings": _settings(cls),
            "what": f"{cls.title}, {cls.question}: {_about(cls)}",
        }
        for name, cls in known_attacks().items()
    ]
    broken = broken_attacks().items()
    return usable + [
        {"name": name, "family": "", "sets": "", "touches": "", "settings": "", "what": f"not usable: {why}"}
        for name, why in broken
    ]


def _tasks() -> Rows:
    from medunlearn.judging.writing import task_class, task_targets

    classes = {name: task_class(name) for name in sorted(names("tasks", task_targets()))}
    return [{"name": name, "prompt": cls().version, "what": _about(cls)} for name, cls in classes.items()]


def _presets() -> Rows:
    from medunlearn.study.presets import presets

    return [
        {"name": name, "devices": str(preset.processes), "what": preset.about} for name, preset in presets().items()
    ]


def _sources() -> Rows:
    from medunlearn.sources.plug_ins import sources

    of_builds = {
        name: (f"build {paper.name} {flag}", module)
        for paper in own_papers()
        for name, (flag, module) in paper.sources.items()
    }
    rows = [
        {"name": name, "command": command, "what": _about_module(module)}
        for name, (command, module) in {**of_builds, "corpus": CORPUS}.items()
    ]
    return rows + [
        {"name": name, "command": f"files ending in {', '.join(source.endings)}", "what": source.title}
        for name, source in sources().items()
    ]


def _papers() -> Rows:
    return [{"name": paper.name, "what": paper.source} for paper in _papers_of_all() if paper.source]


def _exhibits() -> Rows:
    """Every table and figure of the papers, and where it stands here."""
    return [
        {
            "name": f"{paper.name} {exhibit.number}",
            "stands in": f"{exhibit.page}: {exhibit.at}" if exhibit.page else f"nothing: {exhibit.lacks}",
            "needs": exhibit.needs,
            "what": exhibit.shows,
        }
        for paper in _papers_of_all()
        for exhibit in paper.exhibits()
    ]


def _papers_of_all() -> list[Paper]:
    """Every paper; one that cannot be loaded stands with the reason."""
    return [
        paper if not paper.missing else replace(paper, title=paper.missing, measures=())
        for paper in map(paper_of, sorted(paper_targets()))
    ]


TABLES: Mapping[str, Callable[[], Rows]] = {
    "methods": _methods,
    "parts": _parts,
    "measures": _measures,
    "attacks": _attacks,
    "benchmarks": _benchmarks,
    "sources": _sources,
    "papers": _papers,
    "exhibits": _exhibits,
    "tasks": _tasks,
    "presets": _presets,
}


def _settings(cls: Any) -> str:
    choices, ranges = choices_of(cls), ranges_of(cls)

    def shown(name: str, default: Any) -> str:
        others = [str(value) for value in choices.get(name, ()) if value != default]
        more = f"or {', '.join(others)}" if others else ranges.get(name, "")
        return f"{name}={default}" + (f" ({more})" if more else "")

    # A default of None may follow from another setting.
    example = cls() if all(field.default is not MISSING for field in fields(cls)) else None
    defaults = {field.name: getattr(example, field.name, field.default) for field in fields(cls)}
    return ", ".join(shown(name, default) for name, default in defaults.items()) or "none"


def _about(described: Any) -> str:
    """The first paragraph of a docstring."""
    return " ".join((described.__doc__ or "").split("\n\n")[0].split()).replace("``", "")


def _about_module(target: str) -> str:
    """The first paragraph of a module's docstring, or else its name."""
    return _about(import_module(target.partition(":")[0])) or target


def list_view(what: str, rows: list[dict[str, str]]) -> ResultView:
    """Names, each with its first sentence."""
    if not rows:
        return ResultView(rows)
    table = plain_table(("name", "what"), [(row["name"], first_sentence(row["what"])) for row in rows], what)
    return ResultView(rows, [table, f"Everything about one of them: medunlearn list {what} NAME; as data: --json."])


def named_view(name: str, rows: list[dict[str, str]]) -> ResultView:
    """Everything about one name."""
    facts = ([f"{key}: {text}" for key, text in row.items() if key != "name" and text] for row in rows)
    return ResultView(rows, [line for own in facts for line in (name, *own)])


def first_sentence(text: str) -> str:
    """A text up to the end of its first sentence."""
    return re.split(r"\.(?= [A-Z]|$)", text, maxsplit=1)[0]
