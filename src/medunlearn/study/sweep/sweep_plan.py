"""A sweep before it runs: its validated settings, and those of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.config import (
    TINIES,
    AttackSettings,
    Context,
    EvaluateSettings,
    ExpectedSettings,
    SearchSettings,
    SweepSettings,
    TrainSettings,
    UnlearnSettings,
    check,
)
from medunlearn.config.experiments import refuse_file_of_other_verb
from medunlearn.config.reading import merged
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.errors import ConfigError, unknown_name
from medunlearn.probes.keyword_stage import interpreter_problem
from medunlearn.probes.score import metric_names
from medunlearn.study.benchmark_builds import from_section, needs_folder, open_section, save_new
from medunlearn.study.epochs.epoch_settings import attack_section, check_watched, collect
from medunlearn.study.experiment import benchmark_folder, methods_named
from medunlearn.study.judge_stage import JudgeStage, judge_section
from medunlearn.study.part_check import Outline, check_unlearning, outline_with
from medunlearn.study.presets import RETRAINED, train_settings, unlearn_settings
from medunlearn.study.slots.engine import check_engine, check_sharding
from medunlearn.study.sweep.rate_search import FOLD, FORGETTING, UTILITY
from medunlearn.training.processes import several

# What a section may not set, and the key of the sweep that does.
_SET_ABOVE = {
    "train": {"seed": "seeds", "without": "retrain"},
    "unlearn": {"seed": "seeds", "split": "splits", "method": "unlearn.methods"},
    "evaluate": {"split": "splits"},
    "attack": {"split": "splits"},
}


@dataclass(frozen=True)
class Sweep:
    """A validated sweep, with the settings of its stages.

    Attributes:
        methods: methods in file order.
        retrained: splits that get retrained models.
        reads_retrained: methods whose reference is the split's retrained model.
        notes: remarks for readers of the results.
        opened: the benchmark, if opening it needs no language model.
        judges: the judge stage at the end; None: no judging.
    """

    settings: SweepSettings
    methods: tuple[str, ...]
    retrained: tuple[str, ...]
    reads_retrained: tuple[str, ...]
    search: SearchSettings | None
    notes: tuple[str, ...]
    opened: Benchmark | None
    judges: JudgeStage | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        return _seeds(self.settings)

    def asked_about(self, split: str) -> Sequence[str]:
        """Other splits on which a split's unlearned models are evaluated: in a sequence all previous ones."""
        splits = self.settings.splits
        return splits[: splits.index(split)] if self.settings.sequence else self.settings.asked_about.get(split, ())

    def training(self, seed: int, without: str | None = None) -> TrainSettings:
        """Training settings of the target, or of a retrained model without one split's forget set."""
        target = train_settings({"seed": seed, **self.settings.train})
        return target if without is None else target.model_copy(update={"without": without})

    def unlearning(self, method: str, split: str, seed: int, lr: float | None = None) -> UnlearnSettings:
        """Unlearning settings of a method; ``lr`` replaces its own rate."""
        section = {key: value for key, value in self.settings.unlearn.items() if key not in ("methods", "search")}
        rate = {} if lr is None else {"lr": lr}
        values = {"seed": seed, **section, "method": method, "split": split, **rate}
        return unlearn_settings(values, tiny=TINIES.get(str(self.settings.train.get("model"))))

    def evaluating(self, split: str, context: Context | None = None, **more: Any) -> EvaluateSettings:
        """Evaluation settings on a split; without a context in each model's own.

        All seeds use the same questions: subset and bootstrap use the first seed.
        """
        values = {"seed": self.seeds[0], **self.settings.evaluate, "split": split, **more}
        return check(EvaluateSettings, values if context is None else {**values, "context": context})

    def searching(self, split: str) -> EvaluateSettings:
        """Evaluation settings of the search for rates: train fold, first context."""
        return self.evaluating(split, next(iter(self.settings.contexts), None), folds=[FOLD])

    @property
    def evaluation(self) -> EvaluateSettings:
        """Settings common to all evaluations."""
        return self.evaluating(self.settings.splits[0])

    def attacking(self, split: str) -> AttackSettings:
        """Attack settings on a split, equal for all seeds."""
        settings = attack_section(self.settings.attack, {"seed": self.seeds[0], "split": split})
        if settings is None:
            raise AssertionError("a sweep without a section attack has no attack")
        return settings

    def benchmark(self) -> Benchmark:
        """The benchmark in its folder. Raises ConfigError: it lacks a split of the sweep."""
        section, folder = self.settings.benchmark, benchmark_folder(self.settings)
        if self.opened is not None:
            return self.opened if "folder" in section else save_new(self.opened, folder)
        benchmark = from_section(section, folder)
        if problems := [*_against(benchmark, self.settings, self.search), *self.unjudgeable(benchmark)]:
            raise ConfigError(problems)
        return benchmark

    def unjudgeable(self, benchmark: Benchmark) -> list[str]:
        """Reasons why the sweep's judges may not get the benchmark's data."""
        return self.judges.why_not(benchmark) if self.judges else []


def plan_from(sweep: Path | str | dict[str, Any], jobs: int | None, overrides: Mapping[str, Any]) -> Sweep:
    """:func:`plan` for a file or settings with overrides; an override ``seed`` replaces all ``seeds``."""
    if jobs is not None and jobs < 1:
        raise ConfigError(["--jobs must be at least 1"])
    values = merged(sweep, overrides)
    return plan({key: value for key, value in values.items() if key != "seeds" or "seed" not in overrides})


def plan(values: Mapping[str, Any]) -> Sweep:
    """Validate a sweep before anything runs. Raises ConfigError: every mistake in every section, at once."""
    refuse_file_of_other_verb("sweep", values)
    values, fields = _merge_search(values), SweepSettings.model_fields
    # Taken out, so that they do not hide what is wrong with the rest.
    problems = [unknown_name("setting", key, fields) for key in values if key not in fields]
    values = {key: value for key, value in values.items() if key in fields}
    settings = collect(problems, "sweep", lambda: check(SweepSettings, values))
    processes = 1 if settings is None else settings.processes
    train, unlearn, evaluate, attack = (_section(problems, values, name) for name in _SET_ABOVE)
    target = collect(problems, "train", lambda: train_settings(train))
    if target is not None:
        collect(problems, "train", lambda: check_sharding(target, processes))
        if target.tiny_tokenizer == "own":
            problems.append(
                "train: tiny_tokenizer=own: a sweep compares measures counted in tokens, for which all models must "
                "share one tokenizer. Take common: no token of it is one subject's alone."
            )
    search = _search(problems, unlearn)
    outline = outline_with(problems, target)
    methods = _methods(
        problems, unlearn, tiny=TINIES.get(str(train.get("model"))), outline=outline, processes=processes
    )
    collect(problems, "evaluate", lambda: check(EvaluateSettings, {**evaluate, "split": "any"}))
    collect(problems, "attack", lambda: attack_section(attack, {"split": "any"}))
    opened, judges = None, None
    if settings is not None:
        judges = collect(problems, "judge", lambda: judge_section(settings.judge, {"seed": _seeds(settings)[0]}))
        problems += _list_problems(settings)
        collect(problems, "expected", lambda: settings.expected and check(ExpectedSettings, settings.expected))
        problems += check_engine(settings)
        opened = _open_benchmark(problems, settings)
        if opened is not None:
            problems += _against(opened, settings, search)
            problems += judges.why_not(opened) if judges else []
    if several():
        problems.append(
            "a sweep starts its own processes; start it without torchrun, with --on torchrun --processes N"
        )
    reads = [name for name, own in methods.items() if own.arguments.get("reference") == RETRAINED]
    retrain: Sequence[str] = ()
    if settings is not None:
        retrain = (
            (settings.splits if settings.retrain else ())
            if isinstance(settings.retrain, bool)
            else settings.retrain
        )
        if reads and search:
            problems.append(f"unlearn.{reads[0]}.reference=retrained: rates cannot be searched with it")
        if reads and (missing := [split for split in settings.splits if split not in retrain]):
            problems.append(f"unlearn.{reads[0]}.reference=retrained: retrain lacks {', '.join(missing)}")
    if problems or settings is None:
        raise ConfigError(list(dict.fromkeys(problems)))
    notes: tuple[str, ...] = tuple(filter(None, [interpreter_problem(settings.extractor_python)]))
    if search and search.split in settings.splits:
        notes += (
            f"The learning rates were searched on {search.split}, which is also reported: its numbers favour "
            "every method. Search on a split that is not among the reported ones.",
        )
    return Sweep(settings, tuple(methods), tuple(retrain), tuple(reads), search, notes, opened, judges)


def _seeds(settings: SweepSettings) -> tuple[int, ...]:
    return settings.seeds or (settings.seed or 0,)


def _merge_search(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with ``unlearn.search.KEY``, given on the command line as ``search.KEY``, merged into the
    search.
    """
    unlearn = values.get("unlearn")
    if not isinstance(unlearn, Mapping) or not isinstance(search := unlearn.get("search") or {}, Mapping):
        return dict(values)
    dotted = {key.removeprefix("search."): unlearn[key] for key in unlearn if str(key).startswith("search.")}
    if not dotted:
        return dict(values)
    rest = {key: value for key, value in unlearn.items() if not str(key).startswith("search.")}
    return {**values, "unlearn": {**rest, "search": {**search, **dotted}}}


def _section(problems: list[str], values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The keys of a section; keys that the sweep sets itself are mistakes."""
    content = values.get(name)
    section = dict(content) if isinstance(content, Mapping) else {}
    for key, above in _SET_ABOVE[name].items():
        if key in section:
            section.pop(key)
            problems.append(f"{name}.{key}: in a sweep it is set by {above}; leave it out")
    if name == "evaluate" and values.get("contexts") and section.pop("context", None) is not None:
        problems.append("evaluate.context: contexts sets it; leave one of them out")
    return section


def _search(problems: list[str], section: dict[str, Any]) -> SearchSettings | None:
    """Take the search out of the section ``unlearn``."""
    content = section.pop("search", None)
    if content is None:
        return None
    if not isinstance(content, Mapping):
        problems.append(f"unlearn.search={content!r}: give it a split and rates, {{split: ..., lr: [1e-4, 1e-3]}}")
        return None
    search = collect(problems, "unlearn.search", lambda: check(SearchSettings, content))
    if search is not None:
        problems += [f"unlearn.search.lr={rate!r}: a rate is above 0" for rate in search.lr if not rate > 0]
        problems += _twice("unlearn.search.lr", search.lr)
    for key in [key for key in section if key == "lr" or key.endswith(".lr")]:
        section.pop(key)
        problems.append(f"unlearn.{key}: unlearn.search chooses the rates; leave one of them out")
    return search


def _methods(
    problems: list[str], section: dict[str, Any], *, tiny: str | None, outline: Outline | None, processes: int
) -> dict[str, UnlearnSettings]:
    """Take the methods out of the section ``unlearn``, with their settings from the rest of it."""

    def method(name: str) -> UnlearnSettings:
        settings = unlearn_settings({**section, "method": name, "split": "any"}, tiny=tiny)
        check_unlearning(settings, outline)
        check_sharding(settings, processes)
        return settings

    names = methods_named(problems, section)
    checked = {name: collect(problems, "unlearn", lambda: method(name)) for name in names}  # noqa: B023
    return {name: settings for name, settings in checked.items() if settings is not None}


def _list_problems(settings: SweepSettings) -> Iterator[str]:
    """Mistakes in the sweep's lists."""
    if settings.seed is not None and settings.seeds:
        yield "seed and seeds are both given; leave one of them out"
    retrain = () if isinstance(settings.retrain, bool) else settings.retrain
    for name in ("splits", "contexts", "seeds"):
        yield from _twice(name, getattr(settings, name))
    yield from _twice("retrain", retrain)
    references = [
        ("retrain", retrain),
        *(("asked_about", (key, *other)) for key, other in settings.asked_about.items()),
    ]
    for setting, splits in references:
        for split in splits:
            if split not in settings.splits:
                yield f"{setting}: {unknown_name('split of this sweep', split, settings.splits)}"
    if settings.sequence and settings.asked_about:
        yield "asked_about: in a sequence every model is asked about all earlier requests; leave it out"
    if settings.sequence and len(settings.splits) < 2:
        yield "sequence: name two splits or more, in the order of the requests"
    for split, others in settings.asked_about.items():
        if split in others:
            yield f"asked_about.{split} names {split!r} itself; its models are asked about it anyway"
        yield from _twice(f"asked_about.{split}", others)


def _twice(name: str, values: Sequence[Any]) -> list[str]:
    return [f"{name} names {value!r} twice" for value in dict.fromkeys(values) if values.count(value) > 1]


def _open_benchmark(problems: list[str], settings: SweepSettings) -> Benchmark | None:
    """The benchmark, from its folder or in memory; None if it needs a model or its folder, or fails."""
    section, folder = settings.benchmark, benchmark_folder(settings)
    written = collect(problems, "benchmark", lambda: needs_folder(section))
    if written is None or (written and not (folder / MANIFEST).exists()):
        return None
    return collect(problems, "benchmark", lambda: open_section(section, folder))


def _against(benchmark: Benchmark, settings: SweepSettings, search: SearchSettings | None) -> list[str]:
    """Splits and metrics that the benchmark lacks."""
    problems: list[str] = []
    for key, splits in {
        "splits": settings.splits,
        "unlearn.search.split": (search.split,) if search else (),
    }.items():
        for split in splits:
            collect(problems, key, lambda: benchmark.split(split))  # noqa: B023
    if settings.attack and not problems:
        for split in settings.splits:
            attack = collect(problems, "attack", lambda: attack_section(settings.attack, {"split": split}))  # noqa: B023
            collect(problems, "attack", lambda: check_watched(benchmark, attack, None))  # noqa: B023
    metrics = {key: settings.evaluate[key] for key in ("metrics",) if key in settings.evaluate}
    names = collect(
        problems, "evaluate", lambda: metric_names(benchmark, check(EvaluateSettings, {"split": "any", **metrics}))
    )
    for composite in (UTILITY, FORGETTING) if search and names else ():
        if not composite.measured_parts(names or ()):
            parts = ", ".join(composite.parts)
            problems.append(
                f"unlearn.search: evaluate.metrics holds no part of {composite.name}; add one of {parts}"
            )
    return problems
