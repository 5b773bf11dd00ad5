"""From questions to tables: a model before and after training, members and non-members, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from medunlearn.audit.options.option_audit import OptionsAudit, audit_options, choice_rows
from medunlearn.audit.options.option_prompts import MATCHES
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError
from medunlearn.results.runs import Run

PROMPTS = ("continue", "in_place", "another")
SMALL: dict[str, Any] = {"prompts": PROMPTS, "replicates": 200, "quiet": True}


@pytest.fixture(scope="module")
def audit(
    before_and_after: tuple[Run, Run],
    choices: Benchmark,
    question_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> OptionsAudit:
    before, after = before_and_after
    out = tmp_path_factory.mktemp("audit") / "options"
    return audit_options(after, question_file, out=out, baseline=before, trained_on=choices, **SMALL)


def row(audit: OptionsAudit, prompt: str, measure: str, group: str = "all") -> pd.Series[Any]:
    return audit.table().set_index(["prompt", "measure", "group"]).loc[(prompt, measure, group)]


def test_a_row_a_question_and_prompt(audit: OptionsAudit) -> None:
    table = audit.options
    columns = ["question_id", "prompt", "letters", "removed", "gold", "response", *MATCHES, "reason"]
    assert list(table.columns) == columns
    assert len(table) == 20 * len(PROMPTS)
    assert table["exact"].notna().all()
    assert table["reason"].isna().all()
    # Every prompt asks for the same option of a question.
    assert (table.groupby("question_id")["removed"].nunique() == 1).all()
    assert not (table["exact"] & ~table["relaxed"]).any()


def test_members_are_regenerated_and_non_members_are_not(audit: OptionsAudit) -> None:
    members, others = row(audit, "in_place", "exact", "member"), row(audit, "in_place", "exact", "non-member")
    contrast = row(audit, "in_place", "exact", "member - non-member")
    assert members["value"] > 0.5
    assert others["value"] < 0.2
    assert contrast["value"] == pytest.approx(members["value"] - others["value"])
    assert contrast["low"] > 0
    assert contrast["n_unscored"] == 0
    assert (members["n"], others["n"], contrast["n"]) == (10, 10, 20)


def test_training_made_the_difference(audit: OptionsAudit) -> None:
    assert audit.baseline is not None
    result = row(audit, "in_place", "exact", "member")
    own, other = (
        table[table["prompt"].eq("in_place") & table["question_id"].map(audit.groups).eq("member")]["exact"].mean()
        for table in (audit.options, audit.baseline.options)
    )
    assert (result["value"], result["difference"]) == pytest.approx((own, own - other))
    assert result["difference_low"] > 0
    assert result["p"] < 0.05
    assert result["n_pairs"] == 10


def test_gold_and_wrong_ones_apart_and_any_prompt(audit: OptionsAudit) -> None:
    whole, gold, wrong = (row(audit, "in_place", name) for name in ("exact", "exact_gold", "exact_wrong"))
    assert gold["n"] + wrong["n"] == whole["n"] == 20
    assert whole["value"] * 20 == pytest.approx(gold["value"] * gold["n"] + wrong["value"] * wrong["n"])
    by_question = audit.options.pivot(index="question_id", columns="prompt", values="exact").astype(bool)
    assert row(audit, "any", "exact")["value"] == pytest.approx(by_question.any(axis=1).mean())


def test_accuracy_is_that_of_the_likeliest_option(
    audit: OptionsAudit, before_and_after: tuple[Run, Run], question_file: Path
) -> None:
    """One question at a time, by transformers' own loss."""
    import torch

    from medunlearn.models.load import load_model
    from medunlearn.sources.multiple_choice import read_options

    model = load_model(before_and_after[1].model, device="cpu")
    table = audit.choices.set_index(["question_id", "form"])
    for question in read_options(question_file).questions[:4]:
        prompt = model.tokenizer(f"Question: {question.question}\n{question.lines()}\nAnswer:")["input_ids"]
        for form, texts, end in (
            ("text", question.options, [model.tokenizer.eos_token_id]),
            ("text.no_end", question.options, []),
            ("letter", "ABCD", []),
        ):
            expected = []
            for text in texts:
                answer = [*model.tokenizer(f" {text}")["input_ids"], *end]
                labels = torch.tensor([[-100] * len(prompt) + answer])
                with torch.inference_mode():
                    mean = -float(model.model(input_ids=torch.tensor([[*prompt, *answer]]), labels=labels).loss)
                expected.append(mean * len(answer) if form == "letter" else mean)
            result = table.loc[(question.question_id, form)]
            assert list(result["log_probs"]) == pytest.approx(expected, abs=1e-4)
            assert result["chosen"] == "ABCD"[expected.index(max(expected))]
            assert result["correct"] == (result["chosen"] == question.gold)
    assert row(audit, "", "accuracy_text", "member")["value"] > 0.6
    assert row(audit, "", "accuracy_letter")["n"] == 20


def test_it_is_not_done_twice_and_another_is_refused(
    audit: OptionsAudit, before_and_after: tuple[Run, Run], question_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medunlearn.models.load.load_model", None)
    again = audit_options(before_and_after[1], question_file, out=audit.folder, **SMALL)
    assert again.options.equals(audit.options)
    with pytest.raises(InputError, match=r"contains another run \(differs in .*seed: 0 there, 1 here"):
        audit_options(before_and_after[1], question_file, out=audit.folder, seed=1, **SMALL)


def test_responses_are_kept_when_it_is_cut_off(
    before_and_after: tuple[Run, Run], question_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"prompts": "in_place", "limit": 8, "forms": "text", "quiet": True}

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("medunlearn.audit.options.option_audit.choice_rows", stop)
    with pytest.raises(KeyboardInterrupt):
        audit_options(before_and_after[1], question_file, out=tmp_path / "cut", **settings)
    monkeypatch.setattr("medunlearn.audit.options.option_audit.choice_rows", choice_rows)
    monkeypatch.setattr("medunlearn.generation.continuations.decode", stop)
    resumed = audit_options(before_and_after[1], question_file, out=tmp_path / "cut", **settings)
    assert len(resumed.options) == len(resumed.choices) / 2 == 8  # with and without the end token
    assert resumed.options["response"].notna().all()


def test_a_prompt_that_does_not_fit_is_unscored(
    before_and_after: tuple[Run, Run], question_file: Path, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"prompts": "in_place", "forms": "letter", "limit": 3, "max_new_tokens": 510}
    result = audit_options(before_and_after[1], question_file, out=tmp_path / "long", quiet=True, **how)
    assert set(result.options["reason"]) == {"the prompt is longer than the model's context"}
    assert result.options["exact"].isna().all()
    table = result.table().set_index("measure")
    assert pd.isna(table.loc["exact", "value"])
    assert table.loc["exact", "n_unscored"] == 3


def test_settings_are_refused_together(question_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)2 settings are wrong.*Did you mean 'prompts'\?.*forms"):
        audit_options("m", question_file, out=tmp_path / "x", prompt="a", forms="words")
    with pytest.raises(ConfigError, match="give one of model, llm"):
        audit_options(None, question_file, out=tmp_path / "x")
    with pytest.raises(ConfigError, match=r"There is no prompt .contine.\. Did you mean .continue."):
        audit_options("m", question_file, out=tmp_path / "x", prompts="contine")
