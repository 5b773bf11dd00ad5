"""Membership inference on one model, stage by stage; complete stages are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.attacks.attack_protocol import AttackJob
from medunlearn.attacks.attack_sizes import AttackSizes, Cost
from medunlearn.attacks.membership.membership_results import CURVES, curves, score_candidates, summarize
from medunlearn.attacks.membership.passage import Need, Passage, PassageScorer
from medunlearn.attacks.membership.passes import (
    conditional_means,
    document_moments,
    document_sequences,
    documents_in_front,
    gradient_norms,
    log_likelihoods,
    shown_pictures,
)
from medunlearn.attacks.membership.sample import Candidate, candidates
from medunlearn.attacks.model_holder import ModelHolder
from medunlearn.config import AttackSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.leftovers import read_whole, set_aside
from medunlearn.data.storage import read_frame, write_frame
from medunlearn.errors import NotApplicableError
from medunlearn.models.folders import model_folder
from medunlearn.models.load import load_model
from medunlearn.models.sequences import TokenSequence
from medunlearn.progress import progress
from medunlearn.results.runs import Recording, Run
from medunlearn.results.scores import replace_scores
from medunlearn.training.processes import Processes
from medunlearn.training.turns import in_turns, takes_turns

TOKENS, GRADIENTS = "membership_tokens.parquet", "membership_gradients.parquet"
CONDITIONALS = "membership_conditionals.parquet"
BYTES_A_TOKEN = 24
"""Log-probability, mean and variance."""


class _RankShare:
    """One process's share of the documents, and its forward passes."""

    def __init__(self, holder: ModelHolder, candidates: Sequence[Candidate]) -> None:
        rank, world, count = holder.processes.rank, holder.processes.world, len(candidates)
        self._holder, self._candidates = holder, candidates
        self._place = slice(count * rank // world, count * (rank + 1) // world)
        self._share = candidates[self._place]

    @cached_property
    def _documents(self) -> list[list[TokenSequence]]:
        return self._sequences(self._share)

    def _sequences(self, candidates: Sequence[Candidate]) -> list[list[TokenSequence]]:
        run, model = self._holder.run, self._holder.model
        records = [candidate.record for candidate in candidates]
        return document_sequences(records, model.tokenizer, longest(run), shown_pictures(model, run))

    def _progress(self, what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        return progress(f"{self._holder.run.label}: {what}", total, quiet=self._holder.silent)

    def moments(self) -> pd.DataFrame:
        """One row per document: record_id, and lists of log_probs, means and variances; no text."""
        documents, size = self._documents, self._holder.settings.batch_size
        with self._progress("documents", sum(map(len, documents))) as advance:
            moments = document_moments(self._holder.model, documents, batch_size=size, advance=advance)
        columns = {name: [getattr(row, name) for row in moments] for name in ("log_probs", "means", "variances")}
        return pd.DataFrame({"record_id": _record_ids(self._share), **columns})

    def gradients(self) -> pd.DataFrame:
        """One row per document: record_id, gradient_norm."""
        with self._progress("gradients", len(self._documents)) as advance:
            norms = gradient_norms(self._holder.model, self._documents, advance=advance)
        return pd.DataFrame({"record_id": _record_ids(self._share), "gradient_norm": norms})

    def conditionals(self) -> pd.DataFrame:
        """One row per document: record_id, conditional (null without documents in front)."""
        members = [candidate.member for candidate in self._candidates]
        places = documents_in_front(members, self._holder.settings.seed)[self._place]
        shots = sorted({place for own in places for place in own})
        pieces = dict(zip(shots, self._sequences([self._candidates[place] for place in shots]), strict=True))
        in_front = [[piece for place in own for piece in pieces[place]] for own in places]
        documents, size = self._documents, self._holder.settings.batch_size
        with self._progress("documents behind others", sum(map(len, documents))) as advance:
            means = conditional_means(self._holder.model, documents, in_front, batch_size=size, advance=advance)
        values = pd.Series(means, dtype="Float64")
        return pd.DataFrame({"record_id": _record_ids(self._share), "conditional": values})


def _record_ids(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.record.record_id for candidate in candidates]


@dataclass
class MembershipJob(AttackJob):
    """Membership attacks on one benchmark, by name; documents and reference likelihoods are computed once."""

    attacks: Mapping[str, PassageScorer]
    summary_file: str
    benchmark: Benchmark
    settings: AttackSettings
    _likelihoods: dict[tuple[str, int | None], Sequence[float]] = field(default_factory=dict)

    @cached_property
    def candidates(self) -> list[Candidate]:
        """Documents whose membership is tested. Raises InputError: a benchmark without non-members."""
        return candidates(self.benchmark, self.benchmark.split(self.settings.split))

    @property
    def needs(self) -> set[Need]:
        return {need for attack in self.attacks.values() for need in attack.needs}

    def check(self) -> None:
        self.candidates  # noqa: B018  # its refusals

    def check_run(self, run: Run) -> None:
        check_was_trained_on_records(run)

    def run(self, holder: ModelHolder, recording: Recording) -> None:
        """Run the attacks on a model; without a reference model, those that need one are unscored."""
        processes, folder, model = holder.processes, recording.folder, holder.live_module
        documents, share = self.candidates, _RankShare(holder, self.candidates)
        with recording.stage("pass"):
            tokens = _read_or_make(folder / TOKENS, documents, share.moments, model, processes)
        more: dict[str, Any] = {}
        if "reference" in self.needs and self.settings.reference is not None:
            with recording.stage("reference"):
                more["reference"] = processes.on_main(partial(self._reference_likelihoods, holder))
        # It would take a backward pass of all processes.
        if "gradient_norm" in self.needs and not takes_turns(model):
            with recording.stage("gradients"):
                norms = _read_or_make(folder / GRADIENTS, documents, share.gradients, model, processes)
                more["gradient_norm"] = norms["gradient_norm"].tolist()
        if "conditional" in self.needs:
            with recording.stage("conditionals"):
                means = _read_or_make(folder / CONDITIONALS, documents, share.conditionals, model, processes)
                more["conditional"] = [None if pd.isna(value) else float(value) for value in means["conditional"]]
        with recording.stage("score"), processes.barrier():
            if processes.main:
                self._score(folder, tokens.assign(**more))
        members = sum(candidate.member for candidate in documents)
        recording.info.results["health"]["problems"] += holder.problems
        recording.info.results |= {"members": members, "nonmembers": len(documents) - members}

    def _reference_likelihoods(self, holder: ModelHolder) -> Sequence[float]:
        """Likelihoods of the documents under the reference model; equal for all models of one length."""
        device = holder.device if holder.live is None else str(holder.live.device)
        key = device, longest(holder.run)
        if key not in self._likelihoods:
            how = (str(self.settings.reference), self.candidates, key[1], self.settings, device, holder.quiet)
            self._likelihoods[key] = reference_likelihoods(*how, self.benchmark.folder)
        return self._likelihoods[key]

    def _score(self, folder: Path, tokens: pd.DataFrame) -> None:
        """Write scores, summary and curves; ``tokens`` has a row per document."""
        passages = []
        for candidate, row in zip(self.candidates, tokens.to_dict("records"), strict=True):
            log_probs, means, variances = (
                np.asarray(row[name], dtype=np.float64) for name in ("log_probs", "means", "variances")
            )
            more = (row.get(name) for name in ("reference", "gradient_norm", "conditional"))
            known = (None if value is None or np.isnan(value) else value for value in more)
            passages.append(Passage(candidate.record.text, log_probs, means, variances, *known))
        scores = score_candidates(self.candidates, passages, self.attacks)
        summary = summarize(scores, replicates=self.settings.replicates, seed=self.settings.seed)
        replace_scores(folder, scores, attack=list(self.attacks))
        for name, table in {self.summary_file: summary, CURVES: curves(scores)}.items():
            write_frame(folder / name, table)

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        """One pass over the documents for all attacks; the gradient norm needs another, forward and backward, and
        ReCaLL another, whose documents in front are shared.
        """
        records = [candidate.record for candidate in self.candidates]
        yield sizes.reading(records, bytes_a_token=BYTES_A_TOKEN)
        if "gradient_norm" in self.needs:
            yield sizes.reading(records, backward=True)
        if "conditional" in self.needs:
            yield sizes.reading(records)
        if "reference" in self.needs and self.settings.reference is not None:
            yield sizes.reading(records, model=self.settings.reference)


def reference_likelihoods(
    source: str,
    candidates: Sequence[Candidate],
    max_length: int | None,
    settings: AttackSettings,
    device: str,
    quiet: bool,
    images: Path | None = None,
) -> list[float]:
    """Log-likelihood of each document under the reference model, in its own tokens.

    Args:
        max_length: documents are cut into chunks of this many tokens, as for the model under attack.
        images: folder of the benchmark's images; a reference model of text alone is shown none.
    """
    language_model = load_model(model_folder(source), device=device, weights=settings.weights, images=images)
    records = [candidate.record for candidate in candidates]
    documents = document_sequences(records, language_model.tokenizer, max_length, language_model.pictures)
    with progress("reference model", sum(map(len, documents)), quiet=quiet) as advance:
        return log_likelihoods(language_model, documents, batch_size=settings.batch_size, advance=advance)


def longest(run: Run) -> int | None:
    """Maximum length in tokens of a training record of the run's model."""
    length: int | None = run.info.rendering["max_length"]
    return length


def check_was_trained_on_records(run: Run) -> None:
    """Refuse a model that was trained on questions only: none of its documents are members."""
    if (training := run.training) is None:
        return
    config = training.info.config
    if config["train_on"] == "questions" and not config["pretrain_epochs"]:
        raise NotApplicableError(
            f"{training.folder} was trained on questions alone, so no document is a member of its training set. "
            "Train with --train-on both or --train-on records."
        )


def _read_or_make(
    path: Path, candidates: Sequence[Candidate], make: Callable[[], pd.DataFrame], model: Any, processes: Processes
) -> pd.DataFrame:
    """A stage's table: read from an earlier start of the same run, else computed by all processes and written.

    A table that is broken, or of other documents, is set aside.
    """
    documents = _record_ids(candidates)

    def is_there() -> bool:
        table = read_whole(path, pd.read_parquet)
        if table is not None and ("record_id" not in table or table["record_id"].tolist() != documents):
            set_aside(path, "it is of other documents")
            return False
        return table is not None

    if not processes.on_main(is_there):
        with processes.barrier(), in_turns(model):
            own_rows = make()
        table = pd.concat(processes.gather(own_rows), ignore_index=True)
        with processes.barrier():
            if processes.main:
                write_frame(path, table)
    with processes.barrier():
        return read_frame(path)
