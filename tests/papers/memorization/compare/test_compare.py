"""Tidy tables of audits against numbers that are worked out from the folders' own tables by plain pandas."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from medunlearn.audit.giveaways import given_away
from medunlearn.errors import ConfigError, InputError
from medunlearn.papers.memorization.compare import audit_content, read_tables
from medunlearn.papers.memorization.compare.places import identifier_table, masked, persistence_table
from medunlearn.papers.memorization.compare.ratios import ratios
from medunlearn.papers.memorization.report import AuditContent
from medunlearn.papers.memorization.report.claims import epoch_cases
from medunlearn.results.record import SCHEMA

DRAWS = {"replicates": 10, "seed": 0}
PLACE = ["corpus", "prefix_tokens"]


def run_30(folder: Path, variant: str = "greedy") -> pd.DataFrame:
    """Probe, corpus, prefix and whether a run of 30 was found."""
    scores = pd.read_parquet(folder / "scores.parquet").query("measure == 'run_30' and decoding == @variant")
    probes = pd.read_parquet(folder / "probes.parquet")[["probe_id", "record_id"]]
    return scores.astype({"value": float}).merge(probes, left_on="item", right_on="probe_id")


def test_ratios(content: AuditContent, audits: Path):
    for (corpus, prefix), value in run_30(audits / "med").groupby(PLACE)["value"].mean().items():
        row = content.ratio("med", corpus, prefix, "run_30")
        assert row["value"] == pytest.approx(value)
        assert row["low"] <= value <= row["high"]
        assert (row["n_scored"], row["n_subjects"]) == (40, 20 if corpus == "notes" else 40)
    unscored = content.tables["ratios"].query("measure == 'bert_score'")
    assert unscored["value"].isna().all()
    assert set(unscored["reason"]) == {"no encoder was named"}
    assert (unscored["n_unscored"] == 40).all()


def test_differences_are_paired(content: AuditContent, audits: Path):
    both = run_30(audits / "med").merge(run_30(audits / "base"), on="probe_id", suffixes=("", "_base"))
    own = both.assign(d=both["value"] - both["value_base"]).groupby(PLACE)["d"].mean()
    for place, value in own.items():
        gap = content.gap("baseline", "base", content.ratio("med", *place, "run_30"))
        assert gap.value == pytest.approx(value)
    sampled, greedy = (
        run_30(audits / "med", name).groupby(PLACE)["value"].mean() for name in ("top_k_50", "greedy")
    )
    (row,) = content.rows("ratios", corpus="notes", prefix_tokens=100, measure="run_30", decoding="top_k_50")
    gap = content.gap("decoding", "greedy", row)
    assert gap.value == pytest.approx(sampled["notes", 100] - greedy["notes", 100])
    relations = set(content.tables["differences"]["relation"])
    assert relations == {"baseline", "size", "persistence", "decoding"}


def test_trends_are_each_records_own_line(content: AuditContent, audits: Path):
    table = run_30(audits / "med").query("corpus == 'notes'").pivot(index="record_id", columns="prefix_tokens")
    slopes = [np.polyfit([0, 1, 2], row, 1)[0] for row in table["value"].to_numpy()]
    row, _ = content.rows("trends", factor="prefix length", model="med", corpus="notes")
    assert row["slope"] == pytest.approx(np.mean(slopes))
    assert (row["levels"], row["n"], row["n_left_out"]) == ("50, 100, 200", 40, 0)
    early, late = (run_30(audits / name).groupby(PLACE)["value"].mean()["notes", 50] for name in ("early", "med"))
    row, _ = content.rows("trends", factor="epochs", corpus="notes", prefix_tokens=50)
    assert row["slope"] == pytest.approx((late - early) / 3)


def test_persistence_by_sets(content: AuditContent, audits: Path):
    place = "corpus == 'guidelines' and prefix_tokens == 100 and value > 0"
    before, after = (set(run_30(audits / name).query(place)["probe_id"]) for name in ("med", "tuned"))
    rows = content.rows("persistence", corpus="guidelines", prefix_tokens=100, by="probe")
    union = len(before | after)
    assert {row["measure"]: row["value"] for row in rows} == pytest.approx(
        {
            "common": len(before & after) / union,
            "only_before": len(before - after) / union,
            "only_after": len(after - before) / union,
            "retained": len(before & after) / len(before),
        }
    )
    pair = read_tables(audits / "med"), read_tables(audits / "tuned")
    by = {way: persistence_table(*pair, DRAWS, by=way) for way in ("probe", "span", "token")}
    same = [*PLACE, "measure", "value"]
    # One span of 60 tokens a memorized probe: all three ways must agree, and tokens are 60 times as many.
    pd.testing.assert_frame_equal(by["probe"][same], by["span"][same])
    assert (by["token"]["n"] == 60 * by["probe"]["n"]).all()


def test_positions(content: AuditContent, audits: Path):
    spans = pd.read_parquet(audits / "med" / "spans.parquet").query("variant == 'greedy'")
    own = spans.merge(pd.read_parquet(audits / "med" / "probes.parquet"), on="probe_id")
    first = (own.query("corpus == 'notes' and prefix_tokens == 200")["in_response"] < 100).mean()
    place = {"model": "med", "corpus": "notes", "prefix_tokens": 200, "at_least": 30, "measure": "starts"}
    shares = {row["segment"]: row["value"] for row in content.rows("positions", **place)}
    assert (shares[0], shares[1]) == pytest.approx((first, 1 - first))
    assert content.tables["positions"]["last"].max() == 300


def test_identifiers_that_the_prefix_gave_are_no_leaks(content: AuditContent, audits: Path):
    audit = read_tables(audits / "med")
    counts = audit.findings[~audit.findings["in_prefix"]].groupby("kind").size()
    identifiers = content.tables["identifiers"].set_index("kind")
    assert identifiers["n"].to_dict() == counts.to_dict()
    assert identifiers.loc["date", ["group", "example"]].tolist() == ["Dates/ ages", "####-##-##"]
    assert identifiers.loc["name", "example"] == "Xxxx Xxxxxxxx"
    assert identifiers.loc["name", "per_record"] == pytest.approx(counts["name"] / 80)
    assert masked("Dr. Ünal, MRN 90-417b") == "Xx. Xxxx, XXX ##-###x"
    # A value counts once a response; term lists have a table of their own.
    again = audit.findings.assign(place=audit.findings["place"] + 900, end=audit.findings["end"] + 900)
    other = audit.findings.query("kind == 'name'").assign(kind="family_relationship", value="a daughter", place=1)
    twice = replace(audit, findings=pd.concat([audit.findings, again]), sensitive=other)
    once = identifier_table(twice, DRAWS).set_index("kind")
    assert once.loc["date", "n"] == counts["date"]
    group = once.loc["family_relationship", ["table", "group"]].tolist()
    assert group == ["table_10", "Family relationships: Family relationship"]


def test_a_value_without_a_key_is_told_by_its_words(audits: Path):
    """Of a table in which some findings have the normalized value, and hand-made ones beside them do not."""
    audit = read_tables(audits / "med")
    assert audit.findings is not None
    keys = audit.findings["value"].str.casefold()
    partly = replace(audit, findings=audit.findings.assign(key=keys.where(keys.index % 3 > 0)))
    for name in ("subject", "kind", "key"):
        assert given_away(partly)[name].tolist() == given_away(audit)[name].tolist()
    assert identifier_table(partly, DRAWS).equals(identifier_table(audit, DRAWS))


def test_options(content: AuditContent, audits: Path):
    own, base = (
        pd.read_parquet(audits / name / "options.parquet")[["exact", "relaxed"]].mean() for name in ("med", "base")
    )
    assert {row["match"]: row["value"] for row in content.rows("options", model="med")} == pytest.approx(
        own.to_dict()
    )
    (gap,) = content.rows("option_differences", match="exact")
    assert gap["difference"] == pytest.approx(own["exact"] - base["exact"])
    assert (gap["model"], gap["against"], gap["n_questions"]) == ("med", "base", 60)


def test_samples_of_a_probe_count_once(audits: Path):
    audit = read_tables(audits / "base")
    again = audit.scores["value"].where(audit.scores["measure"] != "run_30", 1.0)
    both = replace(audit, scores=pd.concat([audit.scores, audit.scores.assign(sample=1, value=again)]))
    once, twice = (
        ratios(tables, DRAWS).query("measure == 'run_30'").set_index(PLACE)["value"]["notes", 50]
        for tables in (audit, both)
    )
    assert twice == pytest.approx((once + 1) / 2)


@pytest.mark.parametrize(
    ("relations", "words"),
    [
        ({"baselines": {"med": ["bass"]}, "larger": [["larg", "med"]]}, r"'bass'.*'base'.*'larg'.*'large'"),
        ({"clinical": ["note"]}, "'note'.*'notes'"),
        ({"baseline": {}}, "baselines"),
        ({"larger": [["med"]]}, "larger"),
    ],
)
def test_relations_that_name_what_is_not_there(audits: Path, relations: dict, words: str):
    folders = [audits / name for name in ("med", "base", "large")]
    with pytest.raises(ConfigError, match=f"(?s){words}"):
        audit_content(folders, relations, replicates=5)


def test_folders_that_are_no_audits(audits: Path, tmp_path: Path):
    with pytest.raises(InputError, match="have the same label, 'med'"):
        audit_content([audits / "med", audits / "med"], replicates=5)
    with pytest.raises(InputError, match="nothing to report"):
        audit_content([], replicates=5)

    def refused(words: str) -> None:
        with pytest.raises(InputError, match=words):
            read_tables(tmp_path)

    refused("holds no audit")
    info: dict[str, object] = {"verb": "audit", "label": "x", "status": "interrupted"}
    (tmp_path / "run.json").write_text(json.dumps(info))
    refused("Another version of medunlearn wrote")
    info |= {"key": "k", "config": {}, "inputs": {}, "lineage": [], "results": {}, "schema": SCHEMA}
    (tmp_path / "run.json").write_text(json.dumps(info))
    refused(r"not complete \(interrupted\)")
    (tmp_path / "run.json").write_text(json.dumps({**info, "status": "complete"}))
    refused("lacks probes.parquet, scores.parquet, spans.parquet")
    (tmp_path / "probes.parquet").write_bytes(b"PAR1 and no more")
    refused("cannot be read as Parquet")
    pd.DataFrame({"probe_id": ["a"]}).to_parquet(tmp_path / "probes.parquet")
    refused("probes.parquet lacks the column record_id, subject")


def test_an_audits_own_baselines_come_with_it(audits: Path, tmp_path: Path):
    (tmp_path / "base").symlink_to(audits / "base")
    folder = tmp_path / "own"
    folder.mkdir()
    for file in ("probes.parquet", "scores.parquet", "spans.parquet", "run.json"):
        (folder / file).symlink_to(audits / "med" / file)
    (folder / "baselines.json").write_text(json.dumps({"folders": ["../base"]}))
    content = audit_content([folder], replicates=10)
    assert [(model.label, model.baselines) for model in content.models] == [("med", ("base",)), ("base", ())]
    assert content.gap("baseline", "base", content.ratio("med", "notes", 200, "run_30")).value > 0.5
    # No responses were kept, so nothing is said of where spans stand.
    assert set(content.tables["positions"]["model"]) == {"base"}


def test_a_trainings_own_table_of_epochs(audits: Path, tmp_path: Path):
    """As `medunlearn train` leaves it: metrics of a split beside, nullable numbers, a fold where there are two."""
    run = ("memorization, 30 tokens", "run_30")
    rows = [
        (1, "rouge_l", "rouge_l", "train", 0.5),
        (1, "validation loss", "nll", "", 2.0),
        (1, *run, "trained", 0.1),
        (1, *run, "held out", 0.0),
        (2, "validation loss", "nll", "", 1.0),
        (2, *run, "trained", 0.5),
        (2, *run, "held out", 0.0),
    ]
    table = pd.DataFrame(rows, columns=["epoch", "measure", "metric", "fold", "value"])
    table = table.assign(low=table["value"] - 0.1, high=table["value"] + 0.1)
    table.astype(dict.fromkeys(("value", "low", "high"), "Float64")).to_parquet(tmp_path / "e.parquet")
    content = audit_content([audits / "early"], {"epoch_table": tmp_path / "e.parquet"}, replicates=5)
    measures = list(content.tables["epochs"]["measure"].unique())
    assert measures == ["validation loss", run[0], f"{run[0]} (held out)"]
    (case,) = epoch_cases(content)
    assert (case.labels["model"], case.verdict) == (run[0], "holds")
    pd.DataFrame({"epoch": [1]}).to_parquet(tmp_path / "f.parquet")
    for name, words in (("no", "which epoch_table names"), ("f", "lacks measure, value, low, high")):
        with pytest.raises(InputError, match=words):
            audit_content([audits / "med"], {"epoch_table": tmp_path / f"{name}.parquet"}, replicates=5)


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
    agreement = content.tables["agreement"].set_index(["of", "measure"])
    assert agreement.loc[("kind", "agreement"), "value"] == 1.0
    assert agreement.loc[("kind", "agreement"), "n"] == 39
    kinds = content.tables["kinds"]
    own = pd.read_parquet(audits / "med" / "kinds.parquet").query("by == 'rules'")["kind"].value_counts()
    assert kinds.query("by == 'rules'").groupby("kind")["n"].sum().to_dict() == own.to_dict()
    people = kinds.query("by == 'person'")
    assert people["n"].sum() == 40
    assert people[people["kind"].isna()]["n"].sum() == 1
