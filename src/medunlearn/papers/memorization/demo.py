"""The audit's demo: a tiny model trained on invented texts, audited during training and after further fine-tuning.

It demonstrates which factors increase memorization, where it decreases, and what persists.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_run import audit
from medunlearn.audit.audit_tables import AuditTables
from medunlearn.audit.audit_view import audit_view
from medunlearn.config.reading import check_at_least
from medunlearn.data.storage import write_text
from medunlearn.papers.memorization.compare import read_tables, write_audit_report
from medunlearn.papers.memorization.compare.places import persistence_table, position_table
from medunlearn.papers.memorization.compare.ratios import Resampling, greedy_runs
from medunlearn.papers.memorization.compare.trends import position_trends
from medunlearn.papers.memorization.report.content import PRIMARY, Row, evidence_of
from medunlearn.reports.claims import Evidence, settle
from medunlearn.reports.json import plain
from medunlearn.reports.readings import number, rows_of
from medunlearn.reports.view import ResultView, plain_table
from medunlearn.results.contrasts import Draws, Stratum, Term
from medunlearn.statistics import paired_difference
from medunlearn.synthetic.invented_texts import CorpusText, invent_corpus
from medunlearn.terminal import with_interval

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel

COPIES = (0, 1, 6, 16)
PREFIXES = (8, 40)
SENTENCES, NEW_TOKENS = 21, 200
"""Texts of some 300 tokens: two whole segments of 100 tokens follow the longest prefix in nearly all."""
OTHER_TEXTS = 12
"""Texts of each kind that the trained model is fine-tuned on further."""
LONGEST = 512
"""Tokens that the model can hold, and of a training text at most."""
RATE, BATCH = 4e-3, 2
"""Of the training; small batches, since steps and not tokens are what a model this small lacks."""
FURTHER_RATE, FURTHER_EPOCHS = RATE / 10, 1
"""Of the further fine-tuning: gentler than the training, as it usually is."""
HALF, WHOLE, FURTHER = "half", "whole", "further"
TRAINED, UNSEEN = "trained", "unseen"
COLUMNS = ("statement", "difference", "low", "high", "n", "verdict")
Rows = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class Shown:
    """Results of the audit demo.

    Attributes:
        audits: after half of the epochs, after all, and after further fine-tuning on other texts.
        findings: one row per statement: its number, interval, and whether it holds.
        positions: Figure 3 of the trained model: shares of the runs and of the matched tokens by segment.
        persistence: Table 7, by probe: memorization by the trained model and the fine-tuned one.
        report: the report of the three audits.
    """

    audits: Mapping[str, Audit]
    findings: pd.DataFrame
    positions: pd.DataFrame
    persistence: pd.DataFrame
    report: Path

    def view(self) -> ResultView:
        """The demo's audit, places, persistence and statements, for the terminal."""
        starts, tokens = (
            self.positions.query("measure == @name").to_dict("records") for name in ("starts", "tokens")
        )
        positions = [
            (
                row["corpus"],
                row["prefix_tokens"],
                f"{row['first']}-{row['last']}",
                *map(with_interval, (row, other)),
            )
            for row, other in zip(starts, tokens, strict=True)
        ]
        persistence = [
            (row["prefix_tokens"], row["measure"].replace("_", " "), with_interval(row), row["n"])
            for row in rows_of(self.persistence)
        ]
        statements = [
            (row["statement"], with_interval(row, "difference"), row["n"], row["verdict"])
            for row in rows_of(self.findings)
        ]
        names = ("findings", "positions", "persistence")
        return ResultView(
            {"report": str(self.report), **{name: plain(getattr(self, name)) for name in names}},
            [
                *audit_view(self.audits[WHOLE]).blocks,
                plain_table(
                    ("corpus", "prefix", "tokens", "of all runs", "of all matched tokens"),
                    positions,
                    "where memorized runs of 30 start, and where matched tokens are (Figure 3)",
                ),
                plain_table(
                    ("prefix", "share", "of the union", "probes"),
                    persistence,
                    "what is memorized before or after further fine-tuning, runs of 50 (Table 7)",
                ),
                plain_table(
                    ("what", "difference", "texts", "it"),
                    statements,
                    "Is it so? Each difference is above 0 where it is",
                ),
                f"{self.report}: the same with figures",
            ],
        )


def demo_audit(out: Path, *, each: int = 4, epochs: int = 4, seed: int = 0, quiet: bool = False) -> Shown:
    """Train and audit the demo's models; resumes.

    Args:
        each: number of texts for each of four kinds and each number of copies (:data:`COPIES`).
        epochs: passes over the training set, copies included.
    """
    texts = invent_corpus(each, COPIES, sentences=SENTENCES, seed=seed)
    other = invent_corpus(OTHER_TEXTS, (1,), sentences=SENTENCES, seed=seed + 1)
    corpora = [
        _write(out / "corpus" / f"{UNSEEN}.jsonl", [text for text in texts if not text.copies]),
        _write(out / "corpus" / f"{TRAINED}.jsonl", [text for text in texts if text.copies]),
    ]
    models = demo_models(texts, other, out / "models", epochs=epochs, seed=seed)
    settings: dict[str, Any] = {"prefixes": PREFIXES, "max_new_tokens": NEW_TOKENS, "batch_size": 160, "seed": seed}
    settings["allow_broken"] = True  # a model that has learned little yet stops no demo
    audits = {
        name: audit(model, corpora, out=out / "audits" / model.name, quiet=quiet, **settings)
        for name, model in models.items()
    }
    relations = {
        "persistence": [[audits[WHOLE].label, audits[FURTHER].label]],
        "epochs": {"training": {audits[HALF].label: epochs // 2, audits[WHOLE].label: epochs}},
    }
    folders = [audited.run.folder for audited in audits.values()]
    report = write_audit_report(
        folders, out / "report", relations, title="Memorization of invented texts", seed=seed
    )
    half, whole, further = map(read_tables, folders)
    draws = {"seed": seed}
    lasting = persistence_table(whole, further, draws)
    positions, of_trained = position_table(whole, draws, (30,)), lasting[lasting["corpus"] == TRAINED]
    return Shown(audits, findings(half, whole, lasting, draws), positions, of_trained, report)


def run_demo(
    out: Path, *, texts: int | None = None, epochs: int | None = None, seed: int = 0, quiet: bool = False
) -> Shown:
    """``medunlearn demo audit``.

    Raises:
        ConfigError: too few texts or epochs.
    """
    check_at_least({"--texts": (texts, 2), "--epochs": (epochs, 2)})
    return demo_audit(out, each=texts or 4, epochs=epochs or 4, seed=seed, quiet=quiet)


def _write(path: Path, texts: Sequence[CorpusText]) -> Path:
    rows = ({"id": text.text_id, "kind": text.kind, "text": text.text, "copies": text.copies} for text in texts)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return path


def demo_models(
    texts: Sequence[CorpusText], other: Sequence[CorpusText], folder: Path, *, epochs: int, seed: int
) -> dict[str, Path]:
    """Folders of the models after half and all epochs, and of the last one fine-tuned on other texts; resumes.

    Args:
        texts: training texts, each repeated by its number of copies; those with 0 copies train only the tokenizer.
        other: texts of the further fine-tuning, each once per epoch.
    """
    from medunlearn.models.load import load_model
    from medunlearn.models.tiny import build_tiny

    half = epochs // 2
    steps = (
        (HALF, f"epoch_{half:02d}", texts, half, RATE),
        (WHOLE, f"epoch_{epochs:02d}", texts, epochs - half, RATE),
        (FURTHER, "further", other, FURTHER_EPOCHS, FURTHER_RATE),
    )
    model: LanguageModel | None = None
    before: Path | None = None
    folders = {name: folder / label for name, label, *_ in steps}
    for step, (name, _, own, more, rate) in enumerate(steps):
        # The tokenizer is written last.
        if (folders[name] / "tokenizer.json").exists():
            before = folders[name]
            continue
        if before is not None:
            model, before = load_model(before, device="cpu"), None
        elif model is None:
            words = (text.text for text in texts)
            model = build_tiny(words, vocabulary=600, width=96, layers=2, max_length=LONGEST, seed=seed)
        _train(model, own, epochs=more, rate=rate, seed=seed + step)
        model.save(folders[name])
    return folders


def _train(model: LanguageModel, texts: Sequence[CorpusText], *, epochs: int, rate: float, seed: int) -> None:
    from medunlearn.data.records import Record
    from medunlearn.models.sequences import record_sequences
    from medunlearn.training.batch_plan import Plan
    from medunlearn.training.loop import train_loop
    from medunlearn.training.loop_settings import LoopSettings
    from medunlearn.training.objectives import NextToken

    pieces = [
        piece
        for text in texts
        for copy in range(text.copies)
        for piece in record_sequences(Record(f"{text.text_id}.{copy}", text.text, {}), model.tokenizer, LONGEST)
    ]
    plan = Plan({"train": pieces}, BATCH, epochs, seed)
    settings = LoopSettings(lr=rate, precision="fp32", seed=seed)
    train_loop(model.model, model.tokenizer.pad_token_id, NextToken(), plan, settings)


def findings(half: AuditTables, whole: AuditTables, lasting: pd.DataFrame, draws: Resampling) -> pd.DataFrame:
    """One row per statement: statement, difference (above 0 if it is true), low, high, n texts, verdict.

    Args:
        half, whole: audits after half and all epochs.
        lasting: Table 7 of the trained and the further fine-tuned model.
    """
    values, before = (greedy_runs(audit, [PRIMARY]).dropna(subset="value") for audit in (whole, half))
    rows = [
        *_by_copies(values, draws),
        *_paired_differences(values[values["copies"] > 0], before[before["copies"] > 0], draws),
        *_by_position(pd.DataFrame(position_trends(whole, draws))),
        *_persistence(lasting),
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _by_copies(values: pd.DataFrame, draws: Resampling) -> Rows:
    """Differences between texts of one number of copies and of the next smaller one."""
    subjects = values.groupby("copies")["subject"].nunique()
    names = {0: "unseen", 1: "1 copy"}
    means = Draws(values, ["copies"], seeds=None, **draws)
    for fewer, more in itertools.pairwise(sorted(map(int, subjects.index))):
        pair = Stratum.of(draws["seed"], copies=(more, fewer))
        gap = means.contrast([Term(sign, {"copies": n}, PRIMARY, pair) for sign, n in ((1, more), (-1, fewer))])
        copies, other = (names.get(level, f"{level} copies") for level in (more, fewer))
        n = int(subjects[more] + subjects[fewer])
        yield _row(f"{PRIMARY}: {copies} more than {other}", gap.value, gap.low, gap.high, n)


def _paired_differences(after: pd.DataFrame, before: pd.DataFrame, draws: Resampling) -> Rows:
    """Differences by record: longest against shortest prefix, and all epochs against half."""
    table = after.pivot_table(index="record_id", columns="prefix_tokens", values="value")
    shorter, longer = table.columns.min(), table.columns.max()
    whole, half = (part.groupby("record_id")["value"].mean() for part in (after, before))
    for statement, first, second in (
        (f"prefix of {longer} more than of {shorter}", table[longer], table[shorter]),
        ("all epochs more than half", whole, half.reindex(whole.index)),
    ):
        records = [str(record) for record in first.index]
        gap = paired_difference(first.to_numpy(), second.to_numpy(), records, **draws)
        yield _row(f"{PRIMARY}: {statement}", gap.value, gap.low, gap.high, gap.n_clusters)


def _by_position(trends: pd.DataFrame) -> Rows:
    for row in _longest(trends):
        statement = f"memorized tokens fall a segment further on (prefix of {row['prefix_tokens']})"
        # A fall is a slope below 0; turned round, so that above 0 is for the statement as everywhere.
        edges = (number(row[name]) for name in ("slope", "high", "low"))
        fall, low, high = (None if edge is None else -edge for edge in edges)
        yield _row(statement, fall, low, high, row["n_subjects"])


def _persistence(lasting: pd.DataFrame) -> Rows:
    for row in _longest(lasting[lasting["measure"] == "common"]):
        statement = f"common over the union above a half, run_{row['at_least']} (prefix of {row['prefix_tokens']})"
        evidence = evidence_of(statement, row, "value", minus=0.5)
        yield _row(statement, evidence.value, evidence.low, evidence.high, row["n_subjects"])


def _row(statement: str, difference: float | None, low: float | None, high: float | None, n: int) -> dict[str, Any]:
    verdict = settle([Evidence(statement, difference, low, high, n)])
    return dict(zip(COLUMNS, (statement, difference, low, high, n, verdict), strict=True))


def _longest(table: pd.DataFrame) -> Iterable[Row]:
    """Rows of the training texts at the longest prefix, where memorization is highest; the tables have all of
    them.
    """
    of_trained = table[table["corpus"] == TRAINED]
    return rows_of(of_trained[of_trained["prefix_tokens"] == of_trained["prefix_tokens"].max()])
