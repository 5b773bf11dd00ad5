"""Tidy tables of audits against numbers that are worked out from the folders' own tables by plain pandas."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from medunlearn.errors import ConfigError, InputError
from medunlearn.papers.memorization.compare import audit_content, read_tables
from medunlearn.papers.memorization.compare.places import persistence_table
from medunlearn.papers.memorization.compare.ratios import Draws, ratios
from medunlearn.papers.memorization.compare.sensitive import identifier_table, masked
from medunlearn.papers.memorization.compare.trends import duplication_trends
from medunlearn.papers.memorization.report import AuditContent
from medunlearn.papers.memorization.report.claims import epoch_cases


def run_30(folder: Path, variant: str = "greedy") -> pd.DataFrame:
    """Probe, corpus, prefix and whether a run of 30 was found."""
    scores = pd.read_parquet(folder / "scores.parquet").query("measure == 'run_30' and decoding == @variant")
    probes = pd.read_parquet(folder / "probes.parquet")[["probe_id", "record_id"]]
    return scores.astype({"value": float}).merge(probes, left_on="item", right_on="probe_id")


def test_ratios(content: AuditContent, audits: Path):
    own = run_30(audits / "med").groupby(["corpus", "prefix_tokens"])["value"].mean()
    for (corpus, prefix), value in own.items():
        reading = content.reading("med", corpus, prefix, "run_30")
        assert reading.value == pytest.approx(value)
        assert reading.low <= value <= reading.high
        assert reading.n_scored == 40
        assert reading.n_subjects == (20 if corpus == "notes" else 40)


def test_what_was_not_scored_says_why(content: AuditContent):
    table = content.ratios.query("measure == 'bert_score'")
    assert table["value"].isna().all()
    assert set(table["reason"]) == {"no encoder was named"}
    assert (table["n_unscored"] == 40).all()


def test_differences_are_paired(content: AuditContent, audits: Path):
    both = run_30(audits / "med").merge(run_30(audits / "base"), on="probe_id", suffixes=("", "_base"))
    own = both.assign(d=both["value"] - both["value_base"]).groupby(["corpus", "prefix_tokens"])["d"].mean()
    for (corpus, prefix), value in own.items():
        gap = content.gap("baseline", "med", "base", corpus, prefix, "run_30")
        assert gap.value == pytest.approx(value)
    relations = set(content.differences["relation"])
    assert relations == {"baseline", "size", "persistence", "decoding"}


def test_decodings_are_held_against_greedy(content: AuditContent, audits: Path):
    drawn, greedy = run_30(audits / "med", "top_k_50"), run_30(audits / "med")
    at = (drawn["corpus"] == "notes") & (drawn["prefix_tokens"] == 100)
    expected = drawn[at]["value"].mean() - greedy[at.to_numpy()]["value"].mean()
    gap = content.gap("decoding", "med", "greedy", "notes", 100, "run_30", "top_k_50")
    assert gap.value == pytest.approx(expected)


def test_the_trend_over_prefixes_is_each_records_own_line(content: AuditContent, audits: Path):
    table = run_30(audits / "med").query("corpus == 'notes'").pivot(index="record_id", columns="prefix_tokens")
    slopes = [np.polyfit([0, 1, 2], row, 1)[0] for row in table["value"].to_numpy()]
    row = content.trends.query("factor == 'prefix length' and model == 'med' and corpus == 'notes'").iloc[0]
    assert row["slope"] == pytest.approx(np.mean(slopes))
    assert (row["levels"], row["n"], row["n_left_out"]) == ("50, 100, 200", 40, 0)


def test_the_trend_over_epochs_is_a_step_an_epoch(content: AuditContent, audits: Path):
    early, late = (
        run_30(audits / name).query("corpus == 'notes' and prefix_tokens == 50") for name in ("early", "med")
    )
    row = content.trends.query("factor == 'epochs' and corpus == 'notes' and prefix_tokens == 50").iloc[0]
    assert row["slope"] == pytest.approx((late["value"].mean() - early["value"].mean()) / 3)


def test_persistence_by_sets(content: AuditContent, audits: Path):
    told = {}
    for name in ("med", "tuned"):
        table = run_30(audits / name).query("corpus == 'guidelines' and prefix_tokens == 100")
        told[name] = set(table[table["value"] > 0]["probe_id"])
    rows = content.persistence.query("corpus == 'guidelines' and prefix_tokens == 100 and by == 'probe'")
    value = rows.set_index("measure")["value"]
    union = told["med"] | told["tuned"]
    assert value["common"] == pytest.approx(len(told["med"] & told["tuned"]) / len(union))
    assert value["only_before"] == pytest.approx(len(told["med"] - told["tuned"]) / len(union))
    assert value["retained"] == pytest.approx(len(told["med"] & told["tuned"]) / len(told["med"]))
    assert set(content.persistence["by"]) == {"probe", "span", "token"}


def test_positions(content: AuditContent, audits: Path):
    spans = pd.read_parquet(audits / "med" / "spans.parquet").query("variant == 'greedy'")
    own = spans.merge(pd.read_parquet(audits / "med" / "probes.parquet"), on="probe_id")
    own = own.query("corpus == 'notes' and prefix_tokens == 200")
    place = (
        "model == 'med' and corpus == 'notes' and prefix_tokens == 200 and at_least == 30 and measure == 'starts'"
    )
    found = content.positions.query(place).set_index("segment")["value"]
    assert found[0] == pytest.approx((own["in_response"] < 100).mean())
    assert found[1] == pytest.approx((own["in_response"] >= 100).mean())
    assert content.positions["last"].max() == 300


def test_identifiers_that_the_prefix_gave_are_no_leaks(content: AuditContent, audits: Path):
    table = pd.read_parquet(audits / "med" / "findings.parquet")
    counts = table[~table["in_prefix"]].groupby("kind").size()
    found = content.identifiers.set_index("kind")
    assert found["n"].to_dict() == counts.to_dict()
    assert found.loc["date", "group"] == "Dates/ ages"
    assert found.loc["date", "example"] == "####-##-##"
    assert found.loc["name", "example"] == "Xxxx Xxxxxxxx"
    assert found.loc["name", "per_record"] == pytest.approx(counts["name"] / 80)


def test_a_mask_keeps_no_letter_and_no_digit():
    assert masked("Dr. Ünal, MRN 90-417b") == "Xx. Xxxx, XXX ##-###x"


def test_options(content: AuditContent, audits: Path):
    own = pd.read_parquet(audits / "med" / "options.parquet")
    found = content.options.query("model == 'med'").set_index("match")
    assert found.loc["exact", "value"] == pytest.approx(own["exact"].mean())
    assert found.loc["relaxed", "value"] == pytest.approx(own["relaxed"].mean())
    base = pd.read_parquet(audits / "base" / "options.parquet")
    gap = content.option_differences.set_index("match").loc["exact"]
    assert gap["difference"] == pytest.approx(own["exact"].mean() - base["exact"].mean())
    assert (gap["model"], gap["against"], gap["n_questions"]) == ("med", "base", 60)


def test_duplication_is_a_regression_on_log2_of_copies(audits: Path, tmp_path: Path):
    audit = read_tables(audits / "med")
    copies = {record: 2 ** (number % 4) for number, record in enumerate(sorted(set(audit.probes["record_id"])))}
    probes = audit.probes.assign(copies=audit.probes["record_id"].map(copies))
    known = read_tables(audits / "med").__class__(
        audit.folder, audit.label, audit.info, probes, audit.scores, audit.spans
    )
    found = (
        duplication_trends(known, ("run_30",), Draws(50)).query("corpus == 'notes' and prefix_tokens == 50").iloc[0]
    )
    own = run_30(audits / "med").query("corpus == 'notes' and prefix_tokens == 50")
    slope = np.polyfit(np.log2(own["record_id"].map(copies)), own["value"], 1)[0]
    assert found["slope"] == pytest.approx(slope)
    assert found["levels"] == "1, 2, 4, 8"
    assert duplication_trends(audit, ("run_30",), Draws(50)).empty


def test_samples_of_a_probe_count_once(audits: Path):
    audit = read_tables(audits / "base")
    again = audit.scores.assign(
        sample=1, value=audit.scores["value"].where(audit.scores["measure"] != "run_30", 1.0)
    )
    both = pd.concat([audit.scores, again], ignore_index=True)
    twice = audit.__class__(audit.folder, audit.label, audit.info, audit.probes, both, audit.spans)
    value = ratios(twice, Draws(10)).query("measure == 'run_30'").set_index(["corpus", "prefix_tokens"])["value"]
    once = ratios(audit, Draws(10)).query("measure == 'run_30'").set_index(["corpus", "prefix_tokens"])["value"]
    assert value["notes", 50] == pytest.approx((once["notes", 50] + 1) / 2)


def test_by_token_and_by_span(audits: Path):
    pair = read_tables(audits / "med"), read_tables(audits / "tuned")
    by = {way: persistence_table(*pair, Draws(10), by=way) for way in ("probe", "span", "token")}
    same = ["corpus", "prefix_tokens", "measure", "value"]
    # One span of 60 tokens a memorized probe: all three ways must agree, and tokens are 60 times as many.
    pd.testing.assert_frame_equal(by["probe"][same], by["span"][same])
    assert (by["token"]["n"] == 60 * by["probe"]["n"]).all()


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
    with pytest.raises(InputError, match="holds no audit"):
        read_tables(tmp_path)
    with pytest.raises(InputError, match="have one label, 'med'"):
        audit_content([audits / "med", audits / "med"], replicates=5)
    with pytest.raises(InputError, match="nothing to report"):
        audit_content([], replicates=5)


def test_an_audit_that_is_not_whole(audits: Path, tmp_path: Path):
    (tmp_path / "run.json").write_text(json.dumps({"verb": "audit", "label": "x", "status": "interrupted"}))
    with pytest.raises(InputError, match=r"not complete \(interrupted\)"):
        read_tables(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"verb": "audit", "label": "x", "status": "complete"}))
    with pytest.raises(InputError, match=r"lacks probes.parquet, scores.parquet, spans.parquet"):
        read_tables(tmp_path)
    (tmp_path / "probes.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_tables(tmp_path)
    pd.DataFrame({"probe_id": ["a"]}).to_parquet(tmp_path / "probes.parquet")
    with pytest.raises(InputError, match=r"probes.parquet lacks record_id, subject"):
        read_tables(tmp_path)


def test_an_audits_own_baselines_come_with_it(audits: Path, tmp_path: Path):
    for name in ("med", "base"):
        (tmp_path / name).symlink_to(audits / name)
    folder = tmp_path / "own"
    folder.mkdir()
    for file in ("probes", "scores", "spans"):
        (folder / f"{file}.parquet").symlink_to(audits / "med" / f"{file}.parquet")
    (folder / "run.json").symlink_to(audits / "med" / "run.json")
    (folder / "baselines.json").write_text(json.dumps({"folders": ["../base"]}))
    content = audit_content([folder], replicates=10)
    assert [(model.label, model.baselines) for model in content.models] == [("med", ("base",)), ("base", ())]
    assert content.gap("baseline", "med", "base", "notes", 200, "run_30").value > 0.5
    # No responses were kept, so nothing is said of where spans stand.
    assert set(content.positions["model"]) == {"base"}


def test_a_trainings_own_table_of_epochs(audits: Path, tmp_path: Path):
    """As `medunlearn train` leaves it: metrics of a split beside, nullable numbers, a fold where there are two."""
    rows = [
        (1, "rouge_l", "rouge_l", "train", 0.5),
        (1, "validation loss", "nll", "", 2.0),
        (1, "memorization, 30 tokens", "run_30", "trained", 0.1),
        (1, "memorization, 30 tokens", "run_30", "held out", 0.0),
        (2, "validation loss", "nll", "", 1.0),
        (2, "memorization, 30 tokens", "run_30", "trained", 0.5),
        (2, "memorization, 30 tokens", "run_30", "held out", None),
    ]
    table = pd.DataFrame(rows, columns=["epoch", "measure", "metric", "fold", "value"])
    table = table.assign(low=table["value"] - 0.1, high=table["value"] + 0.1)
    table.astype(dict.fromkeys(("value", "low", "high"), "Float64")).to_parquet(tmp_path / "e.parquet")
    content = audit_content([audits / "early"], {"epoch_table": tmp_path / "e.parquet"}, replicates=5)
    assert list(content.epochs["measure"].unique()) == [
        *("validation loss", "memorization, 30 tokens", "memorization, 30 tokens (held out)"),
    ]
    (case,) = epoch_cases(content)
    assert (case.labels["model"], case.verdict) == ("memorization, 30 tokens", "holds")


def test_a_value_counts_once_a_response(audits: Path, content: AuditContent):
    audit = read_tables(audits / "med")
    again = audit.findings.assign(place=audit.findings["place"] + 900, end=audit.findings["end"] + 900)
    other = audit.findings.query("kind == 'name'").assign(kind="family_relationship", value="a daughter", place=1)
    twice = audit.__class__(
        audit.folder, audit.label, audit.info, audit.probes, audit.scores, audit.spans,
        findings=pd.concat([audit.findings, again]), sensitive=other,
    )  # fmt: skip
    found = identifier_table(twice, Draws(10)).set_index("kind")
    once = content.identifiers.set_index("kind")
    assert found.loc["date", "n"] == once.loc["date", "n"]
    assert (found.loc["family_relationship", "table"], found.loc["family_relationship", "group"]) == (
        *("table_10", "Family relationships: Family relationship"),
    )


def test_a_table_of_epochs_that_is_none(audits: Path, tmp_path: Path):
    with pytest.raises(InputError, match="which epoch_table names"):
        audit_content([audits / "med"], {"epoch_table": tmp_path / "no.parquet"}, replicates=5)
    pd.DataFrame({"epoch": [1]}).to_parquet(tmp_path / "e.parquet")
    with pytest.raises(InputError, match="lacks measure, value, low, high"):
        audit_content([audits / "med"], {"epoch_table": tmp_path / "e.parquet"}, replicates=5)
