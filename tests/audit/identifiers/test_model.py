"""A model regenerates identifiers of the texts that it was trained on: by plain search here, and by ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medunlearn.audit.identifiers.findings import leaked
from medunlearn.audit.identifiers.leak_tables import by_kind, by_subject, table9
from medunlearn.audit.identifiers.outputs import RecordResponse
from medunlearn.audit.identifiers.search import find_identifiers
from medunlearn.config import check
from medunlearn.config.audit import IdentifierSettings
from medunlearn.data.records import Identifier, Record


def continuations(folder: Path, records: list[Record]) -> list[RecordResponse]:
    from medunlearn.generation.decode import decode
    from medunlearn.models.load import load_model
    from medunlearn.models.sequences import record_sequences

    model: Any = load_model(str(folder))
    prefixes = [record_sequences(record, model.tokenizer, None)[0].ids[:20] for record in records]
    decoded = dict(pair for batch in decode(model, prefixes, max_new_tokens=60) for pair in batch)
    texts = [(prefix, decoded[place].tokens) for place, prefix in enumerate(prefixes)]
    return [
        RecordResponse(*[record.record_id] * 3, "greedy", 0, *map(model.tokenizer.decode, own))
        for record, own in zip(records, texts, strict=True)
    ]


def test_a_model_leaks_identifiers_of_its_training_texts_alone(world: Any) -> None:
    records = []
    for path in sorted(world.seen.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        places = tuple(Identifier("address", sentence.strip(".")) for sentence in text.split(". ")[1:])
        records.append(Record(path.stem, text, {}, places))
    settings = check(IdentifierSettings, {"detectors": [], "fuzzy": "none"})
    leaks = {}
    for model in (world.before, world.model):
        outputs = continuations(model, records)
        leaked_findings = leaked(find_identifiers(outputs, records, settings, quiet=True))
        leaks[model] = set(zip(leaked_findings["record_id"], leaked_findings["value"], strict=True))
        assert leaks[model] == {
            (record.record_id, identifier.value)
            for record, output in zip(records, outputs, strict=True)
            for identifier in record.identifiers
            if identifier.value in output.response and identifier.value not in output.prefix
        }
        total = len(leaked_findings.drop_duplicates(["probe_id", "kind", "key"]))
        tables = [table(leaked_findings, outputs, replicates=50)["frequency"].sum() for table in (by_kind, table9)]
        assert [*tables, by_subject(leaked_findings)["all"].sum()] == [total] * 3
    assert not leaks[world.before]
    assert {record for record, _ in leaks[world.model]} == {record.record_id for record in records}
