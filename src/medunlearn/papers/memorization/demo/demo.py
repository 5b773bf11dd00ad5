"""The audit's demo from texts to findings: what makes memorization rise, where it falls, and what persists."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.audit import Audit
from medunlearn.audit.run import audit
from medunlearn.data.storage import write_text
from medunlearn.papers.memorization.compare import read_tables, write_audit_report
from medunlearn.papers.memorization.compare.places import persistence_table, position_table
from medunlearn.papers.memorization.demo.findings import TRAINED, UNSEEN, findings
from medunlearn.papers.memorization.demo.models import FURTHER, HALF, WHOLE, demo_models
from medunlearn.synthetic.corpus import CorpusText, invent_corpus

COPIES = (0, 1, 6, 16)
PREFIXES = (8, 40)
SENTENCES, NEW_TOKENS = 21, 200
"""Texts of some 300 tokens: two whole segments of 100 tokens follow the longest prefix in nearly all."""
OTHER_TEXTS = 12
"""Texts of each kind that the trained model is fine-tuned on further."""


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
    positions, own = position_table(whole, draws, (30,)), lasting[lasting["corpus"] == TRAINED]
    return Shown(audits, findings(half, whole, lasting, draws), positions, own, report)


def _write(path: Path, texts: Sequence[CorpusText]) -> Path:
    rows = ({"id": text.text_id, "kind": text.kind, "text": text.text, "copies": text.copies} for text in texts)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return path
