"""The tokenizer of a tiny model: what it is fitted on, what `run.json` says of it, and what then compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError
from medunlearn.metrics import get_metric, metric_targets
from medunlearn.probes.evaluate import evaluate
from medunlearn.results.composites import is_per_token
from medunlearn.results.evaluated import OTHER_TOKENS
from medunlearn.results.runs import Run
from medunlearn.study.presets import train_settings
from medunlearn.study.report.gather import gather
from medunlearn.study.sweep.sweep_plan import plan
from medunlearn.study.train import tiny_model, train

PER_TOKEN = {"response_tokens", "answer_log_probs", "answer_hits", "alternative_log_probs"}


def words_of(benchmark: Benchmark, settings: dict[str, Any]) -> str:
    tokenizer = tiny_model(benchmark, train_settings(settings)).tokenizer
    return "\n".join(tokenizer.decode([token]) for token in range(len(tokenizer)))


@pytest.fixture(scope="module")
def retrained(hospital: Benchmark, small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("own") / "retrained"
    settings = train_settings({**small, "epochs": 1, "without": "random_10", "tiny_tokenizer": "own"})
    return train(hospital, settings, folder, quiet=True)


def test_a_measure_counts_in_tokens_if_it_reads_tokens() -> None:
    for name in metric_targets():
        assert is_per_token(name) == bool(PER_TOKEN & set(get_metric(name).needs)), name


def test_the_shared_tokenizer_is_said_to_hold_the_forgotten(
    hospital: Benchmark, small: dict[str, Any], retrained: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {**small, "epochs": 0, "without": "random_10"}
    shared = train(hospital, train_settings(values), tmp_path / "shared").info.results["vocabulary"]
    remark = capsys.readouterr().err
    forgotten = {record.groups["patient"] for record in hospital.records_of(hospital.split("random_10"), "forget")}
    assert shared["fitted_on"] == "shared"
    assert shared["strings_of_forgotten_alone"] > 20
    assert set(shared["whose"]) == forgotten
    assert (
        f"holds {shared['strings_of_forgotten_alone']} strings that only the forget set has (2 of its 2" in remark
    )
    assert not any(name in remark for name in forgotten)
    own = retrained.info.results["vocabulary"]
    assert own["fitted_on"] == "own"
    assert own["strings_of_forgotten_alone"] == 0
    assert own["private_strings"] > 20  # those of the others, whom it saw
    common = {**values, "tiny_tokenizer": "common"}
    held = train(hospital, train_settings(common), tmp_path / "common").info.results["vocabulary"]
    assert held["private_strings"] == 0
    # Nobody's alone; a few are of both of those to forget.
    assert 0 < held["strings_of_forgotten_alone"] < shared["strings_of_forgotten_alone"] / 2
    assert f"holds {held['strings_of_forgotten_alone']} strings" in capsys.readouterr().err


def test_all_models_share_a_tokenizer_but_with_own(hospital: Benchmark, small: dict[str, Any], target: Run) -> None:
    without = {**small, "without": "random_10"}
    for kind, same in {"shared": True, "common": True, "own": False}.items():
        pair = [words_of(hospital, {**values, "tiny_tokenizer": kind}) for values in (small, without)]
        assert (pair[0] == pair[1]) is same
    assert words_of(hospital, {**small, "tiny_tokenizer": "own"}) == words_of(hospital, small)


def test_measures_in_tokens_are_not_compared_across_tokenizers(
    hospital: Benchmark, retrained: Run, target: Run
) -> None:
    assert retrained.vocabulary != target.vocabulary
    settings = EvaluateSettings(split="random_10", limit=2, replicates=20, max_new_tokens=4, allow_broken=True)
    evaluation = evaluate(target, hospital, settings, against=[retrained], quiet=True)
    assert {"em", "te", "answer_probability", "rouge_l"} <= set(evaluation.table()["measure"])
    measures = set(evaluation.comparisons["measure"])
    assert "rouge_l" in measures
    assert not any(map(is_per_token, measures))
    parts = {part for parts in evaluation.comparisons["parts"] for part in parts.split(",")}
    assert not any(map(is_per_token, parts))
    assert evaluation.reference is not None
    assert "em" not in str(evaluation.reference.learned.measure)
    assert OTHER_TOKENS in evaluation.caveats
    assert OTHER_TOKENS in gather("t", evaluation.models).caveats
    alone = evaluate(target, hospital, settings, quiet=True)
    assert OTHER_TOKENS not in alone.caveats


def test_nothing_is_compared_where_all_counts_in_tokens(hospital: Benchmark, retrained: Run, target: Run) -> None:
    quick = {"limit": 2, "replicates": 20, "max_new_tokens": 4, "allow_broken": True}
    settings = EvaluateSettings(split="random_10", metrics=("em",), **quick)
    evaluation = evaluate(target, hospital, settings, against=[retrained], quiet=True)
    assert evaluation.comparisons.empty
    assert evaluation.reference is not None
    assert not evaluation.reference.passed


def test_a_sweep_takes_one_tokenizer_for_all() -> None:
    with pytest.raises(ConfigError, match="tiny_tokenizer=own: a sweep compares"):
        plan(
            {
                "name": "s",
                "benchmark": {"builder": "amnesia", "synthetic": 20},
                "splits": ["random_10"],
                "train": {"model": "tiny", "tiny_tokenizer": "own"},
                "unlearn": {"methods": ["graddiff"]},
                "out": "nowhere",
            }
        )
