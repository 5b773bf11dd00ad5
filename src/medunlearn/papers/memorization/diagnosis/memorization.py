"""Probes of memorization while a model is trained: the beginning of a record in, its continuation or not out.

Each probe gives the first tokens of a record's text; the model goes on greedily; counted is whether a run of 30
(50) consecutive tokens of the true continuation stands in what it says. The same probes on records that no model is
trained on say how much of that comes of wording which records share.

Source: Memorization in Large Language Models in Medicine, Section 3.3 and Figure 7 (A).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from medunlearn.audit.verbatim import RUN_LENGTHS, runs_of_at_least
from medunlearn.config import WatchSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.splits import shuffled
from medunlearn.data.storage import sha256_of_json, write_atomically
from medunlearn.generation.decode import decode, greedy_prefix
from medunlearn.models.ancestry import model_use
from medunlearn.models.load import LanguageModel
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import TokenSequence, record_sequences
from medunlearn.progress import progress
from medunlearn.results.runs import Run
from medunlearn.results.summary import summarize

PROBES = "memorization.parquet"
VARIANT = "greedy"
_ROUND = 8
_COLUMNS = (
    *("level", "node", "measure", "side", "fold", "kind", "metric", "value", "low", "high"),
    *("n_scored", "n_unscored", "n_subjects", "replicates_dropped", "parts"),
)


def epoch_rows(summary: pd.DataFrame, titles: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Rows of the table of epochs for measures that are of no split.

    Args:
        summary: as :func:`~medunlearn.results.summary.summarize` has it, without labels or by fold.
        titles: measure of the summary -> its name and metric in the table of epochs.
    """
    names = {"measure": summary["measure"].map(lambda measure: titles[measure][0])}
    names["metric"] = summary["measure"].map(lambda measure: titles[measure][1])
    empty = {name: "" for name in _COLUMNS if name not in summary and name not in names}
    table = summary.assign(**names, **empty)[list(_COLUMNS)]
    return table.astype(dict.fromkeys(("value", "low", "high"), "Float64"))


@dataclass(frozen=True, slots=True)
class RecordProbe:
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


@dataclass(frozen=True)
class Memorization:
    """The share of records of which a run of 30 (50) tokens comes back, 0-1, higher = memorizes more.

    A record whose continuation is shorter than a run has no score for it.
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
        """Probes of a seeded sample of the records that are trained on, and of those that never are."""
        outside = [record for record in benchmark.records if record.fold == "holdout"]
        probes = []
        for group, side in (("trained", records), ("held out", outside)):
            order = shuffled([record.record_id for record in side], "probes", group, settings.seed)
            sample = set(order[: settings.limit])
            records_sampled = (record for record in side if record.record_id in sample)
            probes += [make_probe(benchmark, record, settings, language_model) for record in records_sampled]
        return Memorization(tuple(probe for probe in probes if probe), settings, quiet)

    def __call__(self, run: Run, live: LanguageModel) -> pd.DataFrame:
        responses = self._responses(run, live)
        tokens = [responses[probe.sequence.key].response_tokens for probe in self.probes]
        runs = runs_of_at_least(tokens, [probe.suffix for probe in self.probes])
        # One row a probe, without text.
        table = pd.DataFrame(
            {
                "probe_id": [probe.sequence.key for probe in self.probes],
                **{
                    name: [getattr(probe, name) for probe in self.probes]
                    for name in ("record_id", "subject", "fold")
                },
                "prefix_tokens": [probe.sequence.scored_from for probe in self.probes],
                "suffix_tokens": [len(probe.suffix) for probe in self.probes],
            }
        )
        measures = {f"run_{length}": length for length in RUN_LENGTHS}
        for place, (name, length) in enumerate(measures.items()):
            hits = pd.Series(runs[:, place], dtype="float64").where(table["suffix_tokens"] >= length)
            table[name] = hits.astype("Float64")
        write_atomically(run.folder / PROBES, table.to_parquet)
        scores = table.rename(columns={"probe_id": "item"}).melt(
            ["item", "subject", "fold"], list(measures), "measure"
        )
        summary = summarize(scores, ["fold"], replicates=self.settings.replicates, seed=self.settings.seed)
        titles = {name: (f"memorization, {length} tokens", name) for name, length in measures.items()}
        return epoch_rows(summary.sort_values(["measure", "fold"], ignore_index=True), titles)

    def _responses(self, run: Run, live: LanguageModel) -> dict[str, Response]:
        settings = {
            "model": run.fingerprint,
            "prefix_tokens": self.settings.prefix_tokens,
            "max_new_tokens": self.settings.new_tokens,
            "decoding": VARIANT,
        }
        folder = run.folder / "probes" / sha256_of_json(settings)[:12]
        store = ResponseStore(folder, settings, data_use=model_use(run.folder))
        responses = {probe_id: response for (probe_id, _, _), response in store.read().items()}
        missing = [probe.sequence for probe in self.probes if probe.sequence.key not in responses]
        size = self.settings.probe_batch_size
        with progress(f"{run.label}: probes", len(missing), quiet=self.quiet) as advance:
            for start in range(0, len(missing), _ROUND * size):
                for batch in self._round(live, missing[start : start + _ROUND * size]):
                    store.add(batch)
                    responses |= {response.question_id: response for response in batch}
                    advance(len(batch))
        return responses

    def _round(self, live: LanguageModel, sequences: Sequence[TokenSequence]) -> Iterator[list[Response]]:
        size = self.settings.probe_batch_size
        scores = score_answers(live, sequences, batch_size=size)
        begun = [
            greedy_prefix(s.ids[s.scored_from :], score.choices) for s, score in zip(sequences, scores, strict=True)
        ]
        prompts, new_tokens = [sequence.prompt for sequence in sequences], self.settings.new_tokens
        for batch in decode(live, prompts, begun=begun, max_new_tokens=new_tokens, batch_size=size):
            yield [
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


def make_probe(
    benchmark: Benchmark, record: Record, settings: WatchSettings, language_model: LanguageModel
) -> RecordProbe | None:
    """A record's probe; None for a record that is too short for a run behind the prefix.

    A prefix is of the record's own tokens: a begin-of-sequence token stands before it and is not counted.
    """
    (whole,) = record_sequences(record, language_model.tokenizer, None)
    begin = int(whole.ids[0] == language_model.tokenizer.bos_token_id)
    cut = begin + settings.prefix_tokens
    ids = whole.ids[: cut + settings.new_tokens]
    ends = len(ids) == len(whole.ids) and ids[-1] == language_model.tokenizer.eos_token_id
    suffix = ids[cut:-1] if ends else ids[cut:]
    if len(suffix) < min(RUN_LENGTHS):
        return None
    sequence = TokenSequence(f"{record.record_id}@{settings.prefix_tokens}", ids, 0, cut)
    return RecordProbe(sequence, suffix, record.record_id, benchmark.subject(record.record_id), record.fold)
