"""Membership inference on one model, stage by stage; what a stage made is kept and not made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from medunlearn.attacks.attacked import CURVES, SUMMARY
from medunlearn.attacks.membership.passes import (
    document_moments,
    document_sequences,
    gradient_norms,
    log_likelihoods,
)
from medunlearn.attacks.membership.results import curves, score_candidates, summarize
from medunlearn.attacks.membership.sample import Candidate
from medunlearn.attacks.protocol import MembershipAttack, Passage
from medunlearn.config import AttackSettings
from medunlearn.data.storage import write_atomically
from medunlearn.errors import InputError
from medunlearn.models.folders import model_folder
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.sequences import TokenSequence
from medunlearn.progress import progress
from medunlearn.results.runs import Recording, Run
from medunlearn.results.scores import replace_scores
from medunlearn.training.processes import Processes

TOKENS, GRADIENTS = "membership_tokens.parquet", "membership_gradients.parquet"

Likelihoods = Callable[[], Sequence[float]]
"""Log-likelihood of each candidate under the reference model; worked out when first asked for."""


class _Subject:
    """The model under attack and this process's share of its documents as tokens, loaded when first needed."""

    def __init__(
        self,
        run: Run,
        who: Sequence[Candidate],
        settings: AttackSettings,
        device: str,
        live: LanguageModel | None,
        processes: Processes,
    ) -> None:
        first, last = (len(who) * rank // processes.world for rank in (processes.rank, processes.rank + 1))
        self.run, self.who, self.settings, self.device = run, who[first:last], settings, device
        self.live, self.processes = live, processes

    @cached_property
    def model(self) -> LanguageModel:
        return self.live or load_model(self.run.model, device=self.device, weights=self.settings.weights)

    @cached_property
    def documents(self) -> list[list[TokenSequence]]:
        return document_sequences([one.record for one in self.who], self.model.tokenizer, longest(self.run))


def attack_membership(
    run: Run,
    who: Sequence[Candidate],
    attacks: Mapping[str, MembershipAttack],
    settings: AttackSettings,
    recording: Recording,
    reference: Likelihoods | None,
    *,
    device: str = "auto",
    quiet: bool = False,
    live: LanguageModel | None = None,
    processes: Processes | None = None,
) -> None:
    """Run membership attacks on a run's model and write their tables to the recording's folder.

    Args:
        reference: None where no reference model was named; the attacks that need one are then unscored.
        live: the run's model where it is in memory already, in evaluation mode; otherwise it is loaded.
        processes: that hold the same live model and share the documents; each calls this alike.

    Raises:
        InputError: a model that cannot be loaded.
        MedunlearnError: memory runs out with a single document.
    """
    together, folder = processes or Processes(), recording.folder
    subject = _Subject(run, who, settings, device, live, together)
    quiet = quiet or not together.main
    needs = {need for attack in attacks.values() for need in attack.needs}
    with recording.stage("pass"):
        tokens = _kept(folder / TOKENS, lambda: _moments(subject, quiet), together)
    totals = None
    if "reference" in needs and reference is not None:
        with recording.stage("reference"):
            totals = together.on_main(reference)
    norms = None
    if "gradient_norm" in needs:
        with recording.stage("gradients"):
            table = _kept(folder / GRADIENTS, lambda: _gradients(subject, quiet), together)
            norms = table["gradient_norm"].tolist()
    with recording.stage("score"):
        together.on_main(lambda: _score(folder, who, _passages(who, tokens, totals, norms), attacks, settings))
    members = sum(one.member for one in who)
    recording.info.results |= {"members": members, "nonmembers": len(who) - members}


def _score(
    folder: Path,
    who: Sequence[Candidate],
    passages: Sequence[Passage],
    attacks: Mapping[str, MembershipAttack],
    settings: AttackSettings,
) -> None:
    scores = score_candidates(who, passages, attacks)
    summary = summarize(scores, replicates=settings.replicates, seed=settings.seed)
    replace_scores(folder, scores, attack=list(attacks))
    for name, table in {SUMMARY: summary, CURVES: curves(scores)}.items():
        write_atomically(folder / name, table.to_parquet)


def reference_likelihoods(
    source: str,
    who: Sequence[Candidate],
    max_length: int | None,
    settings: AttackSettings,
    device: str,
    quiet: bool,
) -> list[float]:
    """Log-likelihood of each document under the reference model, in its own tokens.

    Args:
        max_length: documents are cut into chunks of this many tokens, as for the model under attack.

    Raises:
        InputError: a model that cannot be loaded.
    """
    language_model = load_model(model_folder(source), device=device, weights=settings.weights)
    documents = document_sequences([one.record for one in who], language_model.tokenizer, max_length)
    with progress("reference model", sum(map(len, documents)), quiet=quiet) as advance:
        return log_likelihoods(language_model, documents, batch_size=settings.batch_size, advance=advance)


def longest(run: Run) -> int | None:
    """The length that records were cut to when the run's model was trained."""
    length: int | None = run.info.rendering["max_length"]
    return length


def check_was_trained_on_records(run: Run) -> None:
    """Refuse a model whose training showed it questions alone: its documents are then no members.

    Raises:
        InputError: so it was.
    """
    trained = run
    lineage = [Path(one) for one in run.info.lineage]
    if run.info.verb != "train" and lineage and (lineage[-1] / "run.json").exists():
        trained = Run.open(lineage[-1])
    config = trained.info.config
    if trained.info.verb == "train" and config["train_on"] == "questions" and not config["pretrain_epochs"]:
        raise InputError(
            f"{trained.folder} was trained on questions alone, so no document is a member of its training set. "
            "Train with --train-on both or --train-on records."
        )


def _kept(path: Path, make: Callable[[], pd.DataFrame], processes: Processes) -> pd.DataFrame:
    """A stage's table: read where an earlier start of the same run wrote it, else made and written.

    Args:
        make: one process's share of the rows.
    """
    if not processes.on_main(path.exists):
        table = pd.concat(processes.each(make), ignore_index=True)
        processes.on_main(lambda: write_atomically(path, table.to_parquet))
    return processes.together(lambda: pd.read_parquet(path))


def _moments(subject: _Subject, quiet: bool) -> pd.DataFrame:
    """record_id and a list each of log_probs, means and variances; no text."""
    title, total = f"{subject.run.label}: documents", sum(map(len, subject.documents))
    with progress(title, total, quiet=quiet) as advance:
        found = document_moments(
            subject.model, subject.documents, batch_size=subject.settings.batch_size, advance=advance
        )
    return pd.DataFrame(
        {
            "record_id": [one.record.record_id for one in subject.who],
            "log_probs": [one.log_probs for one in found],
            "means": [one.means for one in found],
            "variances": [one.variances for one in found],
        }
    )


def _gradients(subject: _Subject, quiet: bool) -> pd.DataFrame:
    with progress(f"{subject.run.label}: gradients", len(subject.documents), quiet=quiet) as advance:
        norms = gradient_norms(subject.model, subject.documents, advance=advance)
    return pd.DataFrame({"record_id": [one.record.record_id for one in subject.who], "gradient_norm": norms})


def _passages(
    who: Sequence[Candidate], tokens: pd.DataFrame, totals: Sequence[float] | None, norms: Sequence[float] | None
) -> list[Passage]:
    if tokens["record_id"].tolist() != [one.record.record_id for one in who]:
        raise InputError("The attack's folder holds tokens of other documents. Remove it and attack again.")
    passages = []
    for place, (one, row) in enumerate(zip(who, tokens.to_dict("records"), strict=True)):
        log_probs, means, variances = (
            np.asarray(row[name], dtype=np.float64) for name in ("log_probs", "means", "variances")
        )
        passages.append(
            Passage(
                one.record.text,
                log_probs,
                means,
                variances,
                reference=None if totals is None else totals[place],
                gradient_norm=None if norms is None else norms[place],
            )
        )
    return passages
