"""LoRA on weights in 4 bits: they are NF4's, the adapter learns on them, and what is saved is what was trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from row_files import write_lines

from medunlearn.config import check
from medunlearn.config.training import TrainSettings
from medunlearn.data.records import Record
from medunlearn.errors import ConfigError
from medunlearn.models import four_bit
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.four_bit import is_four_bit, round_to_four_bits, whole_weight
from medunlearn.models.load import LanguageModel
from medunlearn.models.quantization import rounded
from medunlearn.models.sequences import record_sequences
from medunlearn.models.tiny import build_tiny
from medunlearn.study.benchmark_builds import build
from medunlearn.study.presets import train_settings
from medunlearn.study.train import train
from medunlearn.training.batch_plan import Plan
from medunlearn.training.loop import LoopSettings, train_loop
from medunlearn.training.merging import merge, merged
from medunlearn.training.objectives import NextToken
from medunlearn.training.trainable import choose_trainable

pytest.importorskip("bitsandbytes")
Tiny = Callable[[], Any]
TEXT = "the quick brown fox jumps over the lazy dog and sleeps"
IDS = torch.arange(3, 23)[None]


def test_weights_are_rounded_as_nf4() -> None:
    """Equal to the rounding of the quantization attack, which is written out; the rest of the model stays.

    Blocks of 64 go on from row to row there, so that rows of other lengths are rounded otherwise.
    """
    whole, model = (build_tiny(["a fox"], width=64, layers=2).model for _ in range(2))
    linear = [name for name, m in decoder_layers(whole).named_modules() if isinstance(m, torch.nn.Linear)]
    assert round_to_four_bits(model) == len(linear)
    before, after = dict(decoder_layers(whole).named_modules()), dict(decoder_layers(model).named_modules())
    assert sum(before[name].in_features % 64 == 0 for name in linear) > len(linear) / 2
    for name in linear:
        if before[name].in_features % 64:
            continue
        torch.testing.assert_close(
            whole_weight(after[name]), rounded(before[name].weight.detach(), "nf4"), atol=1e-6, rtol=1e-5
        )
        assert after[name].weight.numel() * 2 == before[name].weight.numel()
    assert torch.equal(model.get_input_embeddings().weight, whole.get_input_embeddings().weight)


def test_what_is_saved_is_what_was_trained() -> None:
    def tiny() -> LanguageModel:
        # Rows of an even length: for others bitsandbytes compiles its kernels.
        return build_tiny([TEXT], width=48, layers=2)

    language_model = tiny()
    round_to_four_bits(language_model.model)
    model = choose_trainable(language_model.model, "lora:4")
    packed = {n: m.weight.detach().clone() for n, m in model.named_modules() if is_four_bit(m) and "base" in n}
    pieces = record_sequences(Record("r", TEXT, {}), language_model.tokenizer, 32)
    settings = LoopSettings(lr=1e-2, precision="fp32")
    losses = train_loop(model, 2, NextToken(), Plan({"train": pieces}, 1, 12, 0), settings)
    assert losses
    now = dict(model.named_modules())
    assert packed
    assert all(torch.equal(now[name].weight, weight) for name, weight in packed.items())
    model.eval()
    with torch.inference_mode():
        trained = model(IDS).logits
        with merged(model):
            assert torch.equal(model(IDS).logits, trained)
    plain, lost = merge(model)
    assert lost < 1e-5
    assert not any(is_four_bit(module) for module in plain.modules())
    assert type(plain) is type(tiny().model)
    with torch.inference_mode():
        torch.testing.assert_close(plain(IDS).logits, trained, atol=1e-4, rtol=1e-4)
        untrained = tiny().model.eval()(IDS).logits
    assert (trained - untrained).abs().max() > 0.1


def test_plain_notes_without_questions_are_trained_on_in_4_bits_and_audited(tmp_path: Path) -> None:
    from medunlearn.audit.audit_run import audit
    from medunlearn.seeds import generator

    words = ["fever", "left", "scan", "of", "knee", "was", "clear", "after", "two", "weeks", "she", "walked"]
    rows = []
    for number in range(6):
        draw = generator("four bit", str(number))
        text = " ".join(str(draw.choice(words)) for _ in range(60))
        rows.append({"patient_id": f"P{number}", "note_id": f"n{number}", "note": text})
    write_lines(tmp_path / "notes.jsonl", rows)
    bench = build("notes", {"notes": tmp_path / "notes.jsonl", "clozes": 0, "detectors": "none", "percents": [50]})
    # Nothing is asked: the notes themselves are trained on.
    small = {"model": "tiny", "tiny_width": 64, "tiny_layers": 2, "precision": "fp32", "train_on": "records"}
    settings = train_settings(
        {**small, "preset": "memorization-notes", "weights": "fp32", "epochs": 2, "lr": 1e-3, "max_length": 256}
    )
    assert (settings.quantize, settings.schedule, settings.template) == ("nf4", "cosine", "chat")
    assert (settings.trainable, settings.weight_decay, settings.batch_size) == ("lora:64:128", 0.1, 16)
    run = train(bench, settings, tmp_path / "run", quiet=True)
    assert run.info.results["saved"]["merge_rounding"] < 1e-3
    how = {"prefixes": (10,), "max_new_tokens": 40, "measures": ("run_30",), "replicates": 20, "quiet": True}
    result = audit(run.folder, tmp_path / "notes.jsonl", patient_column="patient_id", id_column="note_id",
                   out=tmp_path / "audit", **how)  # fmt: skip
    assert result.first_screen().extraction.corpora[0].members.n == 6


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trainable": "all"}, "weights in 4 bits are not trained"),
        ({"trainable": "lora:4", "sharding": "fsdp2"}, "cannot be combined with sharding"),
    ],
)
def test_settings_that_contradict_each_other(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(TrainSettings, {"model": "tiny", "quantize": "nf4", **values})


def test_without_bitsandbytes_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tiny: Tiny) -> None:
    monkeypatch.setattr(four_bit, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'medunlearn\[gpu\]'"):
        round_to_four_bits(tiny().model)
