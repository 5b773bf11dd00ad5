"""Cost of a sweep's cells before it starts, and required parts missing on this machine.

The largest cell of each kind and method is rehearsed; the others are scaled by their number of sequences. An 8B
model thus takes a few rehearsals instead of one per cell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medunlearn.config import TINIES
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import MedunlearnError, first_line
from medunlearn.metrics import get_metric
from medunlearn.probes.evaluate import metric_names
from medunlearn.probes.material import rendering_for
from medunlearn.study.estimate.attack_cost import attack_stage
from medunlearn.study.estimate.blueprint import blueprint, blueprint_named
from medunlearn.study.estimate.capacity import Capacity, advice, capacity_of, shown_bytes
from medunlearn.study.estimate.devices import DECODING, PASSES, device_named
from medunlearn.study.estimate.stage_cost import Planner, Stage
from medunlearn.study.estimate.work import Work
from medunlearn.study.part_check import outline_of
from medunlearn.study.sweep.cells import SweepCell
from medunlearn.study.sweep.expected_benchmark import NOT_BUILT, expected_benchmark
from medunlearn.study.sweep.sweep_plan import Sweep

LOADED = ("encoder", "nli", "bert", "bart")
"""Settings of `evaluate` that name a model, which a metric needs."""


@dataclass(frozen=True)
class KindCost:
    """Cost of the pending cells of one kind.

    Attributes:
        label: kind, and method if it has one.
        work: work of all of them, with the memory of one.
        hours: hours on the named device, summed over processes; None without one.
        disk, scratch: bytes of all results, and of one cell's temporary checkpoints.
        note: why there are no numbers, or what they exclude.
    """

    label: str
    cells: int
    work: Work = field(default_factory=Work)
    hours: float | None = None
    disk: float = 0.0
    scratch: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class SweepCost:
    """Cost of all pending work; ``warnings`` lists what does not fit, ``missing`` the missing parts."""

    kinds: tuple[KindCost, ...] = ()
    device: str | None = None
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def hours(self) -> float | None:
        return None if self.device is None or not self.kinds else sum(kind.hours or 0.0 for kind in self.kinds)

    @property
    def disk(self) -> float:
        """Bytes of the sweep's results, and of its largest checkpoints."""
        return sum(kind.disk for kind in self.kinds) + max((kind.scratch for kind in self.kinds), default=0.0)

    def lines(self) -> Iterator[str]:
        """Lines on the numbers, and on what to prepare before the sweep starts."""
        if self.hours is not None:
            yield (
                f"About {self.hours:.3g} hours of one {self.device}, taken to reach {PASSES:.0%} of its matrix "
                f"products and in decoding {DECODING:.0%} of its bandwidth; loading and scores are not "
                f"counted. Disk: {shown_bytes(self.disk)}."
            )
        yield from (*self.doubts, *self.warnings, *self.missing)

    def facts(self) -> dict[str, Any]:
        return {**asdict(self), "hours": self.hours, "disk_bytes": self.disk}


def sweep_cost(
    sweep: Sweep, sizes: Callable[[Benchmark], Mapping[str, float]], *, device: str = "auto"
) -> SweepCost:
    """Cost of the pending cells, on this machine or the sweep's ``device_name``.

    Args:
        sizes: number of sequences that each cell trains on or evaluates.

    Raises:
        UnknownNameError: no such device.
    """
    name, settings = sweep.settings.device_name, sweep.settings
    named = None if name is None else device_named(name)
    missing = tuple(missing_parts(sweep, sweep.opened))
    if sweep.opened is None and not settings.expected:
        return SweepCost((), name, missing=missing, doubts=(NOT_BUILT,))
    try:
        planner, doubts = _planner(sweep, "cpu" if named else device)
    except MedunlearnError as error:
        return SweepCost((), name, missing=missing, doubts=(str(error),))
    capacity = capacity_of("cpu" if named else device, settings.out)
    if named is not None:
        memory = int(named.memory)
        planner.on_gpu, capacity = True, Capacity("GPU memory", memory, memory, capacity.disk)
    groups: dict[tuple[str, ...], list[SweepCell]] = {}
    for cell in sweep.cells:
        if not cell.done and cell.kind != "choose":
            trained = cell.kind in ("target", "retrained")
            method = cell.method if cell.kind in ("unlearn", "search") else None
            groups.setdefault(("train",) if trained else (cell.kind, method or cell.context or ""), []).append(cell)
    benchmark_sizes = sizes(planner.benchmark)
    kinds = tuple(_kind_cost(sweep, planner, cells, benchmark_sizes, name) for cells in groups.values())
    largest = max(kinds, key=lambda kind: kind.work.memory.total if kind.work.memory else 0, default=None)
    cost = SweepCost(kinds, name, (), missing, doubts)
    memory_used = largest.work.memory if largest else None
    warnings = advice(memory_used, int(cost.disk), capacity, f"A cell ({largest.label})" if largest else "")
    return replace(cost, warnings=tuple(warnings))


def _planner(sweep: Sweep, device: str) -> tuple[Planner, tuple[str, ...]]:
    """The planner of a sweep's cells, and why its numbers are estimates."""
    target, benchmark, growth = sweep.training(sweep.seeds[0]), sweep.opened, 1.0
    if benchmark is None:
        model = blueprint_named(target)
        benchmark, growth = expected_benchmark(sweep.settings, model.tokenizer)
    else:
        model = blueprint(benchmark, target)
    planner = Planner(benchmark, model, rendering_for(target), device, growth)
    planner.processes = sweep.settings.processes
    invented = "The benchmark is not built yet: numbers are those of {} invented patients, times {:.4g}."
    grown = (invented.format(sweep.settings.expected.get("synthetic", 40), growth),) if growth != 1.0 else ()
    return planner, (*filter(None, [model.doubt]), *grown)


def _kind_cost(
    sweep: Sweep, planner: Planner, cells: Sequence[SweepCell], sizes: Mapping[str, float], device: str | None
) -> KindCost:
    """Cost of the largest of some cells with equal cost per sequence, and of the others in proportion."""
    largest = max(cells, key=lambda cell: sizes[cell.name])
    label: str = "train" if largest.kind in ("target", "retrained") else largest.kind
    label += f" {largest.method}" if largest.kind in ("unlearn", "search") else ""
    evaluation = sweep.evaluating(largest) if largest.kind in ("evaluate", "search") else None
    stages = list[Stage]()
    try:
        if label == "train":
            stages.append(planner.training(label, sweep.training(largest.seed, largest.split)))
        elif largest.kind == "attack":
            trained = sweep.training(largest.seed)
            stages.append(attack_stage(label, planner, sweep.attacking(largest), trained))
        elif largest.kind != "evaluate":
            stages.append(planner.unlearning(sweep.unlearning(largest, largest.lr)))
        if evaluation is not None:
            stages.append(planner.evaluating(label, evaluation, None))
    except Exception as error:
        # A plug-in may read its tensors' values, which a rehearsal has not.
        reason = f"{type(error).__name__}: {first_line(error, 80)}"
        return KindCost(label, len(cells), note=f"cannot be estimated: {reason}")
    work = sum((stage.work for stage in stages), Work())
    share = sum(sizes[cell.name] for cell in cells) / max(sizes[largest.name], 1e-9)
    scaled = work.times(share)
    hours = None
    if device is not None:
        batch = sweep.attacking(largest).batch_size if largest.kind == "attack" else 64
        hours = device_named(device).hours(scaled, evaluation.batch_size if evaluation else batch)
    # A model's bytes do not depend on what it was trained on, those of answers do.
    disk = sum(stage.disk * (share if label in ("evaluate", "attack") else len(cells)) for stage in stages)
    note = "; ".join(filter(None, (stage.note for stage in stages)))
    return KindCost(label, len(cells), scaled, hours, disk, max(stage.scratch for stage in stages), note)


def missing_parts(sweep: Sweep, benchmark: Benchmark | None) -> Iterator[str]:
    """Models, tokenizers, extractors and server keys that the sweep needs and that are missing or not named.

    Args:
        benchmark: its kinds of question determine the metrics; None if it is not built yet.
    """
    model = str(sweep.settings.train.get("model"))
    if model not in TINIES and outline_of(model) is None:
        yield f"train.model: {model} and its tokenizer are not on this machine; they are fetched at the start."
    evaluation = sweep.evaluating(next(cell for cell in sweep.cells if cell.kind == "evaluate"))
    names = metric_names(benchmark, evaluation) if benchmark is not None else evaluation.metrics
    needs = {need: name for name in names for need in get_metric(name).needs}
    for part in LOADED:
        source = getattr(evaluation, part)
        if source is None and part in needs:
            yield f"evaluate.{part}: none is named, and {needs[part]} is left unscored without one."
        elif source is not None and not Path(source).is_dir() and not _is_fetched(source):
            yield f"evaluate.{part}: {source} is not on this machine; it is fetched when it is first needed."
    here = evaluation.extractor == "scispacy" and sweep.settings.extractor_python is None
    if here and evaluation.keywords is None and find_spec("scispacy") is None:
        yield "evaluate.extractor: scispaCy is not installed; `medunlearn build keywords` elsewhere makes a file."
    for judge in sweep.judges.judges if sweep.judges else ():
        if (key := judge.settings.api_key_env) and not os.environ.get(key):
            yield f"judge: {judge.name} needs a key, and ${key} is not set; it judges nothing without."


def _is_fetched(source: str) -> bool:
    """True if a hub model's configuration is in the cache."""
    from huggingface_hub import try_to_load_from_cache

    config_path = try_to_load_from_cache(source, "config.json") if source.count("/") == 1 else None
    return isinstance(config_path, str)
