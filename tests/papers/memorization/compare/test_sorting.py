"""Kinds of an audit's spans: kept beside it, by three ways that do not disturb each other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from fake_server import FakeServer

from medunlearn.audit.kinds.sorting import agreement_of_ways
from medunlearn.config import check
from medunlearn.config.audit_report import KindSettings
from medunlearn.llm.client import Client
from medunlearn.llm.guard import decide
from medunlearn.llm.settings import ServerSettings
from medunlearn.papers.memorization.compare import judge_spans, read_tables, sort_spans
from medunlearn.papers.memorization.report import AuditContent

SETTINGS = check(KindSettings, {"clinical": ["notes"]})


def test_rules_use_what_the_audit_knows(content: AuditContent, audits: Path):
    table = pd.read_parquet(audits / "med" / "kinds.parquet").query("by == 'rules'")
    spans = pd.read_parquet(audits / "med" / "spans.parquet")
    assert len(table) == len(spans)
    named = table.merge(spans, on=["probe_id", "variant", "sample"])
    # The disclaimer stands in ten records; the other texts name their record.
    disclaimers = named[named["text"].str.contains("all rights reserved")]
    assert set(disclaimers["kind"]) == {"editorial"}
    assert set(disclaimers["records"]) == {10}
    walks = named[named["text"].str.contains("walked two miles")]
    assert set(walks["kind"]) == {"clinical_narrative"}
    # The date is a leak in every note that has one, the name where the prefix did not give it.
    notes = named[named["text"].str.contains("Tarnwick")]
    assert set(notes["kind"]) == {"patient_information"}
    doses = named[named["text"].str.contains("5 mg")]
    assert set(zip(doses["kind"], doses["group"], strict=True)) == {("drug", "beneficial")}


def test_ways_agree_but_for_the_span_that_the_person_left_out(content: AuditContent, audits: Path):
    found = content.tables["agreement"].set_index(["of", "measure"])
    assert found.loc[("kind", "agreement"), "value"] == 1.0
    assert found.loc[("kind", "agreement"), "n"] == 39
    kinds = content.tables["kinds"]
    own = pd.read_parquet(audits / "med" / "kinds.parquet").query("by == 'rules'")["kind"].value_counts()
    assert kinds.query("by == 'rules'").groupby("kind")["n"].sum().to_dict() == own.to_dict()
    people = kinds.query("by == 'person'")
    assert people["n"].sum() == 40
    assert people[people["kind"].isna()]["n"].sum() == 1


@pytest.fixture
def copy(audits: Path, content: AuditContent, tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    shutil.copytree(audits / "base", folder)
    return folder


def test_a_judge_is_kept_beside_the_rules(copy: Path):
    sort_spans(read_tables(copy), SETTINGS)

    def answer(body: dict) -> str:
        text = body["messages"][-1]["content"]
        kind = "editorial" if "rights" in text else "unclear" if "gene" in text else "clinical_narrative"
        return json.dumps({"kind": kind, "reason": "so it reads"})

    with FakeServer(answer=answer) as server:
        settings = check(ServerSettings, {"base_url": server.base_url, "model": "m"})
        decision = decide(server.base_url, data_use="credentialed")
        with Client(settings, decision) as client:
            judge_spans(read_tables(copy), SETTINGS, client, quiet=True)
    table = pd.read_parquet(copy / "kinds.parquet")
    assert set(table["by"]) == {"rules", "judge"}
    judged = table[table["by"] == "judge"]
    assert len(judged) == len(table) / 2
    unclear = judged[judged["kind"].isna()]
    assert set(unclear["reason"]) <= {"the model finds that no kind fits"}
    assert set(agreement_of_ways(read_tables(copy), replicates=10)["of"]) == {"kind", "group"}
    # Sorting by rules again replaces what rules said, and nothing else.
    sort_spans(read_tables(copy), check(KindSettings, {"datasets": ["notes"]}))
    again = pd.read_parquet(copy / "kinds.parquet")
    assert len(again) == len(table)
    assert "dataset_artifact" in set(again.query("by == 'rules'")["kind"])


def test_the_whole_corpus_shows_what_the_sample_does_not(copy: Path):
    text = read_tables(copy).spans["text"].iloc[0]
    corpus = read_tables(copy).probes.set_index("probe_id")["corpus"][read_tables(copy).spans["probe_id"].iloc[0]]
    whole = {corpus: {f"record {n}": f"before {text} after" for n in range(7)}}
    row = sort_spans(read_tables(copy), SETTINGS, whole).iloc[0]
    assert row["records"] == 7
    assert row["kind"] == "editorial"
