"""Exact deletion: remake a model from our own training without the patients' records.

| the request names | method | resulting model |
|---|---|---|
| some of the patients that the model was trained on | retrained without her | the same training without their
records | | all of them, and the model is an adapter on a base | adapter dropped | the base |

Both are done twice, from the files, and the fingerprints of the two models are recorded: equal ones are the proof.

Retraining makes as many passes over the remaining records (``retrained_length: epochs``). By default a
retrained model takes the target's steps, for comparisons; but their number depends on the patients' records.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from medunlearn.audit.identifiers.same_person import People, requested_ids
from medunlearn.config import TINIES, AdoptSettings, TrainSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import forget_records
from medunlearn.data.lineage import run_lineage
from medunlearn.errors import ConfigError, InputError
from medunlearn.models.folders import RECORD
from medunlearn.paper import watches
from medunlearn.probes.material import training_data
from medunlearn.progress import remark
from medunlearn.request.base_lineage import BaseLineage, base_lineage, left_out_of, refuse_fitted_tokenizer
from medunlearn.request.case.evidence import ExactDeletion
from medunlearn.results.runs import Run, RunRecord, find_benchmark
from medunlearn.training.processes import join

if TYPE_CHECKING:
    from medunlearn.study.adopt import Adoption

Road = Literal["adapter dropped", "retrained without her"]
EXACT = "exact_deletion"
"""Key in the results of ``run.json``."""
AGAIN = "-again"
"""End of the name of the second folder, which is removed when its model is the same."""


@dataclass(frozen=True)
class ExactPlan:
    """Plan of an exact deletion of a split's forget set.

    Attributes:
        benchmark: benchmark that the model was trained on.
        lineage: evidence that the base never saw the patients.
        making: settings of the retraining; or the base as a run, if an adapter is dropped.
    """

    benchmark: Benchmark
    lineage: BaseLineage
    making: TrainSettings | Adoption

    @property
    def road(self) -> Road:
        return "retrained without her" if isinstance(self.making, TrainSettings) else "adapter dropped"

    def carry_out(self, out: Path, *, device: str = "auto", quiet: bool = False) -> tuple[Run, ExactDeletion]:
        """Make the model without the patients, twice.

        Resumes; a complete deletion is returned unchanged. The second run is written beside ``out``, and kept there
        if its model differs.

        Args:
            out: folder of the resulting run.

        Raises:
            Errors: those of :func:`medunlearn.study.train.train`.
        """
        first = self._make(out, device=device, quiet=quiet)
        if EXACT not in first.info.results:
            copy = out.with_name(f"{out.name}{AGAIN}")
            second = self._make(copy, device=device, quiet=quiet)
            first = join().on_main(lambda: self._conclude(first, second, quiet=quiet))
        return first, ExactDeletion(**first.info.results[EXACT])

    def _make(self, folder: Path, **how: Any) -> Run:
        from medunlearn.study.train import train

        making = self.making
        if isinstance(making, TrainSettings):
            return train(self.benchmark, making, folder, **how)
        return join().on_main(lambda: making.run(folder, **how))

    def _conclude(self, first: Run, second: Run, *, quiet: bool) -> Run:
        """Write the fingerprint of the second run's model into the record of the first run."""
        exact = ExactDeletion(road=self.road, reproduced=second.fingerprint, base=self.lineage)
        record = RunRecord.read(first.folder)
        record.results[EXACT] = exact.model_dump()
        record.write(first.folder)
        if exact.reproduced == first.fingerprint:
            shutil.rmtree(second.folder, ignore_errors=True)
        else:
            remark(
                f"training without the patients gave another model the second time ({second.folder}): this is no "
                "exact deletion",
                quiet=quiet,
            )
        return Run(first.folder, record)


def plan_exactly(
    run: Run, benchmark: Benchmark, split: str, *, base_unseen: bool = False, quiet: bool = False
) -> ExactPlan:
    """Plan to remake the model of a training run without a split's forget set.

    Args:
        run: a run of verb ``train``.
        benchmark: benchmark that it was trained on (:func:`training_benchmark`).
        split: of the benchmark, or ``level=node,node``.
        base_unseen: the model's owner declares that the base never saw the patients, if that is not recorded.

    Raises:
        InputError: the model is not a training run; it was trained on other texts, or never saw the patients; its
            base saw them, has changed or is missing; its tokenizer is fitted on their texts.
    """
    settings = _training_of(run)
    run.refuse_other_texts(benchmark.texts_fingerprint, benchmark.fingerprint)
    forget, left_out = forget_records(benchmark, split), left_out_of(run, benchmark)
    trained = _trained_on(benchmark, settings)
    if not trained & forget:
        raise InputError(f"The model in {run.folder} was never trained on the patients of this request.")
    lineage = base_lineage(run, settings, benchmark, forget, stated=base_unseen)
    if trained <= forget:
        return ExactPlan(benchmark, lineage, _adoption_of_base(run, settings, benchmark, split, quiet=quiet))
    if settings.model in TINIES:
        refuse_fitted_tokenizer(run)
    _refuse_selection(settings, benchmark, forget)
    again = _without_them(run, settings, united(benchmark, split, forget | left_out, settings.without))
    return ExactPlan(benchmark, lineage, again)


def plan_request(
    model: Path,
    patients: Sequence[str],
    persons: Sequence[Sequence[str]] = (),
    *,
    base_unseen: bool = False,
    quiet: bool = False,
) -> ExactPlan:
    """Plan to remake the model of a training run without some patients, on its recorded benchmark.

    Args:
        persons: ids of one person each.

    Raises:
        InputError: not a run, a patient id with a comma, or ids that may be of the same person; else as
            :func:`plan_exactly`.
    """
    run = trained_run(model)
    benchmark = training_benchmark(run)
    if any("," in patient for patient in patients):
        raise InputError(
            "--method exact takes no patient id with a comma: the training's record would read it as several "
            "ids. Change the id in the notes, or leave --method out."
        )
    ids = requested_ids(patients, People.of_benchmark(benchmark), persons)
    split = f"{benchmark.subject_level}={','.join(ids)}"
    return plan_exactly(run, benchmark, split, base_unseen=base_unseen, quiet=quiet)


def trained_run(model: Path) -> Run:
    """The run in a folder.

    Raises:
        InputError: the folder has none.
    """
    if not (model / RECORD).exists():
        raise InputError(
            f"--method exact trains again, and {model} is not a run of `medunlearn train`. Leave --method out."
        )
    return Run.of(model)


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
    """The benchmark that a run was trained on, from the path in the run's record.

    Raises:
        InputError: it is missing or has changed.
    """
    where = run_lineage(run.info.as_dict()).benchmark
    benchmark = find_benchmark(where, run.folder, run.info.benchmark)
    if benchmark is None:
        changed = find_benchmark(where, run.folder, None)
        if changed is None:
            raise InputError(
                f"The benchmark that {run.folder} was trained on is not at {where}. Move it back: an exact "
                "deletion trains on it again."
            )
        benchmark = changed
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
            f"{run.folder} was adopted: its training is not recorded, so it cannot be repeated without the "
            f"patients. {instead}"
        )
    if run.info.verb == "unlearn":
        origin = run.info.lineage[-1] if run.info.lineage else "the run that it was made from"
        raise InputError(
            f"{run.folder} is an unlearned model, which cannot be retrained. Name the training run ({origin}), "
            "and all patients of requests so far."
        )
    if run.info.verb != "train" or run.info.epoch is not None:
        raise InputError(f"{run.folder} is not a run of `medunlearn train`, so there is no training to repeat.")
    try:
        return check(TrainSettings, run.info.config)
    except ConfigError as error:
        raise InputError(
            f"The settings in {run.folder / RECORD} are not those of this version's training: {error} {instead}"
        ) from error


def _trained_on(benchmark: Benchmark, settings: TrainSettings) -> frozenset[str]:
    """Ids of the records whose text or questions a training run uses."""
    records, questions = training_data(benchmark, settings.without)
    return frozenset([*(r.record_id for r in records), *(q.record_id for q in questions)])


def _adoption_of_base(
    run: Run, settings: TrainSettings, benchmark: Benchmark, split: str, *, quiet: bool
) -> Adoption:
    """The base of an adapter as a run, with the adapter's prompt settings.

    Raises:
        InputError: the model is not an adapter, or its base is not a folder.
    """
    from medunlearn.study.adopt import Adoption

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
    adoption = check(AdoptSettings, values)
    if (Path(settings.model) / RECORD).exists():
        return Adoption.of_run(Run.open(settings.model), benchmark, adoption)
    return Adoption.of(settings.model, benchmark, adoption, quiet=quiet)


def _refuse_selection(settings: TrainSettings, benchmark: Benchmark, forget: frozenset[str]) -> None:
    """Refuse a training run that selects its epoch by a loss on the patients' own records.

    Raises:
        InputError: it does.
    """
    if settings.validation is None or not (settings.select == "best" or settings.stop_early):
        return
    held_out = [watch.held_out(benchmark, settings.validation) for watch in watches()]
    if forget & {item.record_id for records, questions in held_out for item in (*records, *questions)}:
        raise InputError(
            "The epoch of this model was chosen by its loss on a validation set that holds records of the patients "
            "of this request: it would depend on them again. Train with --validation without them, or with "
            "--select last."
        )


def united(benchmark: Benchmark, split: str, records: frozenset[str], before: str | None) -> str:
    """A split of the benchmark that forgets exactly some records: the request's own, or one of nodes of one level.

    Args:
        split: split of the request.
        records: records of the request, and those that the training excluded already.
        before: split that the training excluded; None: none.

    Raises:
        InputError: the records are not exactly those of some nodes.
    """
    if before is None:
        return split
    hierarchy, splits = benchmark.hierarchy, []
    for level in hierarchy.groups():
        nodes = [node for node in hierarchy.nodes(level) if hierarchy.closure(level, [node]) <= records]
        can_be_written = not any("," in node or node != node.strip() for node in nodes)
        if nodes and can_be_written and hierarchy.closure(level, nodes) == records:
            splits.append((len(nodes), f"{level}={','.join(nodes)}"))
    if splits:
        return min(splits)[1]
    raise InputError(
        "The records that the training left out and those of the request together are not whole nodes of one "
        "level, so no split excludes both. Request whole nodes of the level in --without."
    )


def _without_them(run: Run, settings: TrainSettings, without: str) -> TrainSettings:
    """The same settings without the forget set, with the number of epochs that the training made."""
    changes: dict[str, Any] = {"without": without, "retrained_length": "epochs"}
    if settings.without is not None and settings.retrained_length == "steps":
        passes = run.info.results["trained_epochs"]
        changes |= {"pretrain_epochs": passes.get("pretrain", 0), "epochs": passes.get("finetune", 0)}
    return settings.model_copy(update=changes)
