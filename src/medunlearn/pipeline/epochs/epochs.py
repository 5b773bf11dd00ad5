"""A run evaluated while it goes on: before the first epoch, after every so many, and after the last.

The model is asked as it stands in memory, by all processes together, and scored by the same code as ``evaluate``.
Nothing that training uses is changed: a run without evaluations ends bit for bit where this one does.

What comes of it, in the run's folder:

- ``epochs/03/``: a run of its own with an evaluation below it, as ``evaluate`` would leave it, and with
  ``keep_epochs`` the model;
- ``epochs.parquet``: the summaries of all evaluated epochs, the target's as epoch 0. Columns: epoch; level, node
  (empty where the row is of the whole split), measure (what the number is called), and those of
  :func:`medunlearn.results.summary.summarize`. Membership and utility (:mod:`medunlearn.pipeline.epochs.rows`)
  are rows of it too, without a side, fold and kind. A run of ``train`` may have rows of other measures, of no
  split: the validation loss, and what :mod:`medunlearn.papers.memorization.diagnosis` finds out.
"""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import sha256_of_json, write_atomically, write_json
from medunlearn.generation.respond import respond
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Rendering
from medunlearn.pipeline.epochs.rows import Watch
from medunlearn.pipeline.epochs.selection import Rule, Standing, best_of, is_over
from medunlearn.pipeline.evaluate import evaluate_one
from medunlearn.pipeline.material import rendering_of
from medunlearn.pipeline.questioning import asked, longest_answer, store_of
from medunlearn.progress import progress
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import EPOCHS, FILE, Recording, Run
from medunlearn.training.checkpoint import load_weights, save_weights
from medunlearn.training.processes import Processes
from medunlearn.training.sharding import gathered, is_sharded
from medunlearn.training.trainable import merged

TABLE = "epochs.parquet"
HELD = Path("checkpoints") / "best"
_PLACE = ("epoch", "level", "node", "measure")

Measure = Callable[[Run, LanguageModel], pd.DataFrame]
"""Something else to find out after an epoch: its run and the model in evaluation mode -> rows of the table of
epochs, without the epoch. It is called in the main process alone."""


@dataclass
class EpochEvaluation:
    """What a run does at the end of its epochs; give :meth:`__call__` to the loop.

    Attributes:
        recording: of the run.
        live: the model in training, the same object throughout.
        settings: of the evaluations on a split; None where there are none.
        rule: what makes an epoch the best.
        watch: membership and utility, where they are measured too.
        measures: what else is found out.
        every, last: epochs from one to the next; the last epoch is always evaluated.
        target: run whose model this one starts from; epoch 0 is its evaluation. None: epoch 0 is one of this run.
        base: folder that the model was loaded from; kept epochs are deltas of it. None: full folders.
        reload: a model like the live one, but whole, for a sharded run; its weights are overwritten.
        select: ``best`` holds on to the best epoch's weights.
        patience: epochs without a better one that end the run; 0: none do.
        keep: keep each epoch's model.
        seconds: that evaluating took so far.
    """

    recording: Recording
    live: LanguageModel
    rendering: Rendering
    benchmark: Benchmark
    settings: EvaluateSettings | None
    rule: Rule
    every: int
    last: int
    processes: Processes
    watch: Watch | None = None
    measures: Sequence[Measure] = ()
    target: Run | None = None
    base: Path | None = None
    reload: Callable[[], LanguageModel] | None = None
    select: str = "last"
    patience: int = 0
    keep: bool = False
    quiet: bool = False
    seconds: float = 0.0
    _found: list[Standing] = field(default_factory=list)
    _done: int = 0

    @property
    def out(self) -> Path:
        return self.recording.folder

    def __call__(self, epoch: int, check: Callable[[], None] = lambda: None) -> bool:
        """Evaluate after some epochs, if it is time to; whether the run is to end here.

        Args:
            check: raises KeyboardInterrupt where the run is to stop.
        """
        self._done = epoch
        if epoch % self.every and epoch != self.last:
            return False
        started = time.perf_counter()
        run = self.processes.on_main(lambda: self._run(epoch))
        with self._whole() as live:
            if self.keep and epoch:
                self.processes.on_main(lambda: self._keep(run, live) if live else None)
            self._found = self._evaluated(run, epoch, live, check)
        self._hold(epoch)
        self.seconds += time.perf_counter() - started
        return is_over(self._found, self.patience)

    def finish(self) -> dict[str, Any]:
        """Leave the selected epoch's weights in the model; what ``run.json`` is told."""
        best = best_of(self._found)
        chosen = best.epoch if self.select == "best" and best else self._done
        if chosen != self._done:
            load_weights(self._held(chosen), self.live.model, self.processes)
        return {
            "select": self.select,
            "rule": self.rule.words(self._found),
            "patience": self.patience,
            "numbers": [one.facts() for one in self._found],
            "best": best.epoch if best else None,
            "chosen": chosen,
            "done": self._done,
            "stopped_early": self._done < self.last,
        }

    def _run(self, epoch: int) -> Run:
        if epoch == 0 and self.target is not None:
            return self.target
        folder, info = self.out / EPOCHS / f"{epoch:02d}", self.recording.info
        facts = {
            **{
                name: info[name] for name in ("verb", "config", "inputs", "lineage", "code", "packages", "hardware")
            },
            "label": f"{info['label']}, epoch {epoch}",
            "key": sha256_of_json([info["key"], "epoch", epoch]),
            "status": "complete",
            "stages": {},
            "results": {
                "epoch": epoch,
                "fingerprint": sha256_of_json(["epoch", info["key"], epoch]),
                "rendering": asdict(self.rendering),
            },
        }
        if not (folder / FILE).exists():
            write_json(folder / FILE, facts)
        return Run.open(folder)

    @contextmanager
    def _whole(self) -> Iterator[LanguageModel | None]:
        """The model, put together: of a sharded one a copy, in the main process alone, and None in the others."""
        model = self.live.model
        if any(is_sharded(tensor) for tensor in model.parameters()):
            tensors = gathered(model, self.processes)
            yield self.processes.together(lambda: self._copy(tensors) if self.processes.main else None)
            return
        training = model.training
        model.eval()
        try:
            yield self.live
        finally:
            model.train(training)

    def _copy(self, tensors: Mapping[str, Tensor]) -> LanguageModel:
        assert self.reload is not None
        whole = self.reload()
        with torch.no_grad():
            for name, tensor in whole.model.named_parameters():
                tensor.copy_(tensors[name])
        whole.model.eval()
        return whole

    def _evaluated(
        self, run: Run, epoch: int, live: LanguageModel | None, check: Callable[[], None]
    ) -> list[Standing]:
        """Ask and score; every process has the same model, or only the main one has any."""
        if live is None or any(is_sharded(tensor) for tensor in self.live.model.parameters()):
            share = (0, 1)
        else:
            share = (self.processes.rank, self.processes.world)
        quiet = self.quiet or not self.processes.main
        with merged(live.model) if live else nullcontext():
            if live is not None and share[1] > 1 and self.settings is not None:
                ask = partial(ask_a_share, run, self.benchmark, self.settings, live, share, check, quiet=quiet)
                self.processes.each(ask)
            more = self._watched(run, live, share, check)
            return self.processes.on_main(lambda: self._score(run, epoch, live, more))

    def _watched(
        self, run: Run, live: LanguageModel | None, share: tuple[int, int], check: Callable[[], None]
    ) -> pd.DataFrame:
        """Membership and utility; by all processes where each has the model, else by the main one."""
        watch = self.watch
        if watch is None:
            return pd.DataFrame()
        if share[1] > 1 and live is not None:
            return watch.rows(run, live, self.processes, check)
        return self.processes.on_main(lambda: watch.rows(run, live, check=check) if live else pd.DataFrame())

    def _score(self, run: Run, epoch: int, live: LanguageModel | None, more: pd.DataFrame) -> list[Standing]:
        # Where the encoders of CS and ES go, as in `evaluate`: to the model's device.
        device = str(self.live.device)
        tables = []
        if self.settings is not None:
            found = evaluate_one(run, self.benchmark, self.settings, device=device, quiet=self.quiet, live=live)
            tables.append(rows_of(found, epoch))
        if len(more):
            tables.append(in_order(more, epoch))
        for measure in self.measures:
            assert live is not None  # The main process has the whole model, also of a sharded one.
            tables.append(in_order(measure(run, live), epoch))
        table = pd.concat(tables, ignore_index=True)
        path = self.out / TABLE
        if path.exists():
            before = pd.read_parquet(path)
            table = pd.concat([before[before["epoch"] < epoch], table], ignore_index=True)
        write_atomically(path, table.to_parquet)
        return self.rule.standings(table)

    def _keep(self, run: Run, live: LanguageModel) -> None:
        if hasattr(live.model, "merge_and_unload"):
            live = replace(live, model=copy.deepcopy(live.model).merge_and_unload())
        if self.base is None:
            live.save(run.model)
        else:
            live.save_smaller(self.base, run.model)

    def _hold(self, epoch: int) -> None:
        """Hold on to the weights of the best epoch so far."""
        best = best_of(self._found)
        if self.select != "best" or best is None or best.epoch != epoch:
            return
        save_weights(self._held(epoch), self.live.model, self.processes)
        self.processes.on_main(self._let_go_of_others)

    def _let_go_of_others(self) -> None:
        best = best_of(self._found)
        for folder in (self.out / HELD).iterdir():
            if best is None or folder != self._held(best.epoch):
                shutil.rmtree(folder, ignore_errors=True)

    def _held(self, epoch: int) -> Path:
        return self.out / HELD / f"{epoch:02d}"


def ask_a_share(
    run: Run,
    benchmark: Benchmark,
    settings: EvaluateSettings,
    live: LanguageModel,
    share: tuple[int, int],
    check: Callable[[], None] = lambda: None,
    *,
    quiet: bool = False,
) -> None:
    """Ask a run's model one process's share of the questions; :func:`evaluate_one` finds them asked.

    Args:
        live: the model in memory, in evaluation mode.
        share: number of this process among how many. Questions on one record are in one share.
        check: called after each batch.
    """

    def advance_and_check(done: int) -> None:
        advance(done)
        check()

    rendering = rendering_of(run, settings.template, settings.context)
    questions = asked(benchmark, benchmark.split(settings.split), settings)
    records = {record: place for place, record in enumerate(dict.fromkeys(q.record_id for q in questions))}
    own = [question for question in questions if records[question.record_id] % share[1] == share[0]]
    limit = settings.max_new_tokens or longest_answer(live.tokenizer, benchmark)
    with progress(f"{run.label}: responses", len(own), quiet=quiet) as advance:
        respond(
            live,
            own,
            benchmark.record,
            store_of(run, benchmark, settings, rendering, limit, share),
            rendering,
            max_new_tokens=limit,
            batch_size=settings.batch_size,
            advance=advance_and_check,
        )


def rows_of(evaluated: Evaluated, epoch: int) -> pd.DataFrame:
    """One epoch's rows of the table of epochs."""
    summary = evaluated.summary
    tables = [summary.assign(level="", node="", measure=summary["metric"])]
    if len(evaluated.groups):
        tables.append(evaluated.groups)
    return in_order(pd.concat(tables, ignore_index=True), epoch)


def in_order(table: pd.DataFrame, epoch: int) -> pd.DataFrame:
    """Rows with their epoch, columns in the order of the table of epochs."""
    table = table.assign(epoch=epoch)
    return table[[*_PLACE, *(name for name in table.columns if name not in _PLACE)]]
