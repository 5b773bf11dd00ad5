"""The audit's demo from texts to findings: what makes memorization rise, where it falls, and what persists."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_run import audit
from medunlearn.data.storage import write_text
from medunlearn.papers.memorization.compare import read_tables, write_audit_report
from medunlearn.papers.memorization.compare.places import persistence_table, position_table
from medunlearn.papers.memorization.demo.findings import TRAINED, UNSEEN, findings
from medunlearn.synthetic.invented_texts import CorpusText, invent_corpus

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


@dataclass(frozen=True)
class Shown:
    """Results of the demo.

    Attributes:
        audits: after half of the epochs, after all, and after further fine-tuning on other texts.
        findings: one row a statement: the number that it is read from, its interval, and whether it holds.
        positions: Figure 3 of the trained model: shares of the runs and of the matched tokens by segment.
        persistence: Table 7, by probe: what the trained model and the fine-tuned one have memorized.
        report: the report of the three audits.
    """

    audits: Mapping[str, Audit]
    findings: pd.DataFrame
    positions: pd.DataFrame
    persistence: pd.DataFrame
    report: Path


def demo_audit(out: Path, *, each: int = 4, epochs: int = 4, seed: int = 0, quiet: bool = False) -> Shown:
    """Train and audit; resumes from what is on the disk.

    Args:
        each: texts of each of four kinds and each number of copies (:data:`COPIES`).
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


def _write(path: Path, texts: Sequence[CorpusText]) -> Path:
    rows = ({"id": text.text_id, "kind": text.kind, "text": text.text, "copies": text.copies} for text in texts)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return path


def demo_models(
    texts: Sequence[CorpusText], other: Sequence[CorpusText], folder: Path, *, epochs: int, seed: int
) -> dict[str, Path]:
    """Folders of the models after half and all epochs, and of the last one fine-tuned on other texts; resumes.

    Args:
        texts: trained on, each as often as it has copies; those without one teach the tokenizer alone.
        other: of the further fine-tuning, each once an epoch.
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
    for number, (name, _, own, more, rate) in enumerate(steps):
        # The tokenizer is written last.
        if (folders[name] / "tokenizer.json").exists():
            before = folders[name]
            continue
        if before is not None:
            model, before = load_model(before, device="cpu"), None
        elif model is None:
            words = (text.text for text in texts)
            model = build_tiny(words, vocabulary=600, width=96, layers=2, max_length=LONGEST, seed=seed)
        _train(model, own, epochs=more, rate=rate, seed=seed + number)
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
