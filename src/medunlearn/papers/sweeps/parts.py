"""The parts of a sweep: the models of each split, training seed and context, as a report of runs shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from medunlearn.data.benchmark import Benchmark
from medunlearn.papers.sweeps.models import SweepModels, shown_splits
from medunlearn.papers.sweeps.results import SweepRequest
from medunlearn.reports.formatting import context_text
from medunlearn.reports.unlearning import SweepPart
from medunlearn.results.evaluated import Evaluated
from medunlearn.study.report.gather import gather, made_for_this


def sweep_parts(models: Sequence[Evaluated], benchmark: Benchmark, request: SweepRequest) -> Iterator[SweepPart]:
    """Evaluations of models on another split than their own are left out.

    Raises:
        InputError: see :class:`~medunlearn.papers.sweeps.models.SweepModels`.
    """
    swept = SweepModels([model for model in models if made_for_this(model)], benchmark)
    labels = shown_splits(swept.splits)
    how = {name: getattr(request, name) for name in ("show_text", "replicates", "seed")}
    for context in swept.contexts:
        for split in swept.splits:
            by_seed: dict[int, list[Evaluated]] = defaultdict(list)
            for seeds in swept.of(context, split).values():
                for seed, model in seeds.items():
                    by_seed[seed].append(model)
            place = ", ".join([labels[split], *([context_text(context)] if len(swept.contexts) > 1 else [])])
            for seed, own in sorted(by_seed.items()):
                title = f"{place}, seed {seed}" if len(swept.seeds) > 1 else place
                yield SweepPart(title, gather(title, own, benchmark, **how), place, seed)
