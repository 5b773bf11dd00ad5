"""Common parts of `train` and `unlearn`: loop, epoch evaluation, facts for ``run.json``, the saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from medunlearn.config import EpochFields, LoopFields
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import OutOfMemoryError
from medunlearn.models.batching import is_out_of_memory
from medunlearn.models.folders import file_facts
from medunlearn.models.layouts import describe_layouts
from medunlearn.models.load import LanguageModel
from medunlearn.models.precision import settled
from medunlearn.models.pretrained import pick_device
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import Rendering
from medunlearn.models.vision.seeing import images_described
from medunlearn.probes.material import loop_settings
from medunlearn.progress import progress
from medunlearn.results.runs import CHECKPOINTS, Recording, Run, folder_of
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import History, train_loop
from medunlearn.training.objectives import Objective
from medunlearn.training.processes import Processes
from medunlearn.training.saving import save, write_history
from medunlearn.training.sharded_saving import save_sharded
from medunlearn.training.sharding import shard
from medunlearn.training.trackers import StepReport, Tracking
from medunlearn.training.trainable import trained
from medunlearn.training.turns import in_turns


class EpochCallback(Protocol):
    """Work after epochs of the last phase, as a trainer calls it."""

    def check_earlier(self, checkpoints: Path) -> None:
        """Before resuming, set aside what earlier epochs left unreadable."""
        ...

    def __call__(self, epoch: int, check: Callable[[], None]) -> bool:
        """True stops training after this epoch."""
        ...

    def finish(self, stage: str) -> None:
        """Load the selected epoch's weights into the model, and record it."""
        ...


@dataclass
class Trainer:
    """A run that trains a model, in all of its processes.

    Attributes:
        rendering: rendering of questions in training.
        target: run of the initial model; None for training from a base model.
        base: folder of the initial model, a possible base of an adapter; None for one in memory.
        live: the model in training, after :meth:`prepared`; always the same object.
        epochs: called after epochs of the last phase; None: nothing is.
        is_altered: whether the initial model was changed before the first step, so that epoch 0 is not the target.
    """

    recording: Recording
    benchmark: Benchmark
    settings: EpochFields
    processes: Processes
    rendering: Rendering
    target: Run | None = None
    quiet: bool = False
    base: Path | None = None
    live: LanguageModel = field(init=False)
    epochs: EpochCallback | None = None
    is_altered: bool = False

    def __post_init__(self) -> None:
        self.silent = self.quiet or not self.processes.main
        self.loop = loop_settings(self.settings, getattr(self.settings, "seed", 0))
        folder, key = self.recording.folder, self.recording.key[:8]
        name = self.settings.tracker if self.processes.main else "none"
        self.tracking = Tracking(name, folder, f"{folder.name}-{key}", quiet=self.quiet)

    @property
    def checkpoints(self) -> Path:
        return self.recording.folder / CHECKPOINTS

    @contextmanager
    def prepared(self, live: LanguageModel) -> Iterator[None]:
        """Context of passes before training, by every process; the model is sharded before, if the settings say."""
        self.live = live
        if self.settings.sharding != "none":
            shard(live, self.processes, self.settings.precision)
        with self.processes.barrier(), in_turns(live.model):
            yield

    def run(
        self, phase: str, title: str, plan: Plan, objective: Objective, *, last: bool, reference: Reference | None
    ) -> History:
        """Train for one phase; epochs of the last phase are evaluated."""
        if last and self.epochs:
            self.epochs.check_earlier(self.checkpoints / phase)
        with self.recording.stage(phase), progress(title, plan.steps, quiet=self.silent) as advance:
            return train_loop(
                self.live.model,
                self.live.tokenizer.pad_token_id,
                objective,
                plan,
                self.loop,
                checkpoints=self.checkpoints / phase,
                keep_final=not last,
                reference=reference,
                processes=self.processes,
                on_step=StepReport(self.tracking, phase, advance, self.loop.micro_batch_size, self.quiet),
                on_epoch=self.epochs if last else None,
            )

    def finish(
        self,
        history: History,
        stage: str,
        facts: dict[str, Any],
        measured: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """Record the result of the last phase, ``stage``, and save the model of the selected epoch.

        Args:
            measured: further facts, of that model in memory; called in every process.
        """
        info, live = self.recording.info, self.live
        self.tracking.close()
        info.results = {**_summary(history, live, self), **facts}
        if self.epochs and stage in info.stages:
            self.epochs.finish(stage)
        with self.processes.barrier(), in_turns(live.model):
            info.results |= measured()
        out = self.recording.folder
        info.results["saved"] = self.save(out / "model")
        with self.processes.barrier():
            if self.processes.main:
                write_history(history, out)
                info.model_files = file_facts(out / "model")
        info.model_files = self.processes.broadcast(info.model_files)

    def save(self, folder: Path) -> dict[str, Any]:
        """Save the current model; returns facts for ``run.json``. An adapter is merged unless the model is
        sharded.
        """
        base, stand = self.target.model if self.target else None, None if self.settings.merge_adapter else self.base
        if self.settings.sharding != "none":
            return save_sharded(self.live, self.processes, folder, base=base, stand=stand)
        with self.processes.barrier():
            facts = save(self.live, folder, base=base, stand=stand) if self.processes.main else None
        return self.processes.broadcast(facts)


def _summary(history: History, live: LanguageModel, trainer: Trainer) -> dict[str, Any]:
    """Results of a finished training for ``run.json``; the micro-batch size is the smallest one used."""
    loop, size = trainer.loop, trainer.loop.micro_batch_size
    return {
        "rendering": asdict(trainer.rendering.dated(live.tokenizer)),
        "benchmark_folder": folder_of(trainer.benchmark),
        "steps": len(history),
        "tokens": sum(row["tokens"] for row in history),
        "final_loss": history[-1].get("loss") if history else None,
        "precision": settled(loop.precision, live.device),
        "micro_batch_size": min((row.get("micro_batch_size", size) for row in history), default=size),
        "batches": describe_layouts(live.model),
        **images_described(live.model),
        "parameters": sum(tensor.numel() for tensor in live.model.parameters()),
        "trained_parameters": sum(tensor.numel() for tensor in trained(live.model).values()),
    }


@contextmanager
def explain_out_of_memory(settings: LoopFields, device: str) -> Iterator[None]:
    """Context for a training run: out-of-memory errors name the settings to change.

    Raises:
        OutOfMemoryError: memory ran out.
    """
    try:
        yield
    except (OutOfMemoryError, RuntimeError, MemoryError) as error:
        explained = isinstance(error, OutOfMemoryError)
        if not explained and not is_out_of_memory(error):
            raise
        on_gpu = pick_device(device).type == "cuda"
        keeps, changes = _savings(settings, on_gpu)
        same = f", or with {keeps}" if keeps else ""
        raise OutOfMemoryError(
            f"{error if explained else 'Memory runs out.'} The same command resumes from the checkpoint if more "
            f"memory is free{same}. Or start another experiment with another --out and {changes}, or a smaller "
            "model."
        ) from error


def _savings(settings: LoopFields, on_gpu: bool) -> tuple[str, str]:
    """Settings that save memory and are not used yet, cheapest first: those that change no number, and others."""
    context = getattr(settings, "context", None)
    same = [
        # Without sharding it has been tried.
        ("--micro-batch-size 1", settings.sharding != "none" and settings.micro_batch_size > 1),
        ("--gradient-checkpointing", not settings.gradient_checkpointing),
        ("--offload optimizer", on_gpu and settings.optimizer == "adamw" and settings.offload == "none"),
    ]
    others = [
        ("--optimizer adamw_8bit", settings.optimizer == "adamw"),
        ("--context closed_book", context == "note"),
        ("--weights bf16", settings.weights == "fp32"),
        ("--trainable lora or --trainable layers:7", getattr(settings, "trainable", "") in ("all", "default")),
        ("a smaller --max-length", True),
    ]
    keeps, changes = ("; or ".join(way for way, helps in ways if helps) for ways in (same, others))
    return keeps, changes
