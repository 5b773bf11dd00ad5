"""A recovery attack on a run's model: applied in memory, measured, and undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.attacks.attack_protocol import AttackJob
from medunlearn.attacks.attack_sizes import AttackSizes, Cost
from medunlearn.attacks.recovery.recovery_interface import RecoveryInterface, VariantScores
from medunlearn.attacks.recovery.recovery_results import SILENT, subject_means, summarize_strengths
from medunlearn.config import AttackSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import write_frames
from medunlearn.errors import InputError, ModelError, NotApplicableError
from medunlearn.results.runs import Recording, Run
from medunlearn.results.scores import replace_scores, score_table

if TYPE_CHECKING:
    from medunlearn.attacks.model_holder import ModelHolder

NOTHING_TO_ATTACK = "Nothing can be attacked by {}: {}."


@contextmanager
def _unchanged(holder: ModelHolder, name: str) -> Iterator[None]:
    """Context that refuses an attack which leaves other weights behind.

    Raises:
        InputError: the weights differ; the next attack loads the model again.
        ModelError: they differ, and are those of a model in training.
    """
    from medunlearn.training.trainable import checksums

    parameters = holder.model.model.named_parameters
    before = checksums(dict(parameters()))
    try:
        yield
    finally:
        if checksums(dict(parameters())) != before:
            words = f"The attack {name} changed the model's weights and did not restore them: use model.changed()."
            if holder.live is not None:
                raise ModelError(words)
            del holder.model
            raise InputError(words)


@dataclass(frozen=True)
class RecoveryJob(AttackJob):
    """One recovery attack on one benchmark."""

    attack: RecoveryInterface
    benchmark: Benchmark
    settings: AttackSettings
    summary_file: str
    subjects_file: str

    def check(self) -> None:
        self.attack.check(self.benchmark)

    def check_run(self, run: Run) -> None:
        self.attack.check_run(run)

    def run(self, holder: ModelHolder, recording: Recording) -> None:
        """Attack a model. Processes share the questions, unless one of them has to attack alone."""
        processes = holder.processes
        if self.attack.shared and processes.world > 1 and holder.live is None:
            with processes.barrier():
                self._ask_share(holder)
        with processes.barrier():
            if processes.main:
                self._attack(holder, recording)

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        return self.attack.cost(sizes)

    def _ask_share(self, holder: ModelHolder) -> None:
        """Store this process's share of the answers. All questions on a record go to one process."""
        model, processes = holder.attacked_model(self.attack), holder.processes
        records = list(dict.fromkeys(question.record_id for question in model.questions))
        model.keep({*records[processes.rank :: processes.world]})
        self.attack.ask_share(model)

    def _attack(self, holder: ModelHolder, recording: Recording) -> None:
        """Attack the model and write its tables to the recording's folder.

        Raises:
            InputError: no question or no subject to attack; training that diverged is also an error.
        """
        name, model, parts = self.attack.name, holder.attacked_model(self.attack), list[VariantScores]()
        with recording.stage(name), _unchanged(holder, name):
            for part in self.attack.results(model):
                if not isinstance(part, VariantScores) or not f"{part.label}.".startswith(f"{name}."):
                    raise InputError(
                        f"{type(self.attack).__name__}.results() must yield VariantScores(label, scores) with the "
                        f"label {name} or {name}.VARIANT; it yielded {part!r:.60}."
                    )
                parts.append(part)
                if part.scores is not None:
                    replace_scores(recording.folder, part.scores, attack=[part.label])
        notes = {part.label: part.note for part in parts if part.note}
        tables = [part.scores for part in parts if part.scores is not None]
        if not tables:
            raise NotApplicableError(NOTHING_TO_ATTACK.format(name, "; ".join(notes.values())))
        scores = score_table(pd.concat(tables, ignore_index=True))
        with recording.stage(f"score {name}"):
            self._write_tables(scores, recording)
        health, states, before = recording.info.results["health"], dict(model.problems), self.attack.before
        own = [problem for label in [*states] if label.endswith(f" {before}") for problem in states.pop(label)]
        health["problems"] = list(dict.fromkeys([*health["problems"], *holder.model.problems, *own]))
        measured = [label for label in scores["strength"].unique() if label != before]
        ordered = dict.fromkeys(label for part in parts for label in part.strengths)
        recording.info.results[name] = {
            "questions": int(scores["item"].nunique()),
            "subjects": int(scores["subject"].nunique()),
            "context": model.rendering.context,
            "notes": notes,
            "problems": {label: list(problems) for label, problems in states.items()},
            "strengths": list(ordered or measured),
            SILENT: sum(model.silences) / len(model.silences) if model.silences else None,
            **self.attack.facts_of(model),
        }

    def _write_tables(self, scores: pd.DataFrame, recording: Recording) -> None:
        how: dict[str, Any] = {"replicates": self.settings.replicates, "seed": self.settings.seed}
        files = {
            self.summary_file: summarize_strengths(scores, self.attack.before, **how),
            self.subjects_file: subject_means(scores),
        }
        write_frames(recording.folder, files)
