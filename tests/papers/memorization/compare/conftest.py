"""Folders of audits, written by hand in the form of `medunlearn audit`: what is memorized is set, not trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from medunlearn.config import check
from medunlearn.config.audit import KindSettings
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.papers.memorization.compare import audit_content, read_spans, read_tables, sort_spans, span_sheet
from medunlearn.papers.memorization.report import AuditContent
from medunlearn.results.record import SCHEMA
from medunlearn.results.scores import write_scores
from medunlearn.seeds import generator

PREFIXES = (50, 100, 200)
CORPORA = {"guidelines": 40, "notes": 40}
DISCLAIMER = (
    "This text is provided for educational purposes and is not a substitute for advice; all rights reserved by the "
    "publisher, who takes no liability."
)
TEXTS = {
    "guidelines": (
        DISCLAIMER,
        "The dose is 5 mg orally twice daily; it is contraindicated in renal impairment; adverse reactions: few.",
        "Clinicians should assess every patient and consider referral; monitoring is recommended by the guideline.",
        "The gene encodes a protein kinase of the membrane pathway, and mutations change its receptor.",
    ),
    "notes": (
        "Mrs Ulve Tarnwick came with <pain> in the left knee and was sent home on 2031-04-05 in good order.",
        "He walked two miles to the well and back, and on the third day the swelling had gone from the ankle.",
    ),
}
PATIENT, BIRTHDAY = "Ulve Tarnwick", "2031-04-05"

LABELS = ("base", "med", "large", "tuned", "early")
REPLICATES = 100

Rate = Callable[[str, int], float]


def records() -> list[tuple[str, str, str]]:
    """record, subject, corpus; two notes a patient."""
    guidelines = [(f"g{n}", f"g{n}", "guidelines") for n in range(CORPORA["guidelines"])]
    return guidelines + [(f"n{n}", f"patient-{n // 2}", "notes") for n in range(CORPORA["notes"])]


@cache
def hardness(record: str) -> float:
    """Difficulty of extracting a record, 0-1; a model repeats it where its rate is above this."""
    return float(generator("hardness of", record).random())


def write_audit(
    folder: Path,
    label: str,
    rate: Rate,
    *,
    variants: Mapping[str, float] = {"greedy": 1.0},
    options: float | None = None,
    findings: bool = False,
) -> Path:
    """One audit. ``rate(corpus, prefix)`` is the share of records that greedy decoding draws out."""
    probes, scores, spans, responses, suffixes = [], [], [], [], []
    for number, (record, subject, corpus) in enumerate(records()):
        text = TEXTS[corpus][number % len(TEXTS[corpus])]
        # A set phrase is the same in every record, and the rest is a record's own.
        text = text if text == DISCLAIMER else f"Section {record} says. {text}"
        for prefix in PREFIXES:
            probe = f"{record}@{prefix}"
            probes.append((probe, record, subject, corpus, prefix, list(range(60))))
            suffixes.append(text)
            for variant, factor in variants.items():
                repeated = hardness(record) < rate(corpus, prefix) * factor
                measures = {name: float(repeated) for name in ("run_30", "run_50")}
                measures["rouge_l"] = 0.9 if repeated else 0.15
                scores += [(probe, variant, measure, value, None) for measure, value in measures.items()]
                scores.append((probe, variant, "bert_score", None, "no encoder was named"))
                if repeated:
                    spans.append((probe, variant, 60, 150 if number % 10 == 3 else 0, text))
                response = text if repeated else "something else"
                responses.append(Response(probe, variant, 0, response, tuple(range(300)), finished=False))
    store_audit(folder, label, probes, scores, spans, responses, suffix=suffixes)
    if options is not None:
        write_options(folder, options)
    if findings:
        write_findings(folder, spans)
    return folder


def store_audit(
    folder: Path,
    label: str,
    probes: list[tuple[Any, ...]],
    scores: list[tuple[Any, ...]],
    spans: list[tuple[Any, ...]],
    responses: list[Response],
    **columns: list[Any],
) -> Path:
    """Files of an audit.

    Args:
        probes: probe, record, subject, corpus, prefix, tokens of the suffix.
        scores: probe, decoding, measure, value, reason.
        spans: probe, decoding, length, place in the response, text.
        columns: more columns of the probes.
    """
    folder.mkdir(parents=True)
    names = ["probe_id", "record_id", "subject", "corpus", "prefix_tokens", "suffix_tokens"]
    table = pd.DataFrame(probes, columns=names).assign(**{"prefix": "p", "suffix": "s"} | columns)
    table.to_parquet(folder / "probes.parquet")
    rows = pd.DataFrame(scores, columns=["item", "decoding", "measure", "value", "reason"]).assign(sample=0)
    labels = table[["probe_id", "subject", "corpus", "prefix_tokens"]].rename(columns={"probe_id": "item"})
    write_scores(folder, rows.merge(labels, on="item"))
    runs = pd.DataFrame(spans, columns=["probe_id", "variant", "length", "in_response", "text"])
    runs.assign(sample=0, in_suffix=0).to_parquet(folder / "spans.parquet")
    ResponseStore(folder / "responses", {"made": "by hand"}).add(responses)
    empty: dict[str, Any] = {"key": "by hand", "inputs": {}, "lineage": [], "schema": SCHEMA}
    info = {"verb": "audit", "label": label, "status": "complete", "config": {"max_new_tokens": 300}}
    unit = {"unit": {"name": "tokens of a tokenizer", "noun": "tokens"}}
    (folder / "run.json").write_text(json.dumps({**info, **empty, "results": unit}))
    return folder


def write_options(folder: Path, rate: float) -> None:
    rows = [(f"q{n}", "ABCD"[n % 4], hardness(f"q{n}") < rate, hardness(f"q{n}") < rate + 0.1) for n in range(60)]
    table = pd.DataFrame(rows, columns=["question_id", "removed", "exact", "relaxed"])
    table.assign(prompt="plain", response="something", reason=None).to_parquet(folder / "options.parquet")


def write_findings(folder: Path, spans: list[tuple[Any, ...]]) -> None:
    """The name and the date of every note that was drawn out; half of the names stood in the prefix."""
    rows = []
    for probe, variant, _, _, text in spans:
        record = probe.partition("@")[0]
        for kind, value in (("name", PATIENT), ("date", BIRTHDAY)):
            if value in text:
                place = text.index(value)
                in_prefix = kind == "name" and int(record[1:]) % 4 == 0
                rows.append((record, probe, variant, kind, place, place + len(value), value, in_prefix))
    names = ["record_id", "probe_id", "variant", "kind", "place", "end", "value", "in_prefix"]
    table = pd.DataFrame(rows, columns=names).assign(sample=0, match="exact", in_record=True)
    table.to_parquet(folder / "findings.parquet")


def rising(corpus: str, prefix: int) -> float:
    return {50: 0.4, 100: 0.6, 200: 0.8}[prefix]


DECODINGS = {"greedy": 1.0, "temperature_0.7": 0.99, "top_k_50": 0.3}


@pytest.fixture(scope="session")
def audits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five audits: base, med (trained), large, tuned (med, fine-tuned further), and early (med after one epoch)."""
    root = tmp_path_factory.mktemp("audits")
    write_audit(root / "base", "base", lambda corpus, prefix: 0.05, options=0.2)
    write_audit(root / "med", "med", rising, variants=DECODINGS, options=0.6, findings=True)
    write_audit(root / "large", "large", lambda corpus, prefix: rising(corpus, prefix) + 0.15)
    write_audit(root / "tuned", "tuned", lambda corpus, prefix: rising(corpus, prefix) * 0.9)
    write_audit(root / "early", "early", lambda corpus, prefix: rising(corpus, prefix) * 0.3)
    epochs = [
        (epoch, measure, value, value - 0.02, value + 0.02)
        for measure, values in {
            "run_30": (0.05, 0.2, 0.4, 0.5),
            "run_30 (held out)": (0.05, 0.05, 0.05, 0.05),
            "validation_loss": (2.0, 1.6, 1.4, 1.5),
            "top_1": (0.4, 0.5, 0.55, 0.52),
        }.items()
        for epoch, value in enumerate(values, start=1)
    ]
    pd.DataFrame(epochs, columns=["epoch", "measure", "value", "low", "high"]).to_parquet(root / "epochs.parquet")
    (root / "relations.yaml").write_text(
        "baselines: {med: [base], large: [base]}\n"
        "larger: [[large, med]]\n"
        "persistence: [[med, tuned]]\n"
        "epochs: {training of med: {early: 1, med: 4}}\n"
        "epoch_table: epochs.parquet\n"
        "clinical: [notes]\n"
    )
    return root


@pytest.fixture(scope="session")
def content(audits: Path) -> AuditContent:
    """Report content of the five, with kinds by rules and by a person who agrees but for one span."""
    med = read_tables(audits / "med")
    settings = check(KindSettings, {"clinical": ["notes"]})
    by_rules = sort_spans(med, settings)
    sheet = audits / "sheet.csv"
    span_sheet(med, settings, sheet, sample=40)
    spans = by_rules[["probe_id", "variant", "sample", "span"]].astype(str).agg("/".join, axis=1)
    answers = dict(zip(spans, by_rules["kind"], strict=True))
    ids = pd.read_csv(sheet)["span_id"]
    kinds = ["unclear", *ids[1:].map(answers)]
    pd.DataFrame({"span_id": ids, "kind": kinds}).to_csv(sheet, index=False)
    read_spans(med, settings, sheet)
    folders = [audits / label for label in LABELS]
    return audit_content(folders, audits / "relations.yaml", title="An <audit>", replicates=REPLICATES)
