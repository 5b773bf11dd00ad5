"""The audit's demo: a tiny model trained on invented texts in several copies, audited after half and all epochs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from medunlearn.data.storage import write_text
from medunlearn.data.synthetic.corpus import CorpusText, invent_corpus
from medunlearn.experiments.audit.audit import Audit
from medunlearn.experiments.audit.run import audit
from medunlearn.statistics import paired_difference
from medunlearn.statistics.bootstrap import interval
from medunlearn.statistics.joint import Table, resample_together

COPIES = (0, 1, 4, 16)
PREFIXES = (10, 40)
MEASURE = "run_30"


@dataclass(frozen=True)
class Shown:
    """What the demo found.

    Attributes:
        audits: after half of the epochs, and after all.
        findings: one row a statement: the difference that it is read from, its interval, and whether it holds.
    """

    audits: tuple[Audit, Audit]
    findings: pd.DataFrame


def demo_audit(out: Path, *, each: int = 6, epochs: int = 8, seed: int = 0, quiet: bool = False) -> Shown:
    """Train and audit; resumes from what is on the disk.

    Args:
        each: texts of each of four kinds and each number of copies (0, 1, 4, 16).
        epochs: passes over the training set, copies included.
    """
    texts = invent_corpus(each, COPIES, seed=seed)
    for copies in COPIES:
        _write(out / "corpus" / f"{_name(copies)}.jsonl", [text for text in texts if text.copies == copies])
    models = [out / "models" / f"epoch_{epoch:02d}" for epoch in (0, epochs // 2, epochs)]
    _train(texts, models, epochs, seed)
    settings: dict[str, Any] = {"prefixes": PREFIXES, "max_new_tokens": 60, "seed": seed}
    corpora = [out / "corpus" / f"{_name(copies)}.jsonl" for copies in COPIES]
    half, whole = (
        audit(model, corpora, out=out / "audits" / model.name, baseline=models[0], quiet=quiet, **settings)
        for model in models[1:]
    )
    return Shown((half, whole), findings(half, whole))


def findings(half: Audit, whole: Audit) -> pd.DataFrame:
    """One row a statement: more copies, longer prefixes and more epochs make more runs of 30 tokens."""
    values = _values(whole)
    rows = []
    for fewer, more in itertools.pairwise(COPIES):
        gap = _unpaired(values[values["corpus"] == _name(more)], values[values["corpus"] == _name(fewer)])
        rows.append({"statement": f"{_name(more)} more than {_name(fewer)}", **gap})
    seen = values[values["corpus"] != _name(0)]
    by_length = seen.pivot_table(index=["record_id"], columns="prefix_tokens", values="value")
    shorter, longer = PREFIXES
    rows.append(
        {"statement": f"prefix {longer} more than {shorter}", **_paired(by_length[longer], by_length[shorter])}
    )
    before = _values(half).set_index("probe_id")["value"]
    after = seen.set_index("probe_id")["value"]
    records = seen["record_id"].tolist()
    rows.append({"statement": "all epochs more than half", **_paired(after, before.reindex(after.index), records)})
    table = pd.DataFrame(rows)
    return table.assign(verdict=[_verdict(row["low"], row["high"]) for row in rows])


def _verdict(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "not measurable"
    return "holds" if low > 0 else "does not hold" if high < 0 else "open"


def _values(one: Audit) -> pd.DataFrame:
    scores = one.scores()
    return scores[scores["measure"] == MEASURE].merge(one.probes(), on="probe_id")


def _paired(one: pd.Series, other: pd.Series, subjects: Sequence[str] | None = None) -> dict[str, Any]:
    found = paired_difference(one.to_numpy(), other.to_numpy(), subjects or [str(name) for name in one.index])
    return {"difference": found.difference, "low": found.low, "high": found.high, "n": found.n_clusters}


def _unpaired(one: pd.DataFrame, other: pd.DataFrame) -> dict[str, Any]:
    tables = [Table(part[["value"]].to_numpy(np.float64), part["subject"].tolist()) for part in (one, other)]
    first, second = resample_together(tables)
    gaps = (first.draws - second.draws)[:, 0]
    low, high = interval(gaps[~np.isnan(gaps)], 0.95)
    n = int(first.n_subjects[0] + second.n_subjects[0])
    return {"difference": float(first.point[0] - second.point[0]), "low": low, "high": high, "n": n}


def _name(copies: int) -> str:
    return "unseen" if not copies else f"copies_{copies:02d}"


def _write(path: Path, texts: Sequence[CorpusText]) -> None:
    rows = ({"id": one.text_id, "kind": one.kind, "text": one.text} for one in texts)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _train(texts: Sequence[CorpusText], models: Sequence[Path], epochs: int, seed: int) -> None:
    if _is_whole(models[-1]):
        return
    from medunlearn.data.records import Record
    from medunlearn.models.load import load_model
    from medunlearn.models.sequences import record_sequences
    from medunlearn.models.tiny import build_tiny
    from medunlearn.training.loop import train_loop
    from medunlearn.training.objectives import NextToken
    from medunlearn.training.plan import Plan
    from medunlearn.training.settings import LoopSettings

    model = build_tiny((one.text for one in texts), vocabulary=600, width=96, layers=2, max_length=512, seed=seed)
    if not _is_whole(models[0]):
        model.save(models[0])
    pieces = [
        piece
        for one in texts
        for copy in range(one.copies)
        for piece in record_sequences(Record(f"{one.text_id}.{copy}", one.text, {}), model.tokenizer, 512)
    ]
    for part, folder in enumerate(models[1:]):
        if _is_whole(folder):
            model = load_model(folder, device="cpu")
            continue
        plan = Plan({"train": pieces}, 8, epochs - epochs // 2 if part else epochs // 2, seed + part)
        settings = LoopSettings(lr=5e-3, precision="fp32", seed=seed)
        train_loop(model.model, model.tokenizer.pad_token_id, NextToken(), plan, settings)
        model.save(folder)


def _is_whole(folder: Path) -> bool:
    # The tokenizer is written last.
    return (folder / "tokenizer.json").exists()
