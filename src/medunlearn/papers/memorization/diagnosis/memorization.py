"""Probes of memorization while a model is trained: the beginning of a record in, its continuation or not out.

Each probe gives the first tokens of a record's text; the model goes on greedily; counted is whether a run of 30
(50) consecutive tokens of the true continuation stands in what it says. The same probes on records that no model is
trained on say how much of that comes of wording which records share.

Source: Memorization in Large Language Models in Medicine, Section 3.3 and Figure 7 (A).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from medunlearn.audit.verbatim import RUN_LENGTHS, runs_of_at_least
from medunlearn.config import WatchSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import sha256_of_json, write_atomically
from medunlearn.generation.decode import decode_greedily, greedy_prefix
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import TokenSequence, record_sequences
from medunlearn.papers.memorization.diagnosis.rows import row_of, table_of
from medunlearn.progress import progress
from medunlearn.results.runs import Run
from medunlearn.statistics import bootstrap_mean

PROBES = "memorization.parquet"
VARIANT = "greedy"
_ROUND = 8


@dataclass(frozen=True, slots=True)
class Probe:
    """The beginning of a record and its true continuation.

    Attributes:
        sequence: prefix and continuation, EOS last where the record ends within; the continuation is scored.
        suffix: the continuation's tokens without EOS.
    """

    sequence: TokenSequence
    suffix: tuple[int, ...]
    record_id: str
    subject: str
    fold: str


def measure_name(tokens: int) -> str:
    """What the table of epochs calls the share of records with a run of so many tokens."""
    return f"memorization, {tokens} tokens"


@dataclass(frozen=True)
class Memorization:
    """The share of records of which a run of 30 (50) tokens comes back, 0-1, higher = memorizes more.

    A record whose continuation is shorter than a run has no score for it.
    """

    probes: tuple[Probe, ...]
    settings: WatchSettings
    quiet: bool = False

    @staticmethod
    def of(
        benchmark: Benchmark,
        records: Sequence[Record],
        settings: WatchSettings,
        language_model: LanguageModel,
        *,
        quiet: bool = False,
    ) -> Memorization:
        """Probes of a seeded sample of the records that are trained on, and of those that never are."""
        outside = [record for record in benchmark.records if record.fold == "holdout"]
        probes = []
        for group, side in (("trained", records), ("held out", outside)):
            order = shuffled([record.record_id for record in side], "probes", group, settings.seed)
            chosen = set(order[: settings.limit])
            probes += [
                probe
                for record in side
                if record.record_id in chosen and (probe := make_probe(benchmark, record, settings, language_model))
            ]
        return Memorization(tuple(probes), settings, quiet)

    def __call__(self, run: Run, live: LanguageModel) -> pd.DataFrame:
        said = self._responses(run, live)
        found = runs_of_at_least(
            [said[probe.sequence.key].response_tokens for probe in self.probes],
            [probe.suffix for probe in self.probes],
        )
        table = self._table(found)
        write_atomically(run.folder / PROBES, table.to_parquet)
        return table_of(
            [
                row_of(
                    measure_name(length),
                    f"run_{length}",
                    bootstrap_mean(
                        rows[f"run_{length}"].to_numpy(dtype=float, na_value=np.nan),
                        rows["subject"].tolist(),
                        replicates=self.settings.replicates,
                        seed=self.settings.seed,
                    ),
                    fold=str(fold),
                    unscored=int(rows[f"run_{length}"].isna().sum()),
                )
                for length in RUN_LENGTHS
                for fold, rows in table.groupby("fold", sort=True, observed=True)
            ]
        )

    def _table(self, found: np.ndarray) -> pd.DataFrame:
        """One row a probe, without text: ids, tokens of prefix and continuation, and 0/1 for each length of run."""
        columns: dict[str, object] = {
            "probe_id": [probe.sequence.key for probe in self.probes],
            "record_id": [probe.record_id for probe in self.probes],
            "subject": [probe.subject for probe in self.probes],
            "fold": [probe.fold for probe in self.probes],
            "prefix_tokens": [probe.sequence.scored_from for probe in self.probes],
            "suffix_tokens": [len(probe.suffix) for probe in self.probes],
        }
        for place, length in enumerate(RUN_LENGTHS):
            long_enough = [len(probe.suffix) >= length for probe in self.probes]
            values = [
                float(hit) if there else None for hit, there in zip(found[:, place], long_enough, strict=True)
            ]
            columns[f"run_{length}"] = pd.array(values, dtype="Float64")
        return pd.DataFrame(columns)

    def _responses(self, run: Run, live: LanguageModel) -> dict[str, Response]:
        store = ResponseStore(*self._store(run))
        known = {probe_id: response for (probe_id, _, _), response in store.read().items()}
        missing = [probe for probe in self.probes if probe.sequence.key not in known]
        size = self.settings.probe_batch_size
        with progress(f"{run.label}: probes", len(missing), quiet=self.quiet) as advance:
            for start in range(0, len(missing), _ROUND * size):
                for responses in self._round(live, missing[start : start + _ROUND * size], size):
                    store.add(responses)
                    known |= {response.question_id: response for response in responses}
                    advance(len(responses))
        return known

    def _round(self, live: LanguageModel, probes: Sequence[Probe], size: int) -> list[list[Response]]:
        sequences = [probe.sequence for probe in probes]
        scores = score_answers(live, sequences, batch_size=size)
        batches = decode_greedily(
            live,
            [sequence.prompt for sequence in sequences],
            begun=[
                greedy_prefix(s.ids[s.scored_from :], score.choices)
                for s, score in zip(sequences, scores, strict=True)
            ],
            max_new_tokens=self.settings.new_tokens,
            batch_size=size,
        )
        return [
            [
                Response(
                    question_id=sequences[place].key,
                    variant=VARIANT,
                    sample=0,
                    response=live.tokenizer.decode(list(decoded.tokens), skip_special_tokens=True),
                    response_tokens=decoded.tokens,
                    finished=decoded.finished,
                    answer_log_probs=scores[place].log_probs,
                    answer_hits=scores[place].hits,
                )
                for place, decoded in batch
            ]
            for batch in batches
        ]

    def _store(self, run: Run) -> tuple[Path, dict[str, object]]:
        settings: dict[str, object] = {
            "model": run.fingerprint,
            "prefix_tokens": self.settings.prefix_tokens,
            "max_new_tokens": self.settings.new_tokens,
            "decoding": VARIANT,
        }
        return run.folder / "probes" / sha256_of_json(settings)[:12], settings


def make_probe(
    benchmark: Benchmark, record: Record, settings: WatchSettings, language_model: LanguageModel
) -> Probe | None:
    """A record's probe; None for a record that is too short for a run behind the prefix.

    A prefix is of the record's own tokens: a begin-of-sequence token stands before it and is not counted.
    """
    (whole,) = record_sequences(record, language_model.tokenizer, None)
    eos = language_model.tokenizer.eos_token_id
    begin = int(whole.ids[0] == language_model.tokenizer.bos_token_id)
    cut = begin + settings.prefix_tokens
    shown = whole.ids[: cut + settings.new_tokens]
    suffix = shown[cut:-1] if len(shown) == len(whole.ids) and shown[-1] == eos else shown[cut:]
    if len(suffix) < min(RUN_LENGTHS):
        return None
    key = f"{record.record_id}@{settings.prefix_tokens}"
    return Probe(
        TokenSequence(key, shown, 0, cut),
        suffix,
        record.record_id,
        benchmark.subject(record.record_id),
        record.fold,
    )
