"""A LoRA fine-tuned model regenerates the identifiers of its patients: by plain search here, and by ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from medunlearn.audit.identifiers.findings import Output, leaked
from medunlearn.audit.identifiers.kinds import kind_of
from medunlearn.audit.identifiers.search import find_identifiers
from medunlearn.audit.identifiers.tables import CountOptions, by_kind, by_subject, table9
from medunlearn.config import check
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.data.benchmark import Benchmark


def verbatim(patients: Benchmark, outputs: Sequence[Output]) -> set[tuple[str, str, str]]:
    """Record, kind and value of what stands letter for letter in a response and not in its prefix."""
    return {
        (output.record_id, kind_of(one.type).name, one.value)
        for output in outputs
        for one in patients.record[output.record_id].identifiers
        if one.value in output.response and one.value not in output.prefix
    }


def test_a_lora_on_four_patients_gives_their_identifiers_away_by_kind(
    patients: Benchmark, continued: Callable[[str], Sequence[Output]]
) -> None:
    settings = check(IdentifierSettings, {"detectors": []})
    count, kinds = {}, {}
    for name in ("base", "lora"):
        outputs = continued(name)
        found = leaked(find_identifiers(outputs, patients.records, settings))
        exact = found[found["match"] == "exact"]
        told = set(zip(exact["record_id"], exact["kind"], exact["value"], strict=True))
        assert told == verbatim(patients, outputs)
        count[name] = len(told)
        kinds[name] = set(exact["kind"])
        table = by_kind(found, outputs, options=CountOptions(replicates=50)).set_index("kind")
        assert table["frequency"].sum() == len(found.drop_duplicates(["probe_id", "kind", "key"]))
        assert (
            table9(found, outputs, options=CountOptions(replicates=50))["frequency"].sum()
            == table["frequency"].sum()
        )
        assert by_subject(found)["all"].sum() == table["frequency"].sum()
    assert count["base"] == 0
    assert count["lora"] >= 6
    assert {"name", "date"} <= kinds["lora"]
