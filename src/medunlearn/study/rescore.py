"""Rescore what a folder holds: an evaluation's responses, or an audit's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError
from medunlearn.results.runs import Run

if TYPE_CHECKING:
    from medunlearn.audit.audit_result import Audit
    from medunlearn.results.evaluated import Evaluated

AUDIT = "audit"


def score(
    run: Run | Path | str,
    *,
    measures: str | Sequence[str] = (),
    split: str | None = None,
    benchmark: Benchmark | Path | str | None = None,
    allow_broken: bool = False,
    device: str = "auto",
) -> Evaluated | Audit:
    """Rescore the stored responses of a run's evaluation, or of an audit, without asking a model.

    Rows of these measures are replaced, others stay. Summaries are updated.

    Args:
        run: a run folder, or the folder of an audit
        split: the evaluation's split; needed only if there are several
        measures: names from `medunlearn list measures`, or default; a measure of your own by its path, or, once
            scored, by its name; none for those of the evaluation or audit
        benchmark: the benchmark or its folder; None for the folder that the evaluation recorded
        allow_broken: show scores even if the answers are all empty or equal; they get no verdict

    Raises:
        InputError: the run was not evaluated, the benchmark is missing or another one, or responses are missing.
        UnknownNameError: no such measure.
        ConfigError: a measure that needs what the stored responses do not give.
        ModelError: a broken model, unless ``allow_broken``.
    """
    texts = [measures] if isinstance(measures, str) else measures
    requested = [name for text in texts for word in text.split(",") if (name := word.strip())]
    opened = Run.of(run)
    if opened.info.verb != AUDIT:
        from medunlearn.probes.score import score_evaluation

        how = {"split": split, "benchmark": benchmark, "allow_broken": allow_broken, "device": device}
        return score_evaluation(opened, requested, **how)  # type: ignore[arg-type]
    from medunlearn.audit.rescoring import score_audit

    of_evaluations = {"split": split, "benchmark": benchmark}
    if given := [name for name, value in of_evaluations.items() if value is not None]:
        raise ConfigError([f"{name}: an audit has none; leave it out" for name in given])
    return score_audit(opened.folder, requested, allow_broken=allow_broken)
