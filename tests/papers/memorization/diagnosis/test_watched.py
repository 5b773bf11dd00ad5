"""Measures after the epochs of a training, against independent implementations."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import ResponseStore
from medunlearn.errors import ConfigError
from medunlearn.papers.memorization.diagnosis.rise import Rise, rises
from medunlearn.results.runs import Run, RunRecord
from medunlearn.statistics import Estimate
from medunlearn.study.epochs.epoch_selection import best_of, by_validation_loss, stop_epoch
from medunlearn.study.presets import train_settings

from .conftest import SMALL, best_epoch


def measured(run: Run, measure: str, epoch: int, fold: str = "") -> Any:
    table = pd.read_parquet(run.folder / "epochs.parquet")
    rows = table[(table["measure"] == measure) & (table["epoch"] == epoch) & (table["fold"] == fold)]
    (row,) = rows.to_dict("records")
    return row


@pytest.fixture(scope="module")
def loaded(watched: Run) -> Any:
    from medunlearn.models.load import load_model

    return load_model(str(watched.model), device="cpu")


def test_the_validation_loss_is_cross_entropy(bench: Benchmark, watched: Run, loaded: Any) -> None:
    """Against transformers' own loss, of sequences put together here."""
    import torch

    tokenizer, model = loaded.tokenizer, loaded.model

    def loss(ids: list[int], scored_from: int) -> tuple[float, int]:
        labels = torch.tensor([[-100] * scored_from + ids[scored_from:]])
        with torch.no_grad():
            mean = model(input_ids=torch.tensor([ids]), labels=labels).loss
        return float(mean) * (len(ids) - scored_from), len(ids) - scored_from

    texts, answers = [], []
    for question in bench.questions:
        record = bench.record[question.record_id]
        if record.groups["part"] != "validation":
            continue
        texts.append(loss([*_ids(loaded, record.text), tokenizer.eos_token_id], 1))
        prompt = _ids(loaded, f"{record.text}\n\n", f"Question: {question.question}\nAnswer:")
        answer = _ids(loaded, f" {question.answer}", begin=False)
        answers.append(loss([*prompt, *answer, tokenizer.eos_token_id], len(prompt)))
    for measure, parts in (
        ("validation loss", texts + answers),
        ("validation loss of records", texts),
        ("validation loss of answers", answers),
    ):
        row = measured(watched, measure, best_epoch(watched))
        assert row["value"] == pytest.approx(sum(s for s, _ in parts) / sum(n for _, n in parts), rel=1e-4)
        assert (row["low"], row["high"]) == (None, None)
        assert (row["n_scored"], row["n_subjects"]) == (len(parts), 4)


def test_probes_are_continued_as_by_the_library(bench: Benchmark, watched: Run, loaded: Any) -> None:
    import torch

    epoch = watched.epoch(best_epoch(watched))
    (folder,) = (epoch.folder / "probes").iterdir()
    store = ResponseStore(folder, ResponseStore.settings_of(folder))
    responses = {question_id: response for (question_id, *_), response in store.read().items()}
    table = pd.read_parquet(epoch.folder / "memorization.parquet")
    assert len(table) == len(responses) == 12
    assert set(table["fold"]) == {"train", "holdout"}
    probe = responses[table["probe_id"].iloc[0]]
    prefix = table["prefix_tokens"].iloc[0]
    assert prefix - 50 in (0, 1)
    ids = _ids(loaded, bench.record[table["record_id"].iloc[0]].text)
    with torch.no_grad():
        how = {"max_new_tokens": 60, "do_sample": False, "pad_token_id": loaded.tokenizer.pad_token_id}
        whole = loaded.model.generate(torch.tensor([ids[:prefix]]), **how)[0, prefix:].tolist()
    eos = loaded.tokenizer.eos_token_id
    assert list(probe.response_tokens) == list(itertools.takewhile(lambda token: token != eos, whole))


def _ids(loaded: Any, *texts: str, begin: bool = True) -> list[int]:
    """Each text's tokens, after the begin-of-sequence token where the tokenizer has one."""
    ids = [token for text in texts for token in loaded.tokenizer(text, add_special_tokens=False)["input_ids"]]
    first = loaded.tokenizer("a")["input_ids"][0]
    return [*([first] if begin and first == loaded.tokenizer.bos_token_id else []), *ids]


def test_memorized_records_are_found(bench: Benchmark, loaded: Any, tmp_path: Path) -> None:
    """A model that knows its records by heart repeats all; a continuation too short for a run has no score."""
    from medunlearn.config import WatchSettings
    from medunlearn.models.sequences import record_sequences
    from medunlearn.papers.memorization.diagnosis.memorization import Memorization, make_probe
    from medunlearn.training.batch_plan import Plan
    from medunlearn.training.loop import train_loop
    from medunlearn.training.loop_settings import LoopSettings
    from medunlearn.training.objectives import NextToken

    model = replace(loaded, model=copy.deepcopy(loaded.model))
    records = [record for record in bench.records if record.fold == "train"][:2]
    items = [piece for record in records for piece in record_sequences(record, model.tokenizer, None)]
    settings = LoopSettings(lr=1e-2, schedule="constant", warmup_ratio=0.0, precision="fp32")
    train_loop(model.model, model.tokenizer.pad_token_id, NextToken(), Plan({"train": items}, 2, 120, 0), settings)
    watch = WatchSettings.model_validate({"prefix_tokens": 50, "new_tokens": 40, "replicates": 20})
    run = Run(tmp_path, RunRecord(label="x", results={"fingerprint": "x"}))
    table = Memorization.of(bench, records, watch, model, quiet=True)(run, model)
    rows = {(row["metric"], row["fold"]): row for row in table.to_dict("records")}
    assert rows["run_30", "train"]["value"] == 1.0
    assert rows["run_30", "holdout"]["value"] == 0.0
    probe = make_probe(bench, records[0], watch.model_copy(update={"new_tokens": 2000}), model)
    assert probe is not None
    # To the end of the record, without the token that ends it.
    assert [*probe.opening.prefix, *probe.opening.suffix] == _ids(model, records[0].text, begin=False)
    # 40 tokens hold no run of 50.
    assert pd.isna(rows["run_50", "train"]["value"])
    assert (rows["run_50", "train"]["n_scored"], rows["run_50", "train"]["n_unscored"]) == (0, 2)


def test_early_stopping_by_the_validation_loss() -> None:
    losses = (0.5, 2.0, 1.0, 0.9, 0.9, 1.5, 0.1)
    rows = [{"epoch": n, "measure": "validation loss", "value": loss} for n, loss in enumerate(losses)]
    table = pd.DataFrame([*rows, {"epoch": 1, "measure": "other", "value": 0.0}]).astype({"value": "Float64"})
    # The model before training (0.5) counts for nothing; epoch 3 is the best, and 4 and 5 are not better.
    standings = by_validation_loss(table)
    assert [standing.epoch for standing in standings] == [1, 2, 3, 4, 5, 6]
    assert (stop_epoch(standings, 2), stop_epoch(standings, 3)) == (5, None)
    assert best_of(by_validation_loss(table.assign(value=table["value"].where(table["epoch"] == 0)))) is None


def test_a_run_ends_early_and_keeps_its_best_epoch(bench: Benchmark, tmp_path: Path) -> None:
    from medunlearn.models.folders import fingerprint

    # At this rate the loss of the unseen soon goes up.
    plain = {**SMALL, "lr": 0.05, "schedule": "constant", "warmup_ratio": 0.0}
    plain |= {"train_on": "questions", "context": "note", "max_length": 1024}
    ending = {"evaluate_every": 1, "validation": "part=validation", "stop_early": 1, "select": "best"}
    run = mu.train(bench, out=tmp_path / "run", quiet=True, epochs=12, **plain, **ending)
    epochs = run.info["results"]["epochs"]
    losses = {entry["epoch"]: entry["value"] for entry in epochs["numbers"]}
    table = {epoch: measured(run, "validation loss", epoch)["value"] for epoch in losses}
    assert losses == pytest.approx(table)
    assert epochs["best"] == min(losses, key=lambda epoch: losses[epoch])
    assert epochs["rule"].startswith("least validation loss")
    assert epochs["stopped_early"]
    assert epochs["done"] == epochs["best"] + 1 == epochs["chosen"] + 1
    assert losses[epochs["done"]] >= losses[epochs["best"]]
    assert set(pd.read_parquet(run.folder / "epochs.parquet")["measure"]) == {"validation loss"}
    # Nothing of it disturbs training: the best epoch's model is that of so many epochs without any evaluation.
    short = mu.train(bench, out=tmp_path / "short", quiet=True, epochs=epochs["best"], **plain)
    assert fingerprint(short.model) == fingerprint(run.model)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"select": "best"}, "select is about evaluated epochs"),
        ({"watch": {"part": "test"}}, "watch is about evaluated epochs"),
        (
            {"evaluate_every": 1, "watch": {"part": "test"}, "stop_early": 2},
            "stop_early goes by the validation loss",
        ),
        ({"evaluate_every": 1, "validation": "part=train"}, "training uses some of this"),
        ({"evaluate_every": 1, "validation": "train"}, "training uses some of this"),
        ({"evaluate_every": 1, "validation": "rephrase"}, "has no such data"),
        ({"evaluate_every": 1, "validation": "part=dev"}, "There is no part 'dev'"),
        ({"evaluate_every": 1, "validation": "nothing"}, "use level=node of records"),
        ({"evaluate_every": 1, "watch": {"part": "dev"}}, "There is no part 'dev'"),
        ({"evaluate_every": 1, "watch": {"prefix": 3}}, "There is no setting 'prefix'"),
        ({"evaluate_every": 1, "watch": {"k": 2}}, "nothing is watched"),
    ],
)
def test_settings_that_do_not_go(bench: Benchmark, tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mu.train(bench, model="tiny", out=tmp_path / "run", quiet=True, **values)
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_the_papers_preset() -> None:
    preset = train_settings({"model": "org/name", "preset": "diagnosis", "watch.limit": 7})
    assert (preset.trainable, preset.lora_dropout, preset.lr, preset.weight_decay) == ("lora:64", 0.05, 1e-6, 0.1)
    assert (preset.batch_size, preset.stop_early, preset.validation) == (16, 2, "part=validation")
    assert preset.watch == {"part": "test", "prefix_tokens": 50, "new_tokens": 500, "limit": 7}


@pytest.mark.parametrize(
    ("loss", "trained", "verdict"),
    [
        ((-2.0, -1.0), (0.1, 0.3), "holds"),
        ((-2.0, -1.0), (-0.1, 0.3), "open"),
        ((-2.0, 1.0), (0.1, 0.3), "open"),
        ((-2.0, -1.0), (0.0, 0.0), "does not hold"),
        ((1.0, 2.0), (0.1, 0.3), "does not hold"),
        ((None, None), (0.1, 0.3), "not measurable"),
    ],
)
def test_the_verdict_on_the_rise(loss: Any, trained: Any, verdict: str) -> None:
    gaps = (Estimate(None, *edges, 9, 9) for edges in (loss, trained, (-0.1, 0.05)))
    assert Rise(30, 0, 3, *gaps).verdict == verdict


def test_the_rise_is_paired(watched: Run) -> None:
    short, long = rises(watched, replicates=50, seed=0)
    assert (short.tokens, long.tokens) == (30, 50)
    before, after = (measured(watched, "validation loss", epoch)["value"] for epoch in (0, best_epoch(watched)))
    assert short.loss.value == pytest.approx(after - before)
    assert after < before
    # Four patients have no interval.
    assert short.loss.high is None
