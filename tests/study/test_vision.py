"""Images through the same roads as text: train, unlearn by the same methods, evaluate; and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from xrays import SMALL, SPLIT

from medunlearn.config import AdoptSettings, EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, MedunlearnError
from medunlearn.generation.counterfactuals import Counterfactuals
from medunlearn.methods import make_method
from medunlearn.models.batches import collate
from medunlearn.models.forward_outputs import ForwardOutputs
from medunlearn.models.layouts import decoder_of, make_batch
from medunlearn.models.load import load_model
from medunlearn.models.reference import Reference
from medunlearn.models.scoring import score_answers
from medunlearn.models.sequences import record_sequences
from medunlearn.models.shape import Tower
from medunlearn.probes.evaluate import evaluate, evaluate_one
from medunlearn.probes.material import rendering_for, sequences
from medunlearn.results.runs import Run
from medunlearn.study import alternative_answers
from medunlearn.study.adopt import adopt
from medunlearn.study.cost.formulas import image_flops
from medunlearn.study.cost.pricing import Pricing
from medunlearn.study.export import export
from medunlearn.study.presets import is_tiny, train_settings, unlearn_settings
from medunlearn.study.train import train
from medunlearn.study.unlearn import training_sides, unlearn
from medunlearn.training.trainable import choose_trainable, trained
from medunlearn.training.views import ModelView, Totals


def forgetting(run: Run, method: str, **values: Any) -> Any:
    given = {"method": method, "split": SPLIT, "epochs": 1, "precision": "fp32", **values}
    return unlearn_settings(given, tiny=is_tiny(run))


def test_the_run_says_how_images_were_encoded(seen_target: Run) -> None:
    results = seen_target.info["results"]
    assert results["images"] == (
        "LLaVA: an image is encoded once a pass; what is seen is kept, since nothing before the decoder is trained"
    )
    assert results["batches"].startswith("packed: shared text once")
    assert results["rendering"]["images"] == "use"
    assert 0 < results["trained_parameters"] < results["parameters"]


def test_alternative_answers_stand_behind_images(
    xrays: Benchmark, seen_target: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = list[Counterfactuals]()
    write = alternative_answers._write
    monkeypatch.setattr(
        alternative_answers, "_write", lambda path, answers: (write(path, answers), stored.append(answers))
    )
    run = unlearn(seen_target, xrays, forgetting(seen_target, "counterfactual"), tmp_path / "r", quiet=True)
    assert run.info.status == "complete"
    # An image's tokens are told apart by 64 bits.
    (answers,) = stored
    ids = [token for group in answers.alternatives.values() for sequence in group for token in sequence.ids]
    assert max(map(abs, ids)) > 2**31


@pytest.mark.parametrize("method", ["graddiff", "kl_min", "npo"])
def test_methods_forget_by_the_files_of_text(
    xrays: Benchmark, seen_target: Run, tmp_path: Path, method: str
) -> None:
    settings = forgetting(seen_target, method)
    assert method != "npo" or settings.arguments == {"beta": 0.9}
    run = unlearn(seen_target, xrays, settings, tmp_path / method, quiet=True)
    models = [load_model(one.model, device="cpu", images=xrays.folder) for one in (seen_target, run)]
    rendering = seen_target.rendering(max_length=512)
    forget = [training_sides(xrays, settings, model, rendering)["forget"] for model in models]
    first, last = (
        sum(sum(one.log_probs) for one in score_answers(model, chosen))
        for model, chosen in zip(models, forget, strict=True)
    )
    assert last < first
    before, after = (model.model.state_dict() for model in models)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all("language_model" in name or name == "lm_head.weight" for name in moved)


def test_a_reference_that_never_saw_the_forget_set_reads_the_target_s_images(
    xrays: Benchmark, seen_target: Run, tmp_path: Path
) -> None:
    retrained = train(xrays, train_settings({**SMALL, "without": SPLIT}), tmp_path / "retrained", quiet=True)
    settings = forgetting(seen_target, "npo", arguments={"beta": 0.9, "reference": str(retrained.folder)})
    run = unlearn(seen_target, xrays, settings, tmp_path / "npo", quiet=True)
    assert run.info["results"]["reference_model"] == str(retrained.folder)
    models = [load_model(one.model, device="cpu", images=xrays.folder) for one in (seen_target, retrained)]
    pictures, others = (model.pictures for model in models)
    assert pictures is not None
    assert others is not None
    rendering = seen_target.rendering(max_length=512)
    forget = training_sides(xrays, settings, models[0], rendering)["forget"]
    with pytest.raises(MedunlearnError, match="picture tokens of another model"):
        score_answers(models[1], forget)
    others.read_tokens_of(pictures)
    assert len(score_answers(models[1], forget)) == len(forget)
    others.processor.do_normalize = not others.processor.do_normalize
    with pytest.raises(InputError, match="prepare images differently"):
        others.read_tokens_of(pictures)


@pytest.mark.parametrize("method", ["graddiff", "kl_min", "npo"])
@pytest.mark.parametrize("trainable", ["all", "layers:1"])
def test_losses_and_gradients_are_those_of_images_apart(
    xrays: Benchmark, seen_target: Run, method: str, trainable: str
) -> None:
    """Questions on one image packed behind it, and each with the image by itself, one row each."""
    found = []
    for packed in (True, False):
        language_model = load_model(seen_target.model, device="cpu", images=xrays.folder)
        model = choose_trainable(language_model.model, trainable)
        rendering = seen_target.rendering(max_length=512)
        sides = training_sides(xrays, forgetting(seen_target, method), language_model, rendering)
        reference, views = Reference(model), {}
        with torch.no_grad():
            for tensor in trained(model).values():
                tensor.mul_(1.05)
        for side, chosen in sides.items():
            some = chosen[:4]
            pad, cpu = language_model.tokenizer.pad_token_id, torch.device("cpu")
            batch = make_batch(model, some, pad, cpu) if packed else collate(some, pad, cpu)
            assert not packed or batch.input_ids.numel() < sum(len(one.ids) for one in some)
            views[side] = ModelView(model, batch, Totals.of(some), reference)
        terms = make_method(method, {}).loss(views["forget"], views["retain"])
        torch.stack(list(terms.values())).sum().backward()
        values = {name: value.detach() for name, value in terms.items()}
        found.append((values, {name: tensor.grad for name, tensor in trained(model).items()}))
    (terms, slopes), (expected, wanted) = found
    for name, value in expected.items():
        assert float(terms[name]) == pytest.approx(float(value), rel=1e-5, abs=1e-7)
    for name, slope in wanted.items():
        assert (slopes[name] - slope).norm() <= 1e-5 * slope.norm() + 1e-8, name


def test_evaluated_with_the_image(xrays: Benchmark, seen_target: Run) -> None:
    settings = EvaluateSettings(split=SPLIT, folds="train", max_new_tokens=4, limit=1, replicates=10)
    scores = evaluate_one(seen_target, xrays, settings, quiet=True).scores
    kinds = {question.question_id: question.kind for question in xrays.questions}
    rated = scores[scores["measure"] == "option_accuracy"]
    assert set(rated[rated["value"].notna()]["question_id"].map(kinds)) == {"classification"}
    assert rated[rated["value"].isna()]["reason"].notna().all()


def test_an_image_control_asks_with_other_images_and_compares(
    xrays: Benchmark, seen_target: Run, tmp_path: Path
) -> None:
    values = {"split": SPLIT, "folds": "train,rephrase", "max_new_tokens": 2, "limit": 1, "replicates": 10}
    settings = check(
        EvaluateSettings,
        {**values, "metrics": "option_accuracy,answer_probability", "image_control": True, "allow_broken": True},
    )
    evaluation = evaluate(seen_target, xrays, settings, quiet=True)
    scores = evaluation.models[0].image_scores
    assert set(scores["image"]) == {"true", "swapped", "blank"}
    assert set(scores["fold"]) == {"train"}
    logs = scores[scores["measure"] == "answer_probability"].pivot(index="item", columns="image", values="value")
    assert logs.notna().all().all()
    assert not logs["true"].equals(logs["swapped"])
    assert not logs["swapped"].equals(logs["blank"])
    control = evaluation.image_control
    assert set(control["image"]) == {"swapped", "blank"}
    assert (control["difference"] - (control["true"] - control["value"])).abs().max() < 1e-9
    assert set(evaluation.private_table()["kind"]) >= {"cloze", "identity"}
    blind = replace(xrays, records=tuple(replace(record, image=None) for record in xrays.records))
    with pytest.raises(ConfigError, match="no image is shown to the model"):
        evaluate(seen_target, blind, settings.model_copy(update={"other_texts": True}), quiet=True)


def test_another_image_is_another_answer(xrays: Benchmark, seen_target: Run) -> None:
    """The image counts: the same question about another one is answered with other probabilities."""
    language_model = load_model(seen_target.model, device="cpu", images=xrays.folder)
    rendering = seen_target.rendering(max_length=512)
    question = next(q for q in xrays.questions if q.kind == "identity")
    record = xrays.record[question.record_id]
    other = next(one for one in xrays.records if one.image != record.image)
    both = [
        sequences([], [question], {record.record_id: shown}, language_model, rendering)[0]
        for shown in (record, other)
    ]
    assert both[0].ids[both[0].shared :] == both[1].ids[both[1].shared :]
    pad, model = language_model.tokenizer.pad_token_id, language_model.model
    logs = [
        ForwardOutputs(decoder_of(model), make_batch(model, [one], pad, torch.device("cpu"))).log_probs
        for one in both
    ]
    assert not torch.allclose(*logs)


def test_records_stand_behind_their_images(xrays: Benchmark, seen_target: Run) -> None:
    language_model = load_model(seen_target.model, device="cpu", images=xrays.folder)
    record, tokenizer = xrays.records[0], language_model.tokenizer
    assert language_model.pictures is not None
    assert record.image is not None
    image = language_model.pictures.tokens(record.images, record.record_id)
    plain = record_sequences(record, tokenizer, None)[0].ids
    cut = record_sequences(record, tokenizer, len(image) + 4, image)
    assert [one.ids[: one.shared] for one in cut] == [image] * len(cut)
    scored = [token for one in cut for token in one.ids[one.scored_from :]]
    assert tuple(scored) == plain, "every token of the text is scored once"
    with pytest.raises(InputError, match="no room for text"):
        record_sequences(record, tokenizer, len(image) + 1, image)


def test_a_model_of_text_alone(xrays: Benchmark, tmp_path: Path) -> None:
    text = {"model": "tiny", "tiny_width": 16, "tiny_layers": 1, "epochs": 1, "precision": "fp32"}
    with pytest.raises(InputError, match=r"takes only text.*--images ignore"):
        train(xrays, train_settings(text), tmp_path / "refused", quiet=True)
    run = train(xrays, train_settings({**text, "images": "ignore"}), tmp_path / "text", quiet=True)
    assert run.info["results"]["rendering"]["images"] == "ignore"
    assert "images" not in run.info["results"]
    left = run.rendering()
    assert left.images == "ignore", "what comes after a run leaves images out as it did"


def test_an_image_that_became_unreadable(xrays: Benchmark, tmp_path: Path) -> None:
    assert xrays.folder is not None
    shutil.copytree(xrays.folder, tmp_path / "b")
    record = xrays.records[-1]
    (tmp_path / "b" / str(record.image)).write_bytes(b"cut off")
    with pytest.raises(InputError, match=rf"{record.image}"):
        train(Benchmark.load(tmp_path / "b"), train_settings(SMALL), tmp_path / "r", quiet=True)


def test_exported_it_is_a_whole_model(xrays: Benchmark, seen_target: Run, tmp_path: Path) -> None:
    run = unlearn(
        seen_target, xrays, forgetting(seen_target, "npo", trainable="layers:1"), tmp_path / "u", quiet=True
    )
    export(run.folder, tmp_path / "full")
    one, other = (load_model(where, device="cpu").model.state_dict() for where in (run.model, tmp_path / "full"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (tmp_path / "full" / "preprocessor_config.json").exists()


def test_an_adapter_by_names_reaches_the_maps_of_the_tower_that_are_called_alike(
    xrays: Benchmark, seen_target: Run, tmp_path: Path
) -> None:
    settings = forgetting(seen_target, "graddiff", trainable="lora:2:4:names", lr=1e-2)
    run = unlearn(seen_target, xrays, settings, tmp_path / "u", quiet=True)
    before, after = (load_model(one.model, device="cpu").model.state_dict() for one in (seen_target, run))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    tower = {name.rpartition(".weight")[0].rpartition(".")[2] for name in moved if "vision_tower" in name}
    # CLIP calls its outer maps out_proj, fc1 and fc2, which no map of the decoder is called.
    assert tower == {"q_proj", "k_proj", "v_proj"}
    assert any("language_model" in name for name in moved)


def test_the_presets_of_lingshu(xrays: Benchmark) -> None:
    settings = train_settings({"model": "org/name", "preset": "lingshu-7b"})
    expected = {"trainable": "lora:16:16", "lr": 1e-4, "schedule": "linear", "batch_size": 8}
    assert {name: getattr(settings, name) for name in expected} == expected
    npo = unlearn_settings({"preset": "lingshu-7b", "method": "npo", "split": SPLIT}, tiny=False)
    assert npo.arguments == {"beta": 0.9}
    paper, code = (
        train_settings({"model": "org/name", "preset": f"lingshu-7b-{name}"}) for name in ("paper", "code")
    )
    assert [(s.epochs, s.batch_size, s.schedule_end, s.trainable) for s in (paper, code)] == [
        (10, 16, 0.0, "lora:16:16"),
        (3, 8, 0.75, "lora:16:16:names"),
    ]
    a_1, own = (
        unlearn_settings({"preset": f"lingshu-7b-{name}", "method": "npo", "split": SPLIT}, tiny=False).arguments
        for name in ("paper", "code")
    )
    assert (a_1, own) == ({"beta": 0.9, "alpha": 0.0, "reference": "retrained"}, {"beta": 0.9})


def test_a_model_from_elsewhere_keeps_its_eyes(seen_target: Run, xrays: Benchmark, tmp_path: Path) -> None:
    folder = export(seen_target.folder, tmp_path / "hf")
    settings = check(AdoptSettings, {"sample": 2, "allow_broken": True})
    run = adopt(folder, xrays, settings, tmp_path / "run", device="cpu", quiet=True)
    assert load_model(run.model, device="cpu", images=xrays.folder).pictures is not None
    assert run.rendering().images == "use"


def test_a_plan_counts_images_as_the_model_takes_them(seen_target: Run, xrays: Benchmark, tmp_path: Path) -> None:
    live = load_model(seen_target.model, device="cpu", images=xrays.folder)
    tiny = train_settings(SMALL)
    here = tiny.model_copy(update={"model": str(export(seen_target.folder, tmp_path / "hf"))})
    for settings in (tiny, here):
        pricing = Pricing.of(xrays, settings)
        records = xrays.records[:3]
        planned = pricing.sizes.of_records(records, settings.max_length)
        real = [
            len(one.ids) for record in records for one in live.record_sequences(record, rendering_for(settings))
        ]
        assert len(planned) == len(real)
        assert planned.whole.sum() == pytest.approx(sum(real), rel=0.03)
        tower = pricing.shape.tower
        assert tower is not None
        named = live.model.named_parameters()
        assert tower.parameters == pytest.approx(
            sum(t.numel() for n, t in named if "language_model" not in n), rel=0.05
        )
        cost = pricing.training(settings)
        assert cost.memory.weights == pytest.approx(sum(t.nbytes for t in live.model.parameters()), rel=0.05)
        seen = sum(image_flops(tower, tokens) for tokens in pricing.sizes.images.values())
        text = Pricing.of(xrays, settings.model_copy(update={"images": "ignore"})).training(settings)
        assert cost.flops > text.flops + 3 * seen > 0


def test_a_plan_of_a_vision_model_that_is_not_here(xrays: Benchmark) -> None:
    pricing = Pricing.of(xrays, train_settings({"model": "org/name-7B"}))
    assert "28 x 28 pixels" in " ".join(pricing.doubts)
    assert {*pricing.sizes.images.values()} == {1}  # 32 x 32 pixels
    assert not Pricing.of(xrays, train_settings({"model": "org/name-7B", "images": "ignore"})).sizes.images
    # A weight's product with a patch is two FLOPs.
    assert image_flops(Tower(100, 2, 8, 4, 0, 28), 3) == 2 * 100 * 12 + 4 * 2 * 8 * 12**2
