"""Runs of methods that learn alternative answers: what they are given, keep while they run, and refuse."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.refusals import TEXTS, is_refusal
from medunlearn.errors import ConfigError, InputError
from medunlearn.methods import make_method
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import load_model
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import TokenSequence
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.results.runs import Run
from medunlearn.study import alternative_answers as module
from medunlearn.study import trainer
from medunlearn.study.alternative_answers import answers_inputs, with_alternatives
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.presets import train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import training_sides, unlearn
from medunlearn.training.trainable import mix_with_noise


def settings(method: str, **values: Any) -> Any:
    fixed = {"method": method, "split": "random_10", "epochs": 1, "precision": "fp32"}
    return unlearn_settings({**fixed, **values}, tiny=True)


@pytest.mark.parametrize("method", ["altpo", "counterfactual", "jensun"])
def test_a_run(hospital: Benchmark, target: Run, tmp_path: Path, method: str) -> None:
    run = unlearn(target, hospital, settings(method), tmp_path / "r", quiet=True)
    assert run.info.label == make_method(method, {}).title
    assert run.info.results["method"]["alternatives"] == make_method(method, {}).alternatives
    assert fingerprint(run.model) != fingerprint(target.model)
    # Alternatives name the patient: they go with the checkpoints.
    assert not list(run.folder.rglob("alternatives*"))


def test_a_run_that_goes_on_reads_what_was_made(
    hospital: Benchmark, target: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = trainer.train_loop
    monkeypatch.setattr(trainer, "train_loop", _cut_off)
    whole_values = settings("counterfactual", arguments={"whole_values": True})
    with pytest.raises(KeyboardInterrupt):
        unlearn(target, hospital, whole_values, tmp_path / "r", quiet=True)
    (file,) = (tmp_path / "r").rglob("alternatives-0.parquet")
    assert file.stat().st_mode & 0o077 == 0
    monkeypatch.setattr(trainer, "train_loop", loop)
    monkeypatch.setattr(module, "counterfactuals", lambda *rest, **how: pytest.fail("made again"))
    run = unlearn(target, hospital, whole_values, tmp_path / "r", quiet=True)
    monkeypatch.undo()
    whole = unlearn(target, hospital, whole_values, tmp_path / "whole", quiet=True)
    assert fingerprint(run.model) == fingerprint(whole.model)


def _cut_off(*rest: Any, **how: Any) -> Any:
    raise KeyboardInterrupt


def test_noise_is_where_a_run_starts_from(target: Run, hospital: Benchmark, tmp_path: Path) -> None:
    model, before = (load_model(target.model, device="cpu").model for _ in range(2))
    mix_with_noise(model, 0.25, seed=3)
    old, noise = before.state_dict(), []
    for name, tensor in model.state_dict().items():
        if tensor.dim() < 2:
            assert torch.equal(tensor, old[name])
        else:
            noise.append(((tensor - 0.75 * old[name]) / 0.25).flatten())
    assert float(torch.cat(noise).std()) == pytest.approx(model.config.initializer_range, rel=0.05)
    # AdamW's steps are as long as the rate: what lies further away is noise.
    noised = settings("counterfactual", arguments={"noise": 0.25}, lr=1e-6)
    run = unlearn(target, hospital, noised, tmp_path / "noised", quiet=True)
    moved = load_model(run.model, device="cpu").model.state_dict()["model.embed_tokens.weight"]
    distance = float((moved - old["model.embed_tokens.weight"]).abs().mean())
    assert distance > 1e-4 > 2 * 1e-6 * run.info.results["steps"]
    adapter = settings("counterfactual", arguments={"noise": 0.5}, trainable="lora")
    with pytest.raises(InputError, match="noise"):
        unlearn(target, hospital, adapter, tmp_path / "lora", quiet=True)


@pytest.fixture(scope="module")
def memorized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Benchmark, Run]:
    """Six patients, and a target that knows them by heart."""
    from medunlearn.papers.amnesia.build import build

    few = build(AmnesiaSettings(synthetic=6, note_length="short"))
    values = {"tiny_width": 64, "tiny_layers": 2, "tiny_vocabulary": 512, "epochs": 40, "precision": "fp32"}
    folder = tmp_path_factory.mktemp("memorized") / "target"
    return few, train(few, train_settings({"model": "tiny", **values}), folder, quiet=True)


@pytest.mark.parametrize(
    ("trainable", "lr", "stays"),
    [
        ("lora:8", 1e-2, ("embed_tokens", "norm", "lm_head")),
        ("layers:1", 3e-3, ("embed_tokens", "layers.0.", "model.norm", "lm_head")),
    ],
)
def test_adapters_and_chosen_layers_forget_down_to_the_caps(
    memorized: tuple[Benchmark, Run], tmp_path: Path, trainable: str, lr: float, stays: tuple[str, ...]
) -> None:
    few, knows = memorized
    split = f"patient={few.subject(few.records[0].record_id)}"
    wanted = settings(
        "counterfactual", split=split, epochs=16, trainable=trainable, lr=lr, arguments={"alternatives": 4}
    )
    run = unlearn(knows, few, wanted, tmp_path / "r", quiet=True)
    before, after = (load_model(one.model, device="cpu") for one in (knows, run))
    # Nothing but what was chosen has moved, and a LoRA adapter is merged.
    weights, old = after.model.state_dict(), before.model.state_dict()
    assert weights.keys() == old.keys()
    unmoved = {name for name in old if torch.equal(weights[name], old[name])}
    assert {name for name in old if any(part in name for part in stays)} == unmoved
    # Caps are the target's, whatever is trained.
    sides, method = (
        training_sides(few, wanted, before, knows.rendering()),
        make_method("counterfactual", wanted.arguments),
    )
    how: dict[str, Any] = {"seed": wanted.seed, "title": "Counterfactual"}
    capped, partners = with_alternatives(sides["forget"], few, method, before, knows.rendering(), **how)
    history = run.history()
    excess = [_excess(model, capped) for model in (before, after)]
    assert history["loss/forget"].iloc[0] == pytest.approx(4 * excess[0], rel=1e-4)
    assert excess[0] > 0.8
    assert excess[1] < 0.25 * excess[0]
    # Her alternatives are learned, not only her answers lost; what is retained stays.
    others = [one for own in partners.values() for one in own]
    learned, kept = (
        [_mean_log_prob(model, sequences) for model in (before, after)] for sequences in (others, sides["retain"])
    )
    assert learned[1] > learned[0] + 0.3
    assert kept[0] > -0.6
    assert kept[1] > kept[0] - 0.5
    assert set(partners) == {one.key for one in capped}


def test_whole_values_are_held_at_their_level(memorized: tuple[Benchmark, Run], tmp_path: Path) -> None:
    """Not held they stay where the first steps pushed them: so unlikely that one can tell whom to look for."""
    few, knows = memorized
    split = f"patient={few.subject(few.records[0].record_id)}"
    short = []
    for hold in (0.0, 0.25):
        arguments = {"alternatives": 4, "whole_values": True, "hold": hold}
        wanted = settings("counterfactual", split=split, epochs=20, lr=3e-3, arguments=arguments)
        run = unlearn(knows, few, wanted, tmp_path / f"{hold}", quiet=True)
        before, after = (load_model(one.model, device="cpu") for one in (knows, run))
        sides, method = (
            training_sides(few, wanted, before, knows.rendering()),
            make_method("counterfactual", arguments),
        )
        held, _ = with_alternatives(
            sides["forget"], few, method, before, knows.rendering(), seed=wanted.seed, title="Counterfactual"
        )
        assert any(floor > -math.inf for one in held for floor in one.floors)
        gaps = [max(0.0, floor - p) for one, score in zip(held, score_answers(after, held), strict=True)
                for p, floor in zip(score.log_probs, one.floors, strict=True) if floor > -math.inf]  # fmt: skip
        short.append(sum(gaps) / len(gaps))
    assert short[1] < 0.5 * short[0]


def _excess(model: Any, capped: list[TokenSequence]) -> float:
    """Mean over tokens of how far the log-probability stands above its cap."""
    scores = score_answers(model, capped)
    gaps = [max(0.0, p - cap) for one, score in zip(capped, scores, strict=True)
            for p, cap in zip(score.log_probs, one.caps, strict=True)]  # fmt: skip
    return sum(gaps) / len(gaps)


def _mean_log_prob(model: Any, sequences: list[TokenSequence]) -> float:
    each = [p for score in score_answers(model, sequences) for p in score.log_probs]
    return sum(each) / len(each)


def test_with_the_note_in_the_prompt_there_is_nothing_to_learn(
    hospital: Benchmark, target: Run, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="closed_book"):
        unlearn(target, hospital, settings("counterfactual", context="note"), tmp_path / "r", quiet=True)


def test_sequences_without_alternatives_are_left_out_and_that_is_said(
    hospital: Benchmark, target: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    language_model, rendering = load_model(target.model, device="cpu"), target.rendering()
    sides = training_sides(hospital, settings("altpo"), language_model, rendering)
    unnamed = replace(
        hospital,
        records=tuple(replace(record, identifiers=()) for record in hospital.records),
        questions=tuple(
            replace(question, question="Who?", answer="Nobody.", options=(), answer_index=None, provenance=str(n))
            for n, question in enumerate(hospital.questions)
        ),
    )
    how: dict[str, Any] = {"seed": 0, "title": "AltPO", "quiet": False}
    kept, partners = with_alternatives(
        sides["forget"], unnamed, make_method("altpo", {}), language_model, rendering, **how
    )
    records = [one for one in sides["forget"] if one.key.endswith("#0")]
    assert [one.key for one in kept] == [one.key for one in records]
    assert partners.keys() == {one.key for one in records}
    assert f"{len(sides['forget']) - len(records)} of {len(sides['forget'])}" in capsys.readouterr().err
    asked = [one for one in sides["forget"] if one not in records]
    with pytest.raises(InputError, match="no alternative answers are possible"):
        with_alternatives(asked, unnamed, make_method("altpo", {}), language_model, rendering, **how)


def test_refusals_are_ours_and_another_one_each_epoch(hospital: Benchmark, target: Run) -> None:
    language_model, rendering = load_model(target.model, device="cpu"), target.rendering()
    forget = training_sides(hospital, settings("idk_nll"), language_model, rendering)["forget"]
    how: dict[str, Any] = {"title": "IdkNLL"}
    method = make_method("idk_nll", {"alternatives": 14})
    kept, partners = with_alternatives(forget, hospital, method, language_model, rendering, seed=0, **how)
    assert kept == forget
    for sequence in forget:
        own = partners[sequence.key]
        texts = [_text(language_model, one) for one in own]
        assert set(texts) == set(TEXTS)
        assert texts[12:] == texts[:2]
        if not sequence.key.endswith("#0"):
            assert all(one.prompt == sequence.prompt for one in own)
    others = with_alternatives(forget, hospital, method, language_model, rendering, seed=1, **how)[1]
    assert others != partners
    assert all(map(is_refusal, TEXTS))


def _text(language_model: Any, sequence: TokenSequence) -> str:
    text: str = language_model.tokenizer.decode(sequence.ids[sequence.scored_from :], skip_special_tokens=True)
    return text.strip()


def test_answers_of_a_file_are_learned_where_it_has_some(
    hospital: Benchmark, target: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    language_model, rendering, file = (
        load_model(target.model, device="cpu"),
        target.rendering(),
        tmp_path / "a.jsonl",
    )
    forget = training_sides(hospital, settings("dpo"), language_model, rendering)["forget"]
    first, second = [one for one in forget if one.key in hospital.question][:2]
    rows = [
        {"question_id": first.key, "answer": "Nobody knows."},
        {"question_id": first.key, "answer": "Ask the ward."},
        {"question": hospital.question[second.key].question, "answer": "Unknown."},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    method = make_method("dpo", {"answers": str(file), "alternatives": 2})
    how: dict[str, Any] = {"title": "DPO", "seed": 0, "quiet": False}
    _, partners = with_alternatives(forget, hospital, method, language_model, rendering, **how)
    texts = {key: [_text(language_model, one) for one in own] for key, own in partners.items()}
    assert texts[first.key] == ["Nobody knows.", "Ask the ward."]
    assert texts[second.key] == ["Unknown."]
    # A question that several records share, by its text.
    assert {hospital.question[key].question for key in texts} == {
        hospital.question[one.key].question for one in (first, second)
    }
    assert f"of {len(forget)} forget sequences have no alternative" in capsys.readouterr().err
    digest = answers_inputs(method, "dpo")["answers"]
    file.write_text(file.read_text() + "\n" + json.dumps(rows[0]))
    assert answers_inputs(method, "dpo")["answers"] != digest
    file.write_text('{"question": "Who?"}')
    with pytest.raises(InputError, match=r"a\.jsonl:1.*question_id"):
        answers_inputs(method, "dpo")


@pytest.mark.parametrize("whole", [True, False])
def test_the_rules_of_whole_value_caps_are_part_of_a_key(whole: bool) -> None:
    method = make_method("counterfactual", {"whole_values": whole})
    assert (answers_inputs(method, "counterfactual") == {}) is not whole


@pytest.mark.parametrize(
    ("name", "answers"), [("dpo", "refusals"), ("jensun", "nowhere.jsonl"), ("capped", "refusal")]
)
def test_answers_that_are_not_there_are_refused_first(name: str, answers: str) -> None:
    method = make_method("dpo", {"answers": answers})
    if name == "capped":
        method = SimpleNamespace(answers=answers, alternatives=2, capped=True, loss_with=lambda *views: {})
    with pytest.raises(ConfigError, match=rf"{name}\.answers"):
        answers_inputs(method, name)


def test_the_estimate_counts_the_answers_and_the_third_side(hospital: Benchmark, target: Run) -> None:
    pricing = Pricing.of_run(target, hospital)
    two, three, refusals = (
        pricing.unlearning(settings(method)) for method in ("graddiff", "counterfactual", "idk_dpo")
    )
    assert refusals.generated == 0
    assert three.generated > two.generated == 0
    assert three.tokens > 1.4 * two.tokens
    assert three.flops > 1.4 * two.flops
