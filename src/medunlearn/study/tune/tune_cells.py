"""Cells of a tuning: models, evaluations on either half of the subjects, and each method's trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from medunlearn.study.sweep.cells import SweepCell

Half = Literal["choosing", "reporting"]
HALVES: tuple[Half, ...] = get_args(Half)
Setting = Literal["", "untuned", "best"]


@dataclass
class TuneCell(SweepCell):
    """One cell of a tuning: a model, an evaluation, or a method's trials.

    Attributes:
        setting: for an unlearned model: ``untuned`` or ``best`` settings of the method.
        half: for an evaluation: its half of the subjects.
        place: for an evaluation on the choosing half: index of its settings in :attr:`Tuning.measures`.
    """

    setting: Setting = ""
    half: Half | None = None
    place: int = 0

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"setting": self.setting, "half": self.half}


def make_cells(
    methods: Sequence[str], seeds: Sequence[int], split: str, *, retrain: bool, measures: int
) -> Iterator[TuneCell]:
    """Every cell, after its dependencies.

    Args:
        seeds: training seeds; trials use the first one.
        measures: number of evaluation settings of trials.
    """
    first = seeds[0]
    roles: tuple[Literal["target", "retrained"], ...] = ("target", "retrained") if retrain else ("target",)
    for seed in seeds:
        end, names_of = f", seed {seed}" if len(seeds) > 1 else "", dict[str, str]()
        for role in roles:
            names_of[role] = f"{role}{end}"
            yield TuneCell(f"{role}{end}", role, seed, split if role == "retrained" else None)
        if seed == first:
            choosing = []
            for role in roles:
                for place in range(measures):
                    name = f"evaluate {role} on the choosing half{end}" + (f" ({place + 1})" if place else "")
                    choosing.append(name)
                    yield replace(_job_of(name, seed, (names_of[role],), "choosing"), place=place)
            for method in methods:
                needs = (names_of["target"], *choosing, *names_of.values())
                yield TuneCell(f"tune {method}", "tune", seed, split, method, needs=tuple(dict.fromkeys(needs)))
        for role in roles:
            yield _job_of(f"evaluate {role}{end}", seed, (names_of[role],), "reporting")
        for method in methods:
            model = ""
            for setting in ("untuned", "best"):
                # The first seed's models are those of the trials.
                needs = (f"tune {method}",) if seed == first or setting == "best" else ()
                before, model = model, f"{method} {setting}{end}"
                if seed != first:
                    yield TuneCell(
                        model, "unlearn", seed, split, method,
                        needs=(*dict.fromkeys(names_of.values()), *needs), after=(before,) if before else (),
                        setting=setting,
                    )  # fmt: skip
                    needs = (model,)
                after = (f"evaluate {before}",) if before else ()
                yield _job_of(f"evaluate {model}", seed, needs, "reporting", method, setting, after)


def _job_of(
    name: str,
    seed: int,
    needs: tuple[str, ...],
    half: Half,
    method: str | None = None,
    setting: Setting = "",
    after: tuple[str, ...] = (),
) -> TuneCell:
    # Evaluations of one model write to one store of responses.
    alone = f"{method or needs[0]}, seed {seed}"
    return TuneCell(
        name, "evaluate", seed, None, method, needs=needs, after=after, alone=alone, setting=setting, half=half
    )
