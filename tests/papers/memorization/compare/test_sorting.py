"""Kinds of an audit's spans by rules and by a person, beside it and in its report."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from medunlearn.papers.memorization.report import AuditContent


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
