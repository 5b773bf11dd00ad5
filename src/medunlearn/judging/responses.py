"""From what a user names to what is judged: a benchmark, an evaluated run, or a table; one server, or a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.attacks.reconstruction.judged import attacked_run, judge_reconstruction, reconstruction_material
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.judging.judged import Judged
from medunlearn.judging.judges import Judge, JudgeSettings, panel_of, read_judges
from medunlearn.judging.rate_factuality import judge_responses, responses_material, store_of
from medunlearn.judging.run import Material, Plan, judge, material, plan
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import FILE, Run

Llm = str | Path | Sequence[Mapping[str, Any]]


def judges_of(llm: Llm, model: str | None = None, overrides: Mapping[str, Any] | None = None) -> list[Judge]:
    """Judges from an address and a model, from a YAML file, or from a list of settings.

    Raises:
        ConfigError: an address without a model, a file with one, and whatever is wrong with the settings.
    """
    if isinstance(llm, str) and llm.startswith(("http://", "https://")):
        if model is None:
            raise ConfigError(["--llm-model is missing: the model to ask at --llm"])
        return panel_of([{"base_url": llm, "model": model}], overrides)
    if model is not None:
        raise ConfigError(["--llm-model goes with an address (--llm http://...); a YAML file names its models"])
    return read_judges(Path(llm), overrides) if isinstance(llm, str | Path) else panel_of(llm, overrides)


@dataclass(frozen=True)
class Job:
    """Something to judge, by somebody, into some place.

    Attributes:
        source: an evaluated run, a reconstruction attack's own, a benchmark, or a table's path.
        benchmark: of a run.
        out: of the result; of a run None, since it goes into the run's folder.
    """

    source: Run | Benchmark | Path
    judges: Sequence[Judge]
    settings: JudgeSettings
    task: str
    benchmark: Benchmark | None
    out: Path | None

    def plan(self, *, permitted: bool = False) -> Plan:
        """What would be sent, and what that would cost; sends and writes nothing."""
        if isinstance(self.source, Run):
            assert self.benchmark is not None
            if self.source.info["verb"] == "attack":
                what = reconstruction_material(self.source, self.benchmark, self.settings)
                store = store_of(attacked_run(self.source).run)
                return plan(what, self.judges, store, permitted=permitted)
            what = responses_material(
                Evaluated.find(self.source, self.settings.split), self.benchmark, self.settings
            )
            return plan(what, self.judges, store_of(self.source), permitted=permitted)
        return plan(self._material(), self.judges, self._folder() / "llm", permitted=permitted)

    def run(
        self, *, permitted: bool = False, again: bool = False, allow_missing: bool = False, quiet: bool = False
    ) -> Judged:
        """Judge; see :func:`medunlearn.judging.run.judge`."""
        how: dict[str, Any] = {
            "permitted": permitted,
            "again": again,
            "allow_missing": allow_missing,
            "quiet": quiet,
        }
        if isinstance(self.source, Run):
            assert self.benchmark is not None
            if self.source.info["verb"] == "attack":
                return judge_reconstruction(self.source, self.benchmark, self.judges, self.settings, **how)
            return judge_responses(self.source, self.benchmark, self.judges, self.settings, **how)[0]
        return judge(self._material(), self.judges, self._folder(), **how)

    def _material(self) -> Material:
        assert not isinstance(self.source, Run)
        return material(self.source, self.task, self.settings)

    def _folder(self) -> Path:
        assert self.out is not None
        return self.out


def job(
    what: Run | Benchmark | Path | str,
    judges: Sequence[Judge],
    settings: JudgeSettings,
    task: str | None = None,
    benchmark: Benchmark | Path | None = None,
    out: Path | str | None = None,
) -> Job:
    """What a user named, read and checked.

    Raises:
        InputError: it is none of the three, or something that goes with it is missing or too much.
    """
    source = _source(Path(what)) if isinstance(what, str | Path) else what
    if isinstance(source, Run):
        if task not in (None, "factuality") or out is not None:
            raise InputError(
                "Of a run its responses are judged (task factuality), into the run's folder: no --out."
            )
        if benchmark is None:
            raise InputError("Judging responses needs the reference answers: --benchmark FOLDER.")
        loaded = benchmark if isinstance(benchmark, Benchmark) else Benchmark.load(benchmark)
        return Job(source, judges, settings, "factuality", loaded, None)
    if benchmark is not None or settings.split is not None:
        raise InputError("--benchmark and split go with a run whose responses are judged, not with this.")
    if task is None or out is None:
        raise InputError(
            "Judging a benchmark or a table needs --task (label, question, document, factuality) and --out."
        )
    return Job(source, judges, settings, task, None, Path(out))


def _source(where: Path) -> Run | Benchmark | Path:
    if not where.is_dir():
        return where
    return Run.open(where) if (where / FILE).exists() else Benchmark.load(where)
