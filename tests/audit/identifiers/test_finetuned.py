"""A LoRA fine-tuned model regenerates the identifiers of its patients: by plain search here, and by ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.audit.identifiers.findings import leaked
from medunlearn.audit.identifiers.kinds import kind_of
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.audit.identifiers.search import find_identifiers
from medunlearn.audit.identifiers.tables import by_kind, by_subject, table9
from medunlearn.config import AmnesiaSettings, check
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.benchmark import Benchmark

BEGINNING = 170  # characters of a note: who it is about, and where
PREFIX, LONGEST = 8, 70  # tokens
COMMON = {"epochs": 0, "precision": "fp32", "tiny_vocabulary": 800}
BASE = {"model": "tiny", "tiny_width": 96, "tiny_layers": 2, "pretrain_epochs": 25, "lr": 6e-3, "batch_size": 6}
LORA = {"pretrain_epochs": 120, "lr": 1e-2, "trainable": "lora:48", "batch_size": 4}


def beginnings(**settings: int) -> Benchmark:
    from medunlearn.papers.amnesia.build import build

    benchmark = build(AmnesiaSettings(**settings))
    records = []
    for record in benchmark.records:
        text = record.text[:BEGINNING]
        known = tuple(one for one in record.identifiers if one.value in text)
        records.append(replace(record, text=text, identifiers=known))
    return replace(benchmark, records=tuple(records))


def continuations(model_folder: Path, patients: Benchmark) -> list[RecordResponse]:
    from medunlearn.generation.decode import decode_greedily
    from medunlearn.models.load import load_model
    from medunlearn.models.sequences import record_sequences

    model: Any = load_model(str(model_folder))
    prefixes = [record_sequences(record, model.tokenizer, None)[0].ids[:PREFIX] for record in patients.records]
    decoded = dict(pair for batch in decode_greedily(model, prefixes, max_new_tokens=LONGEST) for pair in batch)
    outputs = []
    for place, record in enumerate(patients.records):
        texts = (model.tokenizer.decode(prefixes[place]), model.tokenizer.decode(decoded[place].tokens))
        subject = patients.subject(record.record_id)
        outputs.append(RecordResponse(record.record_id, record.record_id, subject, "greedy", 0, *texts))
    return outputs


def test_a_lora_on_four_patients_leaks_their_identifiers(tmp_path: Path) -> None:
    import torch

    from medunlearn.pipeline.presets import train_settings
    from medunlearn.pipeline.train import train

    torch.set_num_threads(1)
    patients, strangers = beginnings(synthetic=4), beginnings(synthetic=24, seed=1)
    base = train(strangers, train_settings({**COMMON, **BASE}), tmp_path / "base", quiet=True).model
    settings = train_settings({**COMMON, **LORA, "model": str(base)})
    lora = train(patients, settings, tmp_path / "lora", quiet=True).model
    leaks = {}
    for model in (base, lora):
        outputs = continuations(model, patients)
        found = leaked(find_identifiers(outputs, patients.records, check(IdentifierSettings, {"detectors": []})))
        exact = found[found["match"] == "exact"]
        leaks[model] = set(zip(exact["record_id"], exact["kind"], exact["value"], strict=True))
        assert leaks[model] == {
            (output.record_id, kind_of(known.type).name, known.value)
            for output in outputs
            for known in patients.record[output.record_id].identifiers
            if known.value in output.response and known.value not in output.prefix
        }
        total = len(found.drop_duplicates(["probe_id", "kind", "key"]))
        tables = [table(found, outputs, replicates=50)["frequency"].sum() for table in (by_kind, table9)]
        assert [*tables, by_subject(found)["all"].sum()] == [total] * 3
    assert not leaks[base]
    assert len(leaks[lora]) >= 6
    assert {kind for _, kind, _ in leaks[lora]} >= {"name", "date"}
