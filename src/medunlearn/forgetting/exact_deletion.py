"""Exact deletion: a model that our own training made is made again as if the patients had never been there.

| the request names | road | model that comes out |
|---|---|---|
| some of those whom the model was trained on | retrained without her | the same training without their records |
| all of them, and the model is an adapter over a base | adapter dropped | the base |

Either is done twice, from the files, and the fingerprints of both models are kept: equal ones are the proof.

A training without them makes as many passes over what is left (``retrained_length: epochs``). By default a
retrained model takes the target's steps, for comparisons; but their number depends on the patients' records.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from medunlearn.cases.evidence import ExactDeletion
from medunlearn.config import TINIES, AdoptSettings, TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.forgetting.unseen_base import left_out_of, never_saw, refuse_fitted_tokenizer
from medunlearn.models.folders import RECORD, model_identity
from medunlearn.pipeline.adopt import Adoption
from medunlearn.pipeline.material import training_data
from medunlearn.pipeline.train import train
from medunlearn.progress import remark
from medunlearn.registry import load
from medunlearn.results.runs import Run, RunRecord
from medunlearn.training.processes import join

Road = Literal["adapter dropped", "retrained without her"]
BaseLineage = Literal["made in memory", "recorded", "stated"]
EXACT = "exact_deletion"
"""Key in the results of ``run.json``."""
AGAIN = "-again"
"""End of the name of the second folder, which is removed when its model is the same."""
VALIDATION = "medunlearn.papers.memorization.diagnosis.measures:held_out"


@dataclass(frozen=True)
class ExactPlan:
    """Exact deletion of a split's forget set, before anything is computed.

    Attributes:
        benchmark: that the model was trained on.
        lineage: how it is known that the base never saw the patients.
        making: settings of the training without them; or the base as a run, where an adapter is dropped.
    """

    benchmark: Benchmark
    lineage: BaseLineage
    making: TrainSettings | Adoption

    @property
    def road(self) -> Road:
        return "adapter dropped" if isinstance(self.making, Adoption) else "retrained without her"

    def carry_out(self, out: Path, *, device: str = "auto", quiet: bool = False) -> tuple[Run, ExactDeletion]:
        """Make the model without them, twice.

        Resumes; a complete deletion is returned as it is. The second run stands beside ``out`` meanwhile, and stays
        there if its model is another one.

        Args:
            out: folder of the run that comes out.

        Raises:
            Errors: as of :func:`medunlearn.pipeline.train.train`.
        """
        how: dict[str, Any] = {"device": device, "quiet": quiet}

        def make(folder: Path) -> Run:
            making = self.making
            if isinstance(making, Adoption):
                return join().on_main(lambda: making.run(folder, **how))
            return train(self.benchmark, making, folder, **how)

        return _twice(make, out, self.road, self.lineage, quiet=quiet)


def plan_exactly(
    run: Run, benchmark: Benchmark, split: str, *, base_unseen: bool = False, quiet: bool = False
) -> ExactPlan:
    """Plan to make the model of a training run again without a split's forget set.

    Args:
        run: of verb ``train``.
        benchmark: that it was trained on (:func:`training_benchmark`).
        split: of the benchmark, or ``level=node,node``.
        base_unseen: the model's owner states that the base never saw the patients; for a base of which nobody
            recorded it.

    Raises:
        InputError: the model is no training run; it was trained on other texts, or never saw the patients; its base
            saw them, has changed or is missing; its tokenizer is fitted on their texts.
    """
    settings = _training_of(run)
    run.refuse_other_texts(benchmark.texts_fingerprint, benchmark.fingerprint)
    forget = frozenset(record.record_id for record in benchmark.records_of(benchmark.split(split), "forget"))
    left_out = left_out_of(run, benchmark)
    trained = _trained_on(benchmark, settings)
    if not trained & forget:
        raise InputError(f"The model in {run.folder} was never trained on the patients of this request.")
    lineage = _base_lineage(run, settings, benchmark, forget, stated=base_unseen)
    if trained <= forget:
        return ExactPlan(benchmark, lineage, _adoption_of_base(run, settings, benchmark, split, quiet=quiet))
    if settings.model in TINIES:
        refuse_fitted_tokenizer(run)
    _refuse_selection(settings, benchmark, forget)
    again = _without_them(run, settings, united(benchmark, split, forget | left_out, settings.without))
    return ExactPlan(benchmark, lineage, again)


def delete_exactly(
    run: Run,
    benchmark: Benchmark,
    split: str,
    out: Path,
    *,
    base_unseen: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> tuple[Run, ExactDeletion]:
    """Plan (:func:`plan_exactly`) and carry out (:meth:`ExactPlan.carry_out`) an exact deletion. Resumes."""
    plan = plan_exactly(run, benchmark, split, base_unseen=base_unseen, quiet=quiet)
    return plan.carry_out(out, device=device, quiet=quiet)


def training_benchmark(run: Run) -> Benchmark:
    """The benchmark that a run was trained on, from where the run recorded it.

    Raises:
        InputError: it is not there, or another one now.
    """
    where = run.info.results.get("benchmark_folder")
    if where is None or not Path(where).is_dir():
        raise InputError(
            f"The benchmark that {run.folder} was trained on is not at {where}. Move it back: an exact deletion "
            "trains on it again."
        )
    benchmark = Benchmark.load(where)
    run.refuse_other_texts(benchmark.texts_fingerprint, benchmark.fingerprint)
    return benchmark


def _training_of(run: Run) -> TrainSettings:
    """The settings that a run was trained with.

    Raises:
        InputError: its model was not made by our training.
    """
    instead = "Unlearn it with a method instead (`medunlearn list methods`)."
    if run.info.verb == "adopt":
        raise InputError(
            f"{run.folder} was adopted: nobody recorded its training, so it cannot be repeated without the "
            f"patients. {instead}"
        )
    if run.info.verb == "unlearn":
        origin = run.info.lineage[-1] if run.info.lineage else "the run that it was made from"
        raise InputError(
            f"{run.folder} was unlearned, which no training without the patients gives. Name the run that was "
            f"trained ({origin}), and all patients who asked so far."
        )
    if run.info.verb != "train" or run.info.epoch is not None:
        raise InputError(f"{run.folder} is no run of `medunlearn train`, so there is no training to repeat.")
    try:
        return check(TrainSettings, run.info.config)
    except ConfigError as error:
        raise InputError(
            f"The settings in {run.folder / RECORD} are not those of this version's training: {error} {instead}"
        ) from error


def _trained_on(benchmark: Benchmark, settings: TrainSettings) -> frozenset[str]:
    """Ids of the records whose text or questions a training sees."""
    records, questions = training_data(benchmark, settings.without, "both")
    return frozenset([*(one.record_id for one in records), *(one.record_id for one in questions)])


def _base_lineage(
    run: Run, settings: TrainSettings, benchmark: Benchmark, forget: frozenset[str], *, stated: bool
) -> BaseLineage:
    """The reason for which the base is known never to have seen some records.

    Raises:
        InputError: it saw them; nobody knows; it is missing, or another model than it was.
    """
    base = settings.model
    if base in TINIES:
        return "made in memory"
    if not Path(base).is_dir() and run.info.inputs["model"] != base:  # a hub id stands for itself
        raise InputError(
            f"The base of {run.folder} is not at {base}. Move it back, or give the command in the folder that the "
            "training was started in."
        )
    if model_identity(base) != run.info.inputs["model"]:
        raise InputError(
            f"The base {base} is not the model any more that {run.folder} was trained from. Put that one back."
        )
    if never_saw(base, benchmark, forget):
        return "recorded"
    if not stated:
        raise InputError(
            f"Nobody recorded what the base {base} was trained on, so it may have seen the patients itself. If you "
            "know that it has not (it was made before their notes, or without them), state it: --base-unseen "
            "(base_unseen=True). The case says that you did."
        )
    return "stated"


def _adoption_of_base(
    run: Run, settings: TrainSettings, benchmark: Benchmark, split: str, *, quiet: bool
) -> Adoption:
    """The base of an adapter, as a run that is asked as the adapter's was.

    Raises:
        InputError: the model is no adapter, or its base is no folder.
    """
    nobody = f"{run.folder} was trained on the patients of this request alone"
    if not settings.trainable.startswith("lora"):
        raise InputError(
            f"{nobody}, and not as an adapter (trainable: {settings.trainable}): without them nothing is left of "
            f"its training. Use its base, {settings.model}."
        )
    if settings.model in TINIES:
        raise InputError(
            f"{nobody}, and its base was made in memory: without them nothing is left of it. Delete the run."
        )
    rendering = run.rendering()
    values: dict[str, Any] = {
        "role": "retrained",
        "without": split,
        "template": rendering.template,
        "context": rendering.context,
        "long_notes": rendering.long_notes,
        "images": rendering.images,
        "max_length": max(settings.max_length, AdoptSettings.model_fields["max_length"].default),
        "weights": settings.weights,
        # It need not be any good at texts that it never saw.
        "allow_broken": True,
    }
    adopted = check(AdoptSettings, values)
    if (Path(settings.model) / RECORD).exists():
        return Adoption.of_run(Run.open(settings.model), benchmark, adopted)
    return Adoption.of(settings.model, benchmark, adopted, quiet=quiet)


def _refuse_selection(settings: TrainSettings, benchmark: Benchmark, forget: frozenset[str]) -> None:
    """Refuse a training that chooses its epoch by a loss on the patients' own records.

    Raises:
        InputError: it does.
    """
    if settings.validation is None or not (settings.select == "best" or settings.stop_early):
        return
    records, questions = load(VALIDATION)(benchmark, settings.validation)
    if forget & {one.record_id for one in (*records, *questions)}:
        raise InputError(
            "The epoch of this model was chosen by its loss on a validation set that holds records of the patients "
            "of this request: it would be chosen by them again. Train with --validation without them, or with "
            "--select last."
        )


def united(benchmark: Benchmark, split: str, records: frozenset[str], before: str | None) -> str:
    """A split of the benchmark that forgets some records: the request's own, or one of nodes of one level.

    Args:
        split: of the request.
        records: of the request, and those that the training left out before.
        before: split that it left out before; None: none.

    Raises:
        InputError: the records are not all records of some nodes.
    """
    if before is None:
        return split
    hierarchy, ways = benchmark.hierarchy, []
    for level in hierarchy.groups():
        nodes = [node for node in hierarchy.nodes(level) if hierarchy.closure(level, [node]) <= records]
        can_be_written = not any("," in node or node != node.strip() for node in nodes)
        if nodes and can_be_written and hierarchy.closure(level, nodes) == records:
            ways.append((len(nodes), f"{level}={','.join(nodes)}"))
    if ways:
        return min(ways)[1]
    raise InputError(
        "The records that the training left out and those of the request are together no nodes of one level, so no "
        "split leaves out both. Ask for whole nodes of the level that --without named."
    )


def _without_them(run: Run, settings: TrainSettings, without: str) -> TrainSettings:
    """The same settings without the forget set, and the passes over the data that the training made."""
    changes: dict[str, Any] = {"without": without, "retrained_length": "epochs"}
    if settings.without is not None and settings.retrained_length == "steps":
        passes = run.info.results["trained_epochs"]
        changes |= {"pretrain_epochs": passes.get("pretrain", 0), "epochs": passes.get("finetune", 0)}
    return settings.model_copy(update=changes)


def _twice(
    make: Callable[[Path], Run], out: Path, road: Road, lineage: BaseLineage, *, quiet: bool
) -> tuple[Run, ExactDeletion]:
    """Make the model in two folders; the fingerprint of the second is written into the first one's record."""
    first = make(out)
    known = first.info.results.get(EXACT)
    if known is not None:
        return first, ExactDeletion(**known)
    folder = out.with_name(f"{out.name}{AGAIN}")
    second = make(folder)

    def conclude() -> Run:
        exact = ExactDeletion(road=road, reproduced=second.fingerprint, base=lineage)
        record = RunRecord.read(out)
        record.results[EXACT] = exact.model_dump()
        record.write(out)
        if exact.reproduced == first.fingerprint:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            remark(
                f"training without the patients gave another model the second time ({folder}): this is no exact "
                "deletion",
                quiet=quiet,
            )
        return Run(out, record)

    done = join().on_main(conclude)
    return done, ExactDeletion(**done.info.results[EXACT])
