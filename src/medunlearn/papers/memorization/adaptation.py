"""The paper's experiment: a model adapted step by step, and every model audited on the texts of every step.

Steps are continued pretraining, instruction tuning on questions, and fine-tuning on diagnoses (Sections 3.1 to
3.3); each starts from the model of the one before. All models are asked the same probes, so that what a step added
is a paired difference, and what an earlier step left is seen in later models (Section 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.config import TINIES, DiagnoseSettings, ExpectedSettings, TrainSettings, check
from medunlearn.config.audit import AuditParts, AuditRelations, AuditSettings
from medunlearn.config.experiments import AdaptationSettings, AdaptationStep
from medunlearn.config.reading import merge
from medunlearn.data.benchmark import MANIFEST
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.models.folders import local_folder, model_identity
from medunlearn.paper import find_paper
from medunlearn.study.benchmark_builds import build_benchmark, from_section, open_section
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.epochs.epoch_selection import TABLE
from medunlearn.study.epochs.epoch_settings import collect
from medunlearn.study.experiment import run_folder
from medunlearn.study.plans.capacity import capacity_of, capacity_of_named, is_gpu
from medunlearn.study.plans.forecast import Forecast, PlannedStage
from medunlearn.study.plans.stage_states import training_stage
from medunlearn.study.presets import train_settings
from medunlearn.study.sweep.expected_benchmark import lengthen
from medunlearn.training.processes import join

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.data.benchmark import Benchmark
    from medunlearn.papers.memorization.report import AuditContent
    from medunlearn.reports.view import ResultView
    from medunlearn.results.runs import Run

BASE = "before adaptation"
"""Label of the model that the first step starts from."""
FOLLOWING = ("baselines", "persistence", "trained", "epoch_table", "diagnosis")
"""Relations that follow from the steps."""
NO_PRICE = "cost not estimated: it depends on how long the responses are"
STAND_IN = (
    "{}: its files are not read; the numbers are those of invented admissions of the expected number and length."
)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Adapted:
    """Results of an adaptation.

    Attributes:
        report: ``report.html``, next to ``report.md`` and ``report.json``.
        content: its tables.
        models: label -> folder or name of each model, in the order of the steps.
    """

    report: Path
    content: AuditContent
    models: Mapping[str, str]

    def view(self) -> ResultView:
        """The report's first tables, for the terminal."""
        from medunlearn.papers.memorization.report.claims import audit_view

        shown = audit_view(self.content)
        data = {"report": str(self.report), "models": dict(self.models), **shown.data}
        return replace(shown, data=data, blocks=(*shown.blocks, f"report: {self.report}"))


@dataclass(frozen=True)
class Adaptation:
    """A validated adaptation: its settings, its steps, and the training of each."""

    settings: AdaptationSettings
    steps: Mapping[str, AdaptationStep]
    trainings: Mapping[str, TrainSettings]

    def forecast(self, device: str = "auto") -> Forecast:
        """Prices of the trainings, each on the benchmark of its step; audits are listed without a price."""
        settings, named = self.settings, self.settings.device_name
        capacity = capacity_of(device, settings.out) if named is None else capacity_of_named(named, settings.out)
        stages, doubts, missing = list[PlannedStage](), dict[str, None](), list[str]()
        for name in self.steps:
            try:
                pricing = self._pricing(name, named is not None or is_gpu(device))
            except MedunlearnError as error:
                missing.append(f"steps.{name}: its cost is not known, since its benchmark cannot be read ({error})")
                stages.append(PlannedStage(f"train {name}", note="its price is not known"))
                continue
            doubts |= dict.fromkeys(pricing.doubts)
            if pricing.growth != 1.0:
                doubts[STAND_IN.format(name)] = None
            stages.append(training_stage(f"train {name}", pricing, self.trainings[name], None))
        stages += [PlannedStage(f"audit {name}", note=NO_PRICE) for name in (BASE, *self.steps)]
        guessed = settings.model not in TINIES and local_folder(settings.model) is None
        return Forecast(settings.name, tuple(stages), capacity, tuple(doubts), tuple(missing), guessed)

    def _pricing(self, name: str, on_gpu: bool) -> Pricing:
        """Prices of a step; with ``expected``, those of invented admissions of the expected length."""
        step, training = self.steps[name], self.trainings[name]
        folder = self._benchmark_folder(name)
        if not step.expected or (folder / MANIFEST).exists():
            return Pricing.of(open_section(step.benchmark, folder), training, on_gpu=on_gpu)
        expected = check(ExpectedSettings, step.expected)
        small = build_benchmark(find_paper("diagnosis"), {"synthetic": expected.synthetic}, None)
        pricing = Pricing.of(small, training, on_gpu=on_gpu)
        sizes = replace(pricing.sizes, benchmark=lengthen(small, expected, pricing.sizes.tokenizer.count))
        n_trained = sum(record.fold == "train" for record in small.records)
        return replace(pricing, sizes=sizes, growth=expected.patients / n_trained)

    def run(self, *, device: str = "auto", quiet: bool = False, say: Say = lambda line: None) -> Adapted:
        """Train and audit what is not done yet, and write the report.

        Raises:
            ConfigError: several processes (torchrun).
            InputError: another process writes to the folder; a benchmark or model that cannot be used.
            MedunlearnError: a stage failed; completed stages are kept, and the same call resumes.
        """
        if join().world > 1:
            raise ConfigError(["an adaptation runs in one process: call it without torchrun"])
        with lock_folder(self.settings.out, "run"):
            return self._run(device, quiet, say)

    def _run(self, device: str, quiet: bool, say: Say) -> Adapted:
        from medunlearn.audit.audit_run import audit
        from medunlearn.papers.memorization.compare import audit_content
        from medunlearn.papers.memorization.report import audit_report
        from medunlearn.reports.write import write_report

        settings = self.settings
        benchmarks = {
            name: from_section(step.benchmark, self._benchmark_folder(name)) for name, step in self.steps.items()
        }
        runs = self._train(benchmarks, device, quiet, say)
        models = {name: str(run if isinstance(run, str) else run.folder) for name, run in runs.items()}
        options = self._options(benchmarks)
        corpora = [f"{name}={benchmark.folder}" for name, benchmark in benchmarks.items()]
        folders, steps = [], list(benchmarks)
        for number, (name, model) in enumerate(models.items()):
            say(f"audit: {name}")
            made_of = [settings.audit, options, corpora, model_identity(model)]
            folder = settings.out / "audits" / f"{_plain(name)}-{sha256_of_json(made_of)[:8]}"
            how: dict[str, Any] = {"label": name, "device": device, "quiet": quiet, "seed": settings.seed}
            how |= {"unseen": tuple(steps[number:])}
            audit(model, corpora, out=folder, **how | settings.audit | options)
            folders.append(folder)
        relations = self._relations(runs, benchmarks, device, quiet, say)
        draws = {"replicates": settings.audit.get("replicates", 1000), "seed": settings.seed}
        content = audit_content(folders, relations, title=settings.name, show_text=settings.show_text, **draws)
        if "diagnosis" in relations:
            accuracy = _with_steps(content.tables["accuracy"], Path(relations["diagnosis"]), models)
            content = replace(content, tables={**content.tables, "accuracy": accuracy})
        page = write_report(audit_report(content), settings.out / "report")
        say(f"report: {page}")
        return Adapted(page, content, models)

    def _train(
        self, benchmarks: Mapping[str, Benchmark], device: str, quiet: bool, say: Say
    ) -> dict[str, Run | str]:
        """Every model by its label: first the one before adaptation, by its name unless it is tiny."""
        from medunlearn.study.train import train

        settings = self.settings
        runs: dict[str, Run | str] = {BASE: settings.model}
        if settings.model in TINIES:
            untrained = {"seed": settings.seed, **settings.tiny, "model": settings.model, "epochs": 0}
            first = next(iter(benchmarks.values()))
            how = train_settings(untrained)
            runs[BASE] = train(first, how, run_folder(first, how, "base", how.model, settings.out), quiet=quiet)
        for name, benchmark in benchmarks.items():
            before = list(runs.values())[-1]
            training = self.trainings[name].model_copy(
                update={"model": before if isinstance(before, str) else str(before.folder)}
            )
            say(f"training: {name}, on {benchmark.name}")
            out = run_folder(benchmark, training, name, training.model, settings.out)
            runs[name] = train(benchmark, training, out, device=device, quiet=quiet)
        return runs

    def _options(self, benchmarks: Mapping[str, Benchmark]) -> dict[str, Any]:
        """The part ``options`` of every audit; members and non-members are those of the step's benchmark."""
        for name, step in self.steps.items():
            if step.options is not None:
                own = {"file": str(step.benchmark.get("file")), "trained_on": str(benchmarks[name].folder)}
                return {"options": {"seed": self.settings.seed, **own, **step.options}}
        return {}

    def _relations(
        self,
        runs: Mapping[str, Run | str],
        benchmarks: Mapping[str, Benchmark],
        device: str,
        quiet: bool,
        say: Say,
    ) -> dict[str, Any]:
        """Each model beside the one before adaptation and the one before its step; epochs and diagnoses."""
        from medunlearn.papers.memorization.diagnosis.diagnose import diagnose
        from medunlearn.results.runs import Run

        labels = list(runs)
        relations: dict[str, Any] = {
            "baselines": {name: list(dict.fromkeys((BASE, before))) for before, name in pairwise(labels)},
            "persistence": [[before, after] for before, after in pairwise(labels[1:])],
            "trained": {name: labels[1 : place + 1] for place, name in enumerate(labels) if place},
            **self.settings.relations,
        }
        for before, name in pairwise(labels):
            run, earlier = runs[name], runs[before]
            assert isinstance(run, Run)
            if (run.folder / TABLE).exists():
                relations["epoch_table"] = str(run.folder / TABLE)
            if (asked := self.steps[name].diagnose) is not None:
                say(f"diagnoses: {name}")
                against = [earlier] if isinstance(earlier, Run) else []
                how = check(DiagnoseSettings, {"seed": self.settings.seed, **asked})
                answers = diagnose(run, benchmarks[name], how, against=against, device=device, quiet=quiet)
                relations["diagnosis"] = str(answers.record.folder)
        return relations

    def _benchmark_folder(self, name: str) -> Path:
        return self.settings.out / f"bench-{_plain(name)}-{sha256_of_json(self.steps[name].benchmark)[:8]}"


def plan(values: Mapping[str, Any]) -> Adaptation:
    """Validate an adaptation before anything runs. Raises ConfigError: every mistake in every section, at once."""
    settings = check(AdaptationSettings, dict(values))
    problems: list[str] = []
    steps, trainings = dict[str, AdaptationStep](), dict[str, TrainSettings]()
    # A key of a step may be dotted: `steps.instructed.train.lr`.
    for name, section in merge({}, settings.steps).items():
        values = merge({}, section) if isinstance(section, Mapping) else {}
        step = collect(problems, f"steps.{name}", lambda values=values: check(AdaptationStep, values))  # type: ignore[misc]
        if step is None:
            continue
        steps[name] = step
        training = collect(problems, f"steps.{name}.train", lambda step=step: _training(settings, step))  # type: ignore[misc]
        if training is not None:
            trainings[name] = training
        if step.diagnose is not None:
            collect(problems, f"steps.{name}.diagnose", lambda step=step: check(DiagnoseSettings, step.diagnose))  # type: ignore[misc]
    problems += _problems(settings, steps)
    if problems:
        raise ConfigError(problems)
    return Adaptation(settings, steps, trainings)


def _training(settings: AdaptationSettings, step: AdaptationStep) -> TrainSettings:
    """Settings of a step's training; its model stands for the one of the step before."""
    for key in ("model", "without"):
        if key in step.train:
            raise ConfigError([f"{key}: leave it out, a step trains the model of the step before on everything"])
    sizes = settings.tiny if settings.model in TINIES else {}
    return train_settings({"seed": settings.seed, **sizes, **step.train, "model": settings.model})


def _problems(settings: AdaptationSettings, steps: Mapping[str, AdaptationStep]) -> Iterator[str]:
    parts = {key: value for key, value in settings.audit.items() if key.split(".")[0] in AuditParts.model_fields}
    audit = {key: value for key, value in settings.audit.items() if key not in parts}
    checks: dict[str, Callable[[], object]] = {
        "audit": lambda: check(AuditSettings, audit),
        "relations": lambda: check(AuditRelations, settings.relations),
    }
    for where, own in checks.items():
        try:
            own()
        except ConfigError as error:
            yield from (f"{where}: {problem}" for problem in error.problems)
    yield from (
        f"relations.{key} follows from the steps: leave it out" for key in FOLLOWING if key in settings.relations
    )
    asked = [name for name, step in steps.items() if step.options is not None]
    if len(asked) > 1:
        yield f"steps {' and '.join(asked)} both have options, and an audit asks one file: leave one out"
    yield from (
        f"steps.{name}.options: its benchmark names no file of questions (benchmark.file)"
        for name in asked
        if "file" not in steps[name].benchmark
    )
    if BASE in steps:
        yield f"steps: {BASE!r} is the label of the model before the first step; choose another name"


def _with_steps(accuracy: pd.DataFrame, diagnosis: Path, models: Mapping[str, str]) -> pd.DataFrame:
    """Accuracies with the steps' names in place of the labels that a result of diagnoses gives to runs."""
    from medunlearn.results.runs import Run

    info, names = Run.open(diagnosis).info, {folder: name for name, folder in models.items()}
    labels = zip(info["results"]["models"], info["lineage"], strict=True)
    return accuracy.replace({"model": {label: names.get(folder, label) for label, folder in labels}})


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
