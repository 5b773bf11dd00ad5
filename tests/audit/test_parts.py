"""Further steps of an audit: asked for with it or later, of models and of stored responses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from row_files import write_lines

from medunlearn import Audit, audit
from medunlearn.audit.semantic import first_bart_tokens
from medunlearn.errors import ConfigError

NAME = "Ottoline Fenwick-Amari"
NOTE = f"Patient {NAME} came on 3 March 2021 with a cough. " + " ".join(
    f"On day {place} the count was {place + 40} and she slept." for place in range(8)
)
SMALL: dict[str, Any] = {"replicates": 20, "quiet": True}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Two patients' notes of 70 words; the model says the first again from its sixth letter on, the other not."""
    rows = [
        {"record_id": "r0", "subject": "p0", "prefix": NOTE[:8], "suffix": NOTE[8:], "response": NOTE[8:]},
        {"record_id": "r1", "subject": "p1", "prefix": NOTE[:8], "suffix": NOTE[8:], "response": " and went home."},
    ]
    file = tmp_path / "said.jsonl"
    file.write_text("".join(json.dumps({**row, "corpus": "notes"}) + "\n" for row in rows))
    return file


def test_identifiers_and_kinds_of_stored_responses(stored: Path, tmp_path: Path) -> None:
    result = audit(responses=stored, out=tmp_path / "a", identifiers=True, **{"kinds.clinical": "notes"}, **SMALL)
    besides = result.stages
    assert besides is not None
    assert besides.identifiers is not None
    assert besides.kinds is not None
    findings = pd.read_parquet(tmp_path / "a" / "findings.parquet")
    assert {"2021"} & {value[-4:] for value in findings["value"]}
    assert set(findings["record_id"]) == {"r0"}
    # The only run of 50 words holds an identifier, which goes before the corpus that it is from.
    assert besides.kinds[["kind", "group", "by"]].to_numpy().tolist() == [
        ["patient_information", "harmful", "rules"]
    ]


def test_a_step_can_be_asked_of_an_audit_that_is_done(stored: Path, tmp_path: Path) -> None:
    first = audit(responses=stored, out=tmp_path / "a", **SMALL)
    before = (tmp_path / "a" / "scores.parquet").read_bytes()
    assert not (tmp_path / "a" / "findings.parquet").exists()
    again = audit(responses=stored, out=tmp_path / "a", identifiers=True, **SMALL).run.info
    assert set(again.tables or ()) - set(first.run.info.tables or ()) >= {"findings.parquet"}
    assert replace(again, tables=None) == replace(first.run.info, tables=None)
    assert (tmp_path / "a" / "findings.parquet").exists()
    assert (tmp_path / "a" / "scores.parquet").read_bytes() == before


def test_semantic_measures_are_rows_of_the_scores(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under an encoder that says 1 for equal texts and 0 for others; it is asked once for an audit."""
    encoders = []

    class Encoder:
        def __init__(self, source: str, device: str) -> None:
            encoders.append(source)

        def score(self, stored: Any, meant: Any) -> Any:
            from medunlearn.models.bert_score import BertScore

            return [BertScore(*3 * [float(a == b)]) for a, b in zip(stored, meant, strict=True)]

    monkeypatch.setattr("medunlearn.models.bert_score.BertScorer", Encoder)
    for _ in range(2):
        result = audit(responses=stored, out=tmp_path / "a", encoder="org/encoder", **SMALL)
    assert encoders == ["org/encoder"]
    scores = result.scores()
    bert = scores[scores["measure"] == "bert_score"].set_index("item")["value"].to_dict()
    assert sorted(bert.values()) == [0.0, 1.0]
    table = result.table().set_index("measure")
    assert table.loc["bert_score", "value"] == 0.5
    assert "bart_score" not in table.index
    assert {"run_30", "rouge_l"} <= set(table.index)
    named = audit(responses=stored, out=tmp_path / "b", measures="bert_score", encoder="org/encoder", **SMALL)
    assert named.table().set_index("measure").loc["bert_score", "value"] == 0.5


def test_the_released_codes_semantic_variant(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole texts, cut by BART's tokenizer, and scores of 4 digits, beside our own."""
    cuts = []

    class Bart:
        def __init__(self, source: str, device: str) -> None:
            assert source == "org/bart"

        def score(self, sources: Any, targets: Any) -> Any:
            return [-len(target) / 3 for target in targets]

    def cut(texts: Any, bart: str) -> Any:
        cuts.append(bart)
        return [None if text is None else text[:10] for text in texts]

    monkeypatch.setattr("medunlearn.models.bart_score.BartScorer", Bart)
    monkeypatch.setattr("medunlearn.audit.semantic.first_bart_tokens", cut)
    audit(responses=stored, out=tmp_path / "a", bart="org/bart", **SMALL)
    for _ in range(2):
        both = audit(
            responses=stored, out=tmp_path / "a", bart="org/bart", semantic_variant="released_code", **SMALL
        )
    assert cuts == ["org/bart", "org/bart"]
    scores = both.scores()
    released = scores[scores["measure"] == "bart_score.released_code"]["value"]
    assert released.tolist() == [-3.3333, -3.3333]
    assert (scores[scores["measure"] == "bart_score"]["value"] < -50).all()
    with pytest.raises(ConfigError, match="name --bart"):
        audit(responses=stored, out=tmp_path / "b", semantic_variant="released_code", **SMALL)


def test_texts_are_cut_by_barts_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    long = " ".join(f"word{n}" for n in range(150))
    cut = first_bart_tokens([long, None, "short text"], str(tmp_path))
    assert cut == [" ".join(long.split()[:100]), None, "short text"]


def test_options_are_asked_of_model_and_baseline(world: Any, tmp_path: Path) -> None:
    letters = "ABCD"
    rows = [
        {"question": f"Which is number {n}?", "options": {a: f"pick {n}{a}" for a in letters}, "answer_idx": "A"}
        for n in range(3)
    ]
    file = tmp_path / "questions.jsonl"
    write_lines(file, rows)
    result = audit(
        world.model,
        f"seen={world.seen}",
        out=tmp_path / "a",
        baseline=world.before,
        options=file,
        **{"options.prompts": "continue", "options.replicates": 20},
        **{**world.settings, "prefixes": 10, "limit": 2},
        quiet=True,
    )
    assert result.stages is not None
    assert result.stages.options is not None
    table = result.stages.options.table()
    exact = table[(table["measure"] == "exact") & (table["prompt"] == "continue")].iloc[0]
    assert exact["n"] == 3
    assert exact["difference"] == 0.0
    assert result.stages.options.label == "model"
    assert len(pd.read_parquet(tmp_path / "a" / "options.parquet")) == 3
    assert Audit.open(tmp_path / "a").stages is None


def test_a_section_can_be_given_whole(stored: Path, tmp_path: Path) -> None:
    result = audit(
        responses=stored, out=tmp_path / "a", identifiers={"detectors": "patterns", "sensitive": False}, **SMALL
    )
    assert result.stages is not None
    assert result.stages.identifiers is not None
    assert result.stages.identifiers.sensitive is None
    with pytest.raises(ConfigError, match="kinds='notes': give true, or its settings"):
        audit(responses=stored, out=tmp_path / "b", kinds="notes", **SMALL)


def test_mistakes_are_told_at_once_before_anything_runs(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        audit(responses=stored, out=tmp_path / "a", options="q.jsonl", **{"kinds.atleast": 3}, **SMALL)
    told = "\n".join(caught.value.problems)
    assert "kinds: " in told
    assert "at_least" in told
    assert "stored responses are no model to ask" in told
    assert not (tmp_path / "a").exists()
    with pytest.raises(ConfigError, match="bert_score needs an encoder of BERTScore: --encoder"):
        audit(responses=stored, out=tmp_path / "a", measures="bert_score", **SMALL)
