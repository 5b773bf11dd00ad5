"""Jobs of judges, from what a user names: a benchmark, a table, an evaluated run, or a record of attacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medunlearn.attacks.attacked import all_families
from medunlearn.config import JudgeSettings, check
from medunlearn.config.reading import without_prefix
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import InputError
from medunlearn.judging.judges import Judge, judges_of
from medunlearn.judging.panel_run import gather_material
from medunlearn.judging.rated_responses import TASK, JudgedResponses, JudgingJob, responses_job, responses_of
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import FILE, Run


def job_of(
    what: Any, llm: Any, model: str | None, task: str | None, benchmark: Any, out: Any, **settings: Any
) -> JudgingJob:
    """:func:`job` from command-line flags; ``llm.KEY`` in the settings sets a key for every judge's server."""
    server = without_prefix("llm.", settings)
    judges = judges_of(llm, server.pop("model", model), server)
    return job(what, judges, check(JudgeSettings, settings), task, benchmark, out)


def job(
    what: Run | Benchmark | Path | str,
    judges: Sequence[Judge],
    settings: JudgeSettings,
    task: str | None = None,
    benchmark: Benchmark | Path | None = None,
    out: Path | str | None = None,
) -> JudgingJob:
    """Read and check the inputs named by the user.

    Raises:
        InputError: it is not a benchmark, run or table, or its options are missing or excess.
    """
    source = _open(Path(what)) if isinstance(what, str | Path) else what
    if isinstance(source, Run):
        if task not in (None, TASK) or out is not None:
            raise InputError(
                "A run's responses are judged by the task factuality, and the result is written into the run's "
                "folder. Leave out --task and --out."
            )
        if benchmark is None:
            raise InputError("Judging responses needs the reference answers: --benchmark FOLDER.")
        loaded = benchmark if isinstance(benchmark, Benchmark) else Benchmark.load(benchmark)
        return responses_job(_responses_of(source, loaded, settings), judges, settings)
    if benchmark is not None or settings.split is not None:
        raise InputError("--benchmark and --split are only for judging the responses of a run; this is not a run.")
    if task is None or out is None:
        raise InputError(
            "Judging a benchmark or a table needs --task (label, question, document, factuality) and --out."
        )
    return JudgingJob(gather_material(source, task, settings), judges, Path(out))


def _responses_of(run: Run, benchmark: Benchmark, settings: JudgeSettings) -> JudgedResponses:
    if run.info.verb != "attack":
        return responses_of(Evaluated.find(run, settings.split, settings.probes), benchmark, settings)
    if settings.probes is not None:
        raise InputError(
            f"{run.folder} holds attacks: --probes names the evaluation of a run, or questions of a benchmark. "
            "Leave it out, or attack with --probes."
        )
    for family in all_families([run]):
        if family.has_answers(run):
            return family.answers(run, benchmark, settings)
    raise InputError(f"{run.folder} holds no attack with answers (reconstruction), so there is nothing to judge.")


def _open(where: Path) -> Run | Benchmark | Path:
    if not where.is_dir():
        return where
    return Run.open(where) if (where / FILE).exists() else Benchmark.load(where)
