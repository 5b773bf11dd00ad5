"""Judge stage of a sweep or an experiment, for the benchmark's labels and questions and every model's responses.

The section ``judge`` names the servers (``llm``) and the tasks, each with settings of `judge`::

    judge:
      llm: http://127.0.0.1:8000/v1
      llm.model: qwen3-32b
      question: {limit: 500}     # of the benchmark
      factuality: {}             # of every evaluation run, and of every reconstruction attack

``llm: rehearsal`` is for trial runs: verdicts are drawn at random (:mod:`medunlearn.judging.rehearsal`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.config import JudgeSettings, check
from medunlearn.config.reading import without_prefix
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, MedunlearnError, unknown_name
from medunlearn.results.runs import FILE, Run, RunRecord

if TYPE_CHECKING:
    # Judges, servers and attacks are loaded where a file has the section; a training run needs none of them.
    from medunlearn.judging.judges import Judge
    from medunlearn.judging.panel_run import JudgingRun
    from medunlearn.results.evaluated import Evaluated

TASK = "factuality"
TASKS = ("label", "question", "document", TASK)
FOLDER = "judged"
"""Below the folder of a sweep or an experiment: verdicts on its benchmark, by task."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class JudgeStage:
    """The judges, and their settings by task; ``permitted``: protected data may go to a remote server."""

    judges: tuple[Judge, ...]
    tasks: Mapping[str, JudgeSettings]
    permitted: bool = False

    def why_not(self, benchmark: Benchmark) -> list[str]:
        """Reasons why judges may not get a benchmark's data, checked before anything trains."""
        from medunlearn.llm.guard import decide

        data: dict[str, Any] = {"data_use": benchmark.data_use, "records": benchmark.records}
        servers = sorted({judge.settings.base_url for judge in self.judges})
        decisions = (decide(url, permitted=self.permitted, **data) for url in servers)
        return [
            f"judge: {decision.reason} In a file the permission is allow_remote_llm: true in the section judge."
            for decision in decisions
            if not decision.allowed
        ]


def judge_section(section: Mapping[str, Any], defaults: Mapping[str, Any]) -> JudgeStage | None:
    """The section's judges and tasks; None for an empty section.

    Args:
        defaults: settings of every task, such as the seed.

    Raises:
        ConfigError: every mistake.
    """
    if not section:
        return None
    from medunlearn.judging.judges import judges_of

    values = dict(section)
    server = without_prefix("llm.", values)
    permitted, llm = values.pop("allow_remote_llm", False), values.pop("llm", None)
    own = {name: dict(values.pop(name) or {}) for name in TASKS if isinstance(values.get(name, ""), Mapping | None)}
    for name in TASKS:
        if below := without_prefix(f"{name}.", values):
            own[name] = {**own.get(name, {}), **below}
    problems = [unknown_name("setting", key, ("llm", "allow_remote_llm", *TASKS)) for key in values]
    if not isinstance(permitted, bool):
        problems.append(f"allow_remote_llm={permitted!r}: must be true or false")
    if not own and not values:
        problems.append(f"it names no task: {', '.join(TASKS)}, each with settings, such as {TASK}: {{}}")
    judges: list[Judge] = []
    if llm is None:
        problems.append("llm is missing: a server's address (and llm.model), a YAML file, or a list of judges")
    else:
        try:
            judges = judges_of(llm, server.pop("model", None), server)
        except ConfigError as error:
            problems += error.problems
        except MedunlearnError as error:
            problems.append(str(error))
    tasks: dict[str, JudgeSettings] = {}
    for name, settings in own.items():
        try:
            tasks[name] = check(JudgeSettings, {**defaults, **settings})
        except ConfigError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
    if problems:
        raise ConfigError(problems)
    return JudgeStage(tuple(judges), tasks, permitted)


def judge_all(
    stage: JudgeStage,
    benchmark: Benchmark,
    out: Path,
    evaluated: Sequence[Evaluated],
    attacks: Sequence[Run] = (),
    *,
    quiet: bool = False,
    say: Say = lambda line: None,
) -> list[tuple[str, str]]:
    """Run pending judge tasks; returns name and reason of failures.

    Ratings of responses go into the scores of their evaluations and attacks, verdicts on the benchmark to
    ``out/judged/TASK``. A failing server does not affect other judgements; the same call resumes.

    Args:
        attacks: records of attacks; those without responses are skipped.
    """
    failed: list[tuple[str, str]] = []
    for name, work in _jobs(stage, benchmark, out, evaluated, attacks):
        say(f"judging: {name}")
        try:
            work().run(permitted=stage.permitted, quiet=quiet)
        except MedunlearnError as error:
            failed.append((f"judge {name}", str(error)))
            say(f"judge {name}: failed: {error}")
    return failed


def _jobs(
    stage: JudgeStage,
    benchmark: Benchmark,
    out: Path,
    evaluated: Sequence[Evaluated],
    attacks: Sequence[Run],
) -> Iterator[tuple[str, Callable[[], Any]]]:
    from medunlearn.attacks.attacked import all_families
    from medunlearn.judging.rated_responses import responses_job, responses_of
    from medunlearn.study.judging_jobs import job

    judges = stage.judges
    for task, settings in stage.tasks.items():
        if task != TASK:
            yield (
                f"{task}s of the benchmark",
                lambda: job(benchmark, judges, settings, task, out=out / FOLDER / task),  # noqa: B023
            )
            continue
        for model in evaluated:
            of_split = settings.model_copy(update={"split": model.record.info.split})
            yield (
                f"responses of {model.run.folder.name} on {model.record.folder.name}",
                lambda: responses_job(responses_of(model, benchmark, of_split), judges, of_split),  # noqa: B023
            )
        for attack in attacks:
            for family in all_families([attack]):
                if family.has_answers(attack):
                    yield (
                        f"answers to the attack {attack.folder.name}",
                        lambda: responses_job(family.answers(attack, benchmark, settings), judges, settings),  # noqa: B023
                    )


def judged_runs(folder: Path) -> list[JudgingRun]:
    """Complete judging runs on the benchmark in the folder of a sweep or an experiment."""
    from medunlearn.judging.panel_run import JudgingRun

    folders = sorted(path.parent for path in (folder / FOLDER).glob(f"*/{FILE}"))
    return [JudgingRun(Run.open(path)) for path in folders if RunRecord.read(path).complete]
