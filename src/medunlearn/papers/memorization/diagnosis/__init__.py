"""Diagnosis from admissions: the use case of the memorization paper (Section 4.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.paper import Build, Paper
from medunlearn.verb import Verb

if TYPE_CHECKING:
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.papers.memorization.diagnosis.report import Diagnosed
    from medunlearn.results.runs import Run

_HERE = __name__
PAPER = Paper(
    name="diagnosis",
    title="Disease diagnosis from an admission: history and laboratory results in, a list of diagnoses out.",
    package=_HERE,
    summary="Build a diagnosis benchmark: history and laboratory results in, diagnoses out; parts by patient.",
    example="--synthetic 200 --out bench/; of your own: medunlearn build diagnosis ADMISSIONS.csv --out bench/ "
    "--test 1000",
    first="synthetic out validation test percents",
    argument="admissions",
    builds=(Build(settings=f"{_HERE}.settings:DiagnosisSettings", make=f"{_HERE}.build:build"),),
    measures=("top_1", "top_2", "top_3", "rouge_l", "em", "te", "token_f1", "answer_probability"),
    own_measures={f"top_{k}": f"{_HERE}.top_k:TOP_{k}" for k in (1, 2, 3)},
    sources={"admissions": ("ADMISSIONS", f"{_HERE}.admissions")},
    verbs=(
        Verb(
            "audit diagnosis",
            "Top-k diagnostic accuracy of a model, overall and by specialty, with a report.",
            "runs/diagnosis bench/ --against runs/base",
            "against part k gold out",
            "medunlearn.config:DiagnoseSettings",
            "Without --against, a run that was watched (watch.part) is compared with the model before its "
            "training.",
            f"{_HERE}:diagnose_run",
        ),
    ),
    calls={"diagnose": f"{_HERE}:diagnose_run"},
    watch=f"{_HERE}.measures:WATCH",
)


def diagnose_run(
    run: Run | Path | str, benchmark: Benchmark | Path | str, *, against: Sequence[Run | Path | str] = (),
    out: Path | str | None = None, device: str = "auto", quiet: bool = False,
    say: Callable[[str], None] = lambda line: None, **settings: Any
) -> Diagnosed:  # fmt: skip
    """Top-k diagnostic accuracy overall and by specialty; ``.table()`` is a DataFrame.

    Args:
        benchmark: folder of a diagnosis benchmark
        against: run to compare with; repeatable; none: the model before its training, if `watch.part` asked it
        out: folder of tables and report; none: in the run
    """
    from medunlearn.config import DiagnoseSettings, check
    from medunlearn.data.benchmark import Benchmark
    from medunlearn.papers.memorization.diagnosis.diagnose import diagnose
    from medunlearn.results.runs import Run

    checked, where = check(DiagnoseSettings, settings), None if out is None else Path(out)
    bench = Benchmark.load(benchmark) if isinstance(benchmark, Path | str) else benchmark
    others = [Run.of(other) for other in against]
    return diagnose(Run.of(run), bench, checked, against=others, out=where, device=device, quiet=quiet, say=say)
