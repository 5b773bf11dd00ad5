"""``medunlearn list``: what there is to choose from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from typing import Annotated

import typer

from medunlearn.cli.common import Json, Quiet, ending, print_json, print_table
from medunlearn.errors import UnknownNameError

EPILOG = "Example: `medunlearn list methods`"
Rows = list[dict[str, str]]


def _methods() -> Rows:
    from medunlearn.methods import METHODS, method_class
    from medunlearn.registry import names

    rows = []
    for name in sorted(names("methods", METHODS)):
        cls = method_class(name)
        arguments = ", ".join(f"{field.name}={field.default}" for field in fields(cls))
        kind = getattr(cls, "kind", "loss")
        what = _first_sentence(cls.__doc__)
        rows.append({"name": name, "kind": kind, "settings": arguments or "none", "what": what})
    return rows


def _metrics() -> Rows:
    from medunlearn.metrics import METRICS, get_metric
    from medunlearn.registry import names

    metrics = [get_metric(name) for name in sorted(names("metrics", METRICS))]
    return [
        {"name": metric.name, "needs": ", ".join(metric.needs), "what": f"{metric.title}: {metric.meaning}"}
        for metric in metrics
    ]


def _benchmarks() -> Rows:
    from medunlearn.data.builders import BENCHMARKS, default_metrics_of
    from medunlearn.registry import names

    return [
        {"name": name, "metrics": ", ".join(default_metrics_of(name)), "what": _about(target)}
        for name, target in sorted(names("benchmarks", BENCHMARKS).items())
    ]


def _attacks() -> Rows:
    from medunlearn.attacks import ATTACKS, attack_class
    from medunlearn.registry import names

    rows = []
    for name in names("attacks", ATTACKS):
        cls = attack_class(name)
        settings = ", ".join(f"{field.name}={field.default}" for field in fields(cls))  # type: ignore[arg-type]
        what = f"{cls.title}: {_first_sentence(cls.__doc__)}"
        rows.append({"name": name, "kind": cls.kind, "settings": settings or "none", "what": what})
    return rows


def _measures() -> Rows:
    from medunlearn.audit.measures import MEASURES, get_measure
    from medunlearn.registry import names

    measures = [get_measure(name) for name in names("measures", MEASURES)]
    return [
        {"name": one.name, "group": one.group, "needs": ", ".join(one.needs), "what": f"{one.title}: {one.meaning}"}
        for one in measures
    ]


def _tasks() -> Rows:
    from medunlearn.judging.writing import TASKS, task_class
    from medunlearn.registry import names

    classes = {name: task_class(name) for name in sorted(names("tasks", TASKS))}
    return [
        {"name": name, "prompt": cls().version, "what": _first_sentence(cls.__doc__)}
        for name, cls in classes.items()
    ]


def _presets() -> Rows:
    from medunlearn.pipeline.presets import presets

    return [
        {"name": name, "devices": str(preset.processes), "what": preset.about} for name, preset in presets().items()
    ]


TABLES: dict[str, Callable[[], Rows]] = {
    "methods": _methods,
    "metrics": _metrics,
    "measures": _measures,
    "benchmarks": _benchmarks,
    "attacks": _attacks,
    "tasks": _tasks,
    "presets": _presets,
}


def _about(target: str) -> str:
    """The first sentence of the builder's module; where it has none, where it is."""
    return _first_sentence(import_module(target.partition(":")[0]).__doc__) or target


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split()).replace("``", "")


@ending
def command(
    what: Annotated[str, typer.Argument(help="methods, metrics, measures, benchmarks, attacks, tasks or presets")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """List methods, metrics, measures, benchmarks, attacks, a language model's tasks or presets, and settings."""
    if what not in TABLES:
        raise UnknownNameError("list", what, TABLES)
    rows = TABLES[what]()
    if json:
        print_json(rows)
    elif not quiet:
        print_table(what, tuple(rows[0]), [tuple(row.values()) for row in rows])
