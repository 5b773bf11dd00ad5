"""An audit of a local model: its findings, its files, and that it resumes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medunlearn import Audit, audit
from medunlearn.data.responses import ResponseStore
from medunlearn.errors import ConfigError, InputError


@pytest.fixture(scope="module")
def result(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    out = tmp_path_factory.mktemp("audits") / "audit"
    corpora = [f"seen={world.seen}", f"unseen={world.unseen}"]
    return audit(world.model, corpora, out=out, baseline=world.before, quiet=True, **world.settings)


def test_memorized_texts_are_found_and_others_are_not(result: Audit) -> None:
    table = result.table()
    own = table[(table["model"] == "model") & (table["decoding"] == "greedy")]
    means = own.set_index(["corpus", "measure", "prefix_tokens"])["value"]
    for length in (10, 20):
        assert means["seen", "run_30", length] >= 0.75
        assert means["unseen", "run_30", length] == 0.0
        for measure in ("partial_match_50", "extraction_strength", "rouge_l", "bleu", "longest_run"):
            assert means["seen", measure, length] > means["unseen", measure, length]
    assert set(table["unit"]) == {"tokens"}


def test_the_baseline_stands_beside_it(result: Audit) -> None:
    table = result.table()
    assert set(table["model"]) == {"model", "before"}
    own = table[(table["model"] == "model") & (table["corpus"] == "seen") & (table["measure"] == "run_30")]
    assert (own["baseline"] == "before").all()
    np.testing.assert_allclose(own["difference"], own["value"])
    assert (own["difference_low"] > 0).all()
    assert (own["n_pairs"] == 8).all()
    assert result.differences(result.baselines[0])["p"].dropna().between(0, 1).all()
    paper = result.paper_table()
    own = paper[(paper["model"] == "model") & (paper["measure"] == "rouge_l")]
    assert (own[own["corpus"] == "seen"]["p_rank_sum"] < 1e-6).all()
    unseen = own[own["corpus"] == "unseen"]
    assert ((unseen["low"] < unseen["value"]) & (unseen["value"] < unseen["high"])).all()


def test_spans_stand_where_they_say(result: Audit) -> None:
    spans = result.spans()
    probes, responses = (table.set_index("probe_id") for table in (result.probes(), result.responses()))
    assert len(spans)
    for row in spans.to_dict("records"):
        probe, reported = probes.loc[row["probe_id"]], responses.loc[row["probe_id"]]
        start, place, length = row["in_suffix"], row["in_response"], row["length"]
        assert length >= 30
        shared = list(reported["response_tokens"][place : place + length])
        assert list(probe["suffix_tokens"][start : start + length]) == shared
        assert row["text"] in probe["suffix"]
        assert row["text"] in reported["response"]
    runs = result.scores().query("measure == 'run_30' and value == 1")
    assert set(spans["probe_id"]) == set(runs["item"])


def test_probes_and_responses_are_the_contracts_tables(result: Audit, world: Any) -> None:
    probes = result.probes()
    assert list(probes.columns) == [
        *("probe_id", "record_id", "subject", "corpus", "prefix_tokens", "prefix", "suffix", "copies"),
        *("suffix_tokens", "way"),
    ]
    for row in probes.to_dict("records"):
        whole = (getattr(world, row["corpus"]) / f"{row['record_id']}.txt").read_text()
        assert whole.startswith(row["prefix"] + row["suffix"])
        assert len(row["suffix_tokens"]) == 60
    assert len(result.starts()) == len(probes) == len(result.responses()) == 24
    results = result.run.info.results
    assert results["probes"] == 24
    assert results["unit"] == {"name": "tokens of model", "noun": "tokens"}
    assert results["corpora"][0]["too_short"] == 0
    assert (result.run.folder.stat().st_mode & 0o077) == 0


def test_a_chat_template_that_is_not_used_is_said(
    result: Audit, world: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from medunlearn.audit.audit_tables import read_tables
    from medunlearn.cli.output import Output
    from medunlearn.cli.show_audits import audit as show
    from medunlearn.config.audit import AuditRelations
    from medunlearn.papers.memorization.compare.gather import caveats
    from medunlearn.reports.rank_tables import UNUSED_CHAT

    def reported(result: Audit) -> list[bool]:
        show(result, Output())
        tables = [read_tables(audited.run.folder) for audited in (result, *result.baselines)]
        report = list(caveats(tables, AuditRelations(), pd.DataFrame({"n_subjects": [], "value": []})))
        return [UNUSED_CHAT in " ".join(capsys.readouterr().out.split()), report.count(UNUSED_CHAT) == 1]

    assert reported(result) == [True, True]
    plain = tmp_path / "plain"
    shutil.copytree(world.model, plain)
    (plain / "chat_template.jinja").unlink()
    again = audit(plain, f"seen={world.seen}", out=tmp_path / "audit", quiet=True, **world.settings)
    assert again.run.info.results["model"]["chat_template"] == "none"
    assert reported(again) == [False, False]


def test_greedy_responses_are_those_of_plain_decoding(result: Audit, world: Any) -> None:
    """The greedy prefix from one pass over a text changes no token."""
    from medunlearn.generation.decode import decode
    from medunlearn.models.load import load_model

    model = load_model(world.model, device="cpu")
    probes, reported = result.probes(), result.responses().set_index("probe_id")
    ids = [model.tokenizer(text, add_special_tokens=False)["input_ids"] for text in probes["prefix"]]
    for batch in decode(model, ids, max_new_tokens=60):
        for place, decoded in batch:
            assert tuple(reported.loc[probes["probe_id"][place], "response_tokens"]) == decoded.tokens


def test_stored_responses_give_the_same_numbers(result: Audit, world: Any, tmp_path: Path) -> None:
    """Written to a file and counted in the model's tokenizer, text alone says the same; in words it says so."""
    rows = result.probes().merge(result.responses(), on="probe_id")
    file = tmp_path / "said.jsonl"
    names = ["record_id", "subject", "corpus", "prefix_tokens", "prefix", "suffix", "response", "variant"]
    rows[names].to_json(file, orient="records", lines=True)
    again = audit(responses=file, out=tmp_path / "again", tokenizer=str(world.model), quiet=True, **world.settings)
    ours, theirs = (
        audited.scores().set_index(["item", "measure"])["value"].sort_index() for audited in (result, again)
    )
    for measure in ("run_30", "run_50", "longest_run", "partial_match_50", "rouge_l", "bleu"):
        pd.testing.assert_series_equal(ours.xs(measure, level=1), theirs.xs(measure, level=1))
    assert theirs.xs("extraction_strength", level=1).isna().all()
    in_words = audit(responses=file, out=tmp_path / "words", baseline=file, quiet=True, **world.settings)
    assert in_words.unit == "words and punctuation marks"
    assert set(in_words.table()["unit"]) == {"words"}
    assert (in_words.differences(in_words.baselines[0])["difference"].dropna() == 0).all()


def test_cut_off_it_goes_on_where_it_stopped(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**world.settings, "decodings": "greedy,temperature=0.8", "samples_per_prompt": 2, "quiet": True}
    corpus, added, add = f"seen={world.seen}", list[int](), ResponseStore.add

    def counted(self: ResponseStore, responses: Any) -> None:
        batch = list(responses)
        if len(added) == 3:
            raise KeyboardInterrupt
        add(self, batch)
        added.append(len(batch))

    monkeypatch.setattr(ResponseStore, "add", counted)
    with pytest.raises(KeyboardInterrupt):
        audit(world.model, corpus, out=tmp_path / "a", batch_size=4, **settings)
    with pytest.raises(InputError, match="not complete"):
        Audit.open(tmp_path / "a")
    written_before = sum(added)
    added[:] = [0] * 99
    resumed = audit(world.model, corpus, out=tmp_path / "a", batch_size=4, **settings)
    assert sum(added) == 8 * 2 * 3 - written_before
    monkeypatch.setattr(ResponseStore, "add", add)
    whole = audit(world.model, corpus, out=tmp_path / "b", batch_size=32, **settings)
    pd.testing.assert_frame_equal(resumed.scores(), whole.scores())
    pd.testing.assert_frame_equal(resumed.spans(), whole.spans())
    drawn = whole.responses().query("variant == 'temperature_0.8'")
    assert set(drawn["sample"]) == {0, 1}
    assert drawn["response"].nunique() > 16 / 2


def test_a_complete_audit_is_not_done_again(result: Audit, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResponseStore, "add", None)
    corpora = [f"seen={world.seen}", f"unseen={world.unseen}"]
    again = audit(world.model, corpora, out=result.run.folder, quiet=True, **world.settings)
    assert again.run.info.started == result.run.info.started
    assert [audited.label for audited in again.baselines] == ["before"]
    with pytest.raises(InputError, match="seed: 0 there, 1 here"):
        audit(world.model, corpora, out=result.run.folder, quiet=True, **world.settings, seed=1)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"prefixes": 400}, InputError, "long enough"),
        ({"prefixes": 20, "max_new_tokens": 250}, ConfigError, "256 positions.*--max-new-tokens 23[56] or less"),
        ({"tokenizer": "x"}, ConfigError, "has its own"),
        ({"corpus": "nowhere"}, InputError, "no corpus"),
    ],
)
def test_mistakes_are_refused(
    world: Any, tmp_path: Path, settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        audit(world.model, out=tmp_path / "a", quiet=True, **{"corpus": world.seen, **settings})


def test_wrong_settings_are_told_at_once(world: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as wrong:
        audit(world.model, out=tmp_path / "a", measures="run_31", decodings="hot")
    assert len(wrong.value.problems) == 3
