"""Memorization probes during training: whether the model completes a record's beginning with its true continuation.

Each probe gives the first tokens of a record's text, and the model continues greedily. It counts as memorized if
the response shares a run of 30 (50) consecutive tokens with the true continuation. The same probes on held-out
records measure how much of this is wording shared by records.

Source: Memorization in Large Language Models in Medicine, Section 3.3 and Figure 7 (A).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from medunlearn.config import WatchSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import sha256_of_json, write_frame
from medunlearn.generation.continuations import Opening, continue_openings
from medunlearn.generation.decodings import Decoding
from medunlearn.metrics.verbatim import RUN_LENGTHS, runs_of_at_least
from medunlearn.models.ancestry import model_use
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import begin_tokens, record_sequences
from medunlearn.progress import progress
from medunlearn.results.runs import Run
from medunlearn.results.summary import summarize

PROBES = "memorization.parquet"
_COLUMNS = (
    *("level", "node", "measure", "side", "fold", "kind", "metric", "value", "low", "high"),
    *("n_scored", "n_unscored", "n_subjects", "replicates_dropped", "parts"),
)


def epoch_rows(summary: pd.DataFrame, titles: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Rows of the table of epochs for measures without a split.

    Args:
        summary: from :func:`~medunlearn.results.summary.summarize`, without labels or by fold.
        titles: measure of the summary -> its name and metric in the table of epochs.
    """
    names = {"measure": summary["measure"].map(lambda measure: titles[measure][0])}
    names["metric"] = summary["measure"].map(lambda measure: titles[measure][1])
    empty = {name: "" for name in _COLUMNS if name not in summary and name not in names}
    table = summary.assign(**names, **empty)[list(_COLUMNS)]
    return table.astype(dict.fromkeys(("value", "low", "high"), "Float64"))


@dataclass(frozen=True, slots=True)
class RecordProbe:
    """The beginning of a record and its true continuation, without EOS.

    Attributes:
        prefix_tokens: with the begin-of-sequence token if the model has one.
    """

    opening: Opening
    subject: str
    fold: str
    prefix_tokens: int


@dataclass(frozen=True)
class Memorization:
    """Share of records for which a run of 30 (50) tokens is repeated, 0-1, higher = memorizes more.

    A record with a continuation shorter than the run is unscored.
    """

    probes: tuple[RecordProbe, ...]
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
        """Probes of a seeded sample of training records, and of held-out ones."""
        outside = [record for record in benchmark.records if record.fold == "holdout"]
        probes = []
        for group, side in (("trained", records), ("held out", outside)):
            order = shuffled([record.record_id for record in side], "probes", group, settings.seed)
            sample = set(order[: settings.limit])
            records_sampled = (record for record in side if record.record_id in sample)
            probes += [make_probe(benchmark, record, settings, language_model) for record in records_sampled]
        return Memorization(tuple(probe for probe in probes if probe), settings, quiet)

    def __call__(self, run: Run, live: LanguageModel) -> pd.DataFrame:
        openings = [probe.opening for probe in self.probes]
        responses = self._responses(run, live)
        tokens = [responses[opening.key].response_tokens for opening in openings]
        runs = runs_of_at_least(tokens, [opening.suffix for opening in openings])
        # One row per probe, without text.
        table = pd.DataFrame(
            {
                "probe_id": [opening.key for opening in openings],
                "record_id": [opening.record for opening in openings],
                **{
                    name: [getattr(probe, name) for probe in self.probes]
                    for name in ("subject", "fold", "prefix_tokens")
                },
                "suffix_tokens": [len(opening.suffix) for opening in openings],
            }
        )
        measures = {f"run_{length}": length for length in RUN_LENGTHS}
        for place, (name, length) in enumerate(measures.items()):
            hits = pd.Series(runs[:, place], dtype="float64").where(table["suffix_tokens"] >= length)
            table[name] = hits.astype("Float64")
        write_frame(run.folder / PROBES, table)
        scores = table.rename(columns={"probe_id": "item"}).melt(
            ["item", "subject", "fold"], list(measures), "measure"
        )
        summary = summarize(scores, ["fold"], replicates=self.settings.replicates, seed=self.settings.seed)
        titles = {name: (f"memorization, {length} tokens", name) for name, length in measures.items()}
        return epoch_rows(summary.sort_values(["measure", "fold"], ignore_index=True), titles)

    def _responses(self, run: Run, live: LanguageModel) -> dict[str, Response]:
        greedy, new_tokens = Decoding(), self.settings.new_tokens
        settings = {
            "model": run.fingerprint,
            "prefix_tokens": self.settings.prefix_tokens,
            "max_new_tokens": new_tokens,
            "decoding": greedy.name,
        }
        folder = run.folder / "probes" / sha256_of_json(settings)[:12]
        store = ResponseStore(folder, settings, data_use=model_use(run.folder))
        openings = [probe.opening for probe in self.probes]
        sizes = {"max_new_tokens": new_tokens, "batch_size": self.settings.probe_batch_size}
        with progress(f"{run.label}: probes", len(openings), quiet=self.quiet) as advance:
            continue_openings(live, openings, greedy, store, advance=advance, **sizes)
        return {probe_id: response for (probe_id, _, _), response in store.read().items()}


def make_probe(
    benchmark: Benchmark, record: Record, settings: WatchSettings, language_model: LanguageModel
) -> RecordProbe | None:
    """A record's probe; None if the record is too short for a run after the prefix.

    The prefix length counts only the record's own tokens, not a begin-of-sequence token.
    """
    tokenizer = language_model.tokenizer
    (whole,) = record_sequences(record, tokenizer, None)
    ids, begin = whole.ids, len(begin_tokens(tokenizer))
    cut = begin + settings.prefix_tokens
    suffix = ids[cut : cut + settings.new_tokens]
    if ids[-1] == tokenizer.eos_token_id and cut + len(suffix) == len(ids):
        suffix = suffix[:-1]
    if len(suffix) < min(RUN_LENGTHS):
        return None
    key = f"{record.record_id}@{settings.prefix_tokens}"
    opening = Opening(key, record.record_id, ids[begin:cut], suffix)
    return RecordProbe(opening, benchmark.subject(record.record_id), record.fold, cut)
