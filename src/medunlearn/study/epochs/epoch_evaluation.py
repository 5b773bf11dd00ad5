"""Evaluation of a run during training: before the first epoch, at intervals, and after the last.

All processes evaluate the model in memory together, with the code of ``evaluate``. Training state is not touched: a
run without evaluations has bit-identical results. Results in the run's folder:

- ``epochs/03/``: a separate run with an evaluation as written by ``evaluate``, and with ``keep_epochs`` the model;
- ``epochs.parquet``: one row per epoch and number, the target's as epoch 0. Columns: epoch; level, node (empty in
  rows of the whole split), measure, and those of :func:`medunlearn.results.summary.summarize`. Membership, utility
  and other measures of a training run (validation loss, diagnosis) have no side, fold and kind, so that the rule
  for the best epoch ignores them.
"""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.config import AttackSettings, EvaluateSettings, TrainSettings, UtilitySettings
from medunlearn.data.leftovers import problem_of, read_whole, set_aside
from medunlearn.data.lineage import run_lineage, write_lineage
from medunlearn.data.storage import read_frame, sha256_of_json, write_frame
from medunlearn.models.folders import file_facts
from medunlearn.models.four_bit import is_four_bit
from medunlearn.models.health import refuse_non_finite
from medunlearn.models.load import LanguageModel
from medunlearn.models.low_rank import low_rank_of
from medunlearn.probes.evaluate import evaluate_one, metric_names
from medunlearn.probes.evaluation_folder import evaluation_folder
from medunlearn.probes.questioning import Questioning
from medunlearn.results.runs import EPOCHS, FILE, Run, RunRecord
from medunlearn.study.epochs.epoch_selection import (
    TABLE,
    UTILITY,
    VALIDATION_RULE,
    EpochStanding,
    Rule,
    attack_rows,
    best_of,
    evaluation_rows,
    forgetting_rule,
    is_over,
    tracked_numbers,
    watched_table,
    with_epoch,
)
from medunlearn.study.epochs.epoch_settings import epoch_sections, epoch_settings
from medunlearn.study.trainer import Trainer
from medunlearn.training.checkpoint import load_weights, problem_of_weights, save_weights
from medunlearn.training.merging import merge, merged
from medunlearn.training.processes import Processes
from medunlearn.training.saving import save_adapter
from medunlearn.training.sharding import is_sharded, merged_shares
from medunlearn.training.turns import in_turns

if TYPE_CHECKING:
    from medunlearn.attacks.attack_run import AttackBattery

Check = Callable[[], None]
"""Raises KeyboardInterrupt where the run is to stop."""
Measure = Callable[[Run, LanguageModel], pd.DataFrame]
"""One more measure after an epoch: its run and the model in evaluation mode -> rows of ``epochs.parquet`` without
the epoch. Called on rank 0 only."""
Stop = Callable[[pd.DataFrame], bool]
"""``epochs.parquet`` so far -> whether the run ends here. Called on rank 0 only."""


@dataclass
class EpochEvaluation:
    """Callback of the loop at the end of each epoch.

    Attributes:
        settings: settings of the evaluations on a split; None without any.
        attack, utility: settings of attacks and utility after each epoch; None without them.
        seconds: time spent on evaluation so far.
        stop: function called after each evaluated epoch except the target's, in addition to ``stop_early``; None:
            never stop.
    """

    trainer: Trainer
    settings: EvaluateSettings | None
    rule: Rule
    attack: AttackSettings | None = None
    utility: UtilitySettings | None = None
    measures: Sequence[Measure] = ()
    seconds: float = 0.0
    stop: Stop | None = None
    _standings: list[EpochStanding] = field(default_factory=list)
    _done: int = 0

    def __post_init__(self) -> None:
        trainer = self.trainer
        self.processes, self.benchmark, self.quiet = trainer.processes, trainer.benchmark, trainer.quiet
        self.options, self.out = trainer.settings, trainer.recording.folder
        # The rule that ends a run by ranks also chooses its model.
        ends_by_ranks = getattr(self.options, "stop", "none") != "none"
        self.select = "best" if ends_by_ranks else str(getattr(self.options, "select", "last"))
        self.patience = int(getattr(self.options, "stop_early", 0))

    def __call__(self, epoch: int, check: Check = lambda: None) -> bool:
        """Evaluate after an epoch if it is due; True stops training."""
        self._done = epoch
        if epoch % self.options.evaluate_every and epoch != self.options.epochs:
            return False
        started = time.perf_counter()
        run = self.processes.on_main(lambda: self._run(epoch))
        with self._evaluation_mode() as live:
            words = f"Epoch {epoch} is not evaluated"
            with self.processes.barrier():
                refuse_non_finite(live.model, words)
            if self.options.keep_epochs and epoch:
                self._save_model(run, live)
            self._standings = self._evaluate(run, epoch, live, check)
        best = best_of(self._standings)
        if self.select == "best" and best is not None and best.epoch == epoch:
            save_weights(self._weights(epoch), self.trainer.live.model, self.processes)
            with self.processes.barrier():
                if self.processes.main:
                    self._remove_others(epoch)
        self.seconds += time.perf_counter() - started
        is_over_now = not self.benchmark.undecided and is_over(self._standings, self.patience)
        return is_over_now or self._is_stopped(epoch)

    def _is_stopped(self, epoch: int) -> bool:
        if self.stop is None or not epoch:
            return False
        stop = self.stop
        return self.processes.on_main(lambda: stop(read_frame(self.out / TABLE)))

    def check_earlier(self, checkpoints: Path) -> None:
        """Before resuming, find earlier epochs with unreadable numbers or weights; training repeats from there.

        Existing evaluations are kept and reused.
        """
        model, processes = self.trainer.live.model, self.processes
        broken: dict[Path, str] = {}
        if problem := processes.on_main(lambda: problem_of(self.out / TABLE, pd.read_parquet)):
            broken[self.out / TABLE] = problem
        for weights in processes.on_main(lambda: sorted(self._weights(0).parent.glob("[0-9]*"))):
            if problem := problem_of_weights(weights, model, processes):
                broken[weights] = problem
        # The checkpoints first: without them, what is broken is made again.
        if broken:
            broken = {checkpoints: "what its epochs left is broken", **broken}
        for path, problem in broken.items():
            with processes.barrier():
                if processes.main:
                    set_aside(path, problem)

    def finish(self, stage: str) -> None:
        """Load the selected epoch's weights into the model; record it, and the evaluation time separately from the
        stage's.
        """
        best = best_of(self._standings)
        epoch = best.epoch if self.select == "best" and best else self._done
        if epoch != self._done:
            load_weights(self._weights(epoch), self.trainer.live.model, self.processes)
        info = self.trainer.recording.info
        info.results["epochs"] = {
            "select": self.select,
            "rule": self.benchmark.undecided or self.rule.words(self._standings),
            "patience": self.patience,
            "numbers": [standing.facts() for standing in self._standings],
            "best": best.epoch if best else None,
            "chosen": epoch,
            "done": self._done,
            "stopped_early": self._done < self.options.epochs,
        }
        training = info.stages[stage]
        training["seconds"] = round(training["seconds"] - self.seconds, 2)
        memory = training["peak_memory_bytes"]
        info.stages["epochs"] = {"seconds": round(self.seconds, 2), "peak_memory_bytes": memory}

    def _run(self, epoch: int) -> Run:
        if epoch == 0 and self.trainer.target is not None and not self.trainer.is_altered:
            return self.trainer.target
        folder, info = self.out / EPOCHS / f"{epoch:02d}", self.trainer.recording.info
        record = replace(
            info,
            label=f"{info.label}, epoch {epoch}",
            key=sha256_of_json([info.key, "epoch", epoch]),
            status="complete",
            started="",
            stages={},
            digest="",
            results={
                "epoch": epoch,
                "fingerprint": sha256_of_json(["epoch", info.key, epoch]),
                "rendering": asdict(self.trainer.rendering.dated(self.trainer.live.tokenizer)),
            },
        )
        there = read_whole(folder / FILE, lambda path: RunRecord.read(path.parent))
        if there is None or there.data_use != record.data_use:
            record.write(folder)
        return Run.open(folder)

    @contextmanager
    def _evaluation_mode(self) -> Iterator[LanguageModel]:
        model = self.trainer.live.model
        training = model.training
        model.eval()
        try:
            yield self.trainer.live
        finally:
            model.train(training)

    def _sharded(self) -> bool:
        return any(is_sharded(tensor) for tensor in self.trainer.live.model.parameters())

    def _evaluate(self, run: Run, epoch: int, live: LanguageModel, check: Check) -> list[EpochStanding]:
        """Generate and score; every rank has the full model or its shard."""
        model, processes = live.model, self.processes
        with merged_shares(model) if self._sharded() else merged(model):
            if processes.world > 1 and self.settings is not None:
                with processes.barrier(), in_turns(model):
                    self._ask_a_share(run, live, check)
            watched = self._watch(run, live, processes, check)
            with processes.barrier(), in_turns(model):
                standings = self._score(run, epoch, live, watched) if processes.main else None
            return processes.broadcast(standings)

    def _ask_a_share(self, run: Run, live: LanguageModel, check: Check) -> None:
        """Generate this rank's share of the responses, which :func:`evaluate_one` then reads."""
        settings = self.settings
        assert settings is not None
        rendering, device = run.rendering(settings.template, settings.context), str(live.device)
        how = (settings, rendering, device, self.trainer.silent, live)
        questioning = Questioning(run, self.benchmark, *how)
        questioning.ask_share(self.processes, metric_names(self.benchmark, settings), check)

    def _watch(self, run: Run, live: LanguageModel, processes: Processes, check: Check) -> list[dict[str, Any]]:
        """Rows of attacks and utility; measurements already in this epoch's run are reused."""
        rows = []
        if self.attack is not None:
            attacked = self._battery.attack_one(run, quiet=self.quiet, live=live, processes=processes)
            rows += attack_rows(attacked, self.benchmark)
            check()
        if self.utility is not None:
            from medunlearn.probes.utility.harness_run import utility_one

            measured = utility_one(run, self.utility, quiet=self.quiet, live=live, processes=processes, check=check)
            row = measured.summary.iloc[-1]
            numbers = {name: row[name] for name in ("metric", "value", "low", "high", "n_scored", "n_unscored")}
            rows.append({"measure": UTILITY, "n_subjects": int(row["n_scored"]), **numbers})
        return rows

    @cached_property
    def _battery(self) -> AttackBattery:
        """The attacks; what all epochs share is computed once."""
        from medunlearn.attacks.attack_run import AttackBattery

        assert self.attack is not None
        return AttackBattery(self.benchmark, self.attack)

    def _score(
        self, run: Run, epoch: int, live: LanguageModel, watched: list[dict[str, Any]]
    ) -> list[EpochStanding]:
        # The encoders of CS and ES go to the model's device, as in `evaluate`.
        device, tables = str(self.trainer.live.device), []
        if self.settings is not None:
            scored = evaluate_one(run, self.benchmark, self.settings, device=device, quiet=self.quiet, live=live)
            tables.append(evaluation_rows(scored))
        if watched:
            tables.append(watched_table(watched))
        for measure in self.measures:
            tables.append(measure(run, live))
        table = pd.concat([with_epoch(table, epoch) for table in tables], ignore_index=True)
        self.trainer.tracking.epoch(tracked_numbers(table), epoch)
        path = self.out / TABLE
        if path.exists():
            before = read_frame(path)
            table = pd.concat([before[before["epoch"] < epoch], table], ignore_index=True)
        write_frame(path, table)
        standings = [replace(s, problem=self._problem(s.epoch)) for s in self.rule.standings(table)]
        return [replace(s, value=None) for s in standings] if self.benchmark.undecided else standings

    def _problem(self, epoch: int) -> str:
        """Reason why the model is broken after an epoch, from its evaluation."""
        if self.settings is None:
            return ""
        folder = evaluation_folder(self._run(epoch), self.benchmark, self.settings)
        return "; ".join(RunRecord.read(folder).problems) if (folder / FILE).exists() else ""

    def _save_model(self, run: Run, live: LanguageModel) -> None:
        """Save the model of an epoch; called by every process."""
        if self._sharded():
            self.trainer.save(run.model)
        else:
            with self.processes.barrier():
                if self.processes.main:
                    self._save_whole(run, live)
        with self.processes.barrier():
            if self.processes.main:
                write_lineage(run.model, run_lineage(run.info.as_dict()))
                replace(run.info, model_files=file_facts(run.model)).write(run.folder)

    def _save_whole(self, run: Run, live: LanguageModel) -> None:
        base, adapter = self.trainer.base, None
        if hasattr(live.model, "merge_and_unload"):
            adapter = low_rank_of(live.model, base) if base and not self.options.merge_adapter else None
        if adapter is None and hasattr(live.model, "merge_and_unload"):
            whole = copy.deepcopy(live.model)
            four_bit = any(map(is_four_bit, whole.modules()))
            live = replace(live, model=merge(whole)[0] if four_bit else whole.merge_and_unload())
        if adapter is not None and base is not None:
            save_adapter(adapter, base, run.model)
        elif self.trainer.target is None:
            live.save(run.model)
        else:
            live.save_smaller(self.trainer.target.model, run.model)

    def _remove_others(self, epoch: int) -> None:
        for folder in self._weights(epoch).parent.iterdir():
            if folder != self._weights(epoch):
                shutil.rmtree(folder, ignore_errors=True)

    def _weights(self, epoch: int) -> Path:
        """Weights of the best epoch so far; those of other epochs are deleted."""
        return self.trainer.checkpoints / "best" / f"{epoch:02d}"


def epoch_evaluation(
    trainer: Trainer, measures: Sequence[Measure] = (), stop: Stop | None = None, rule: Rule | None = None
) -> EpochEvaluation | None:
    """The epoch evaluation in a run's settings, with further measures; None without any.

    Args:
        rule: of the best epoch; None: the validation loss of a training, and forgetting of unlearning.
    """
    settings = trainer.settings
    evaluation = epoch_settings(settings, getattr(settings, "split", None))
    if evaluation is None and not measures:
        return None
    attack, utility = epoch_sections(settings, evaluation.split) if evaluation else (None, None)
    by_loss = isinstance(settings, TrainSettings) and settings.validation is not None
    # Without an evaluation no epoch has a number by the forgetting rule, and the last one is the run's.
    fold = evaluation.folds[0] if evaluation else "train"
    usual = VALIDATION_RULE if by_loss else forgetting_rule(fold)
    return EpochEvaluation(trainer, evaluation, rule or usual, attack, utility, measures, stop=stop)
