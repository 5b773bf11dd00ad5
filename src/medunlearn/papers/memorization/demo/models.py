"""The demo's models: after half and all epochs of training on texts in several copies, and fine-tuned further."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medunlearn.synthetic.corpus import CorpusText

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel

LONGEST = 512
"""Tokens that the model can hold, and of a training text at most."""
RATE, BATCH = 4e-3, 2
"""Of the training; small batches, since steps and not tokens are what a model this small lacks."""
FURTHER_RATE, FURTHER_EPOCHS = RATE / 10, 1
"""Of the further fine-tuning: gentler than the training, as it usually is."""
HALF, WHOLE, FURTHER = "half", "whole", "further"


def demo_models(
    texts: Sequence[CorpusText], other: Sequence[CorpusText], folder: Path, *, epochs: int, seed: int
) -> dict[str, Path]:
    """Folders of the models after half and all epochs, and of the last one fine-tuned on other texts; resumes.

    Args:
        texts: trained on, each as often as it has copies; those without one teach the tokenizer alone.
        other: of the further fine-tuning, each once an epoch.
    """
    from medunlearn.models.load import load_model
    from medunlearn.models.tiny import build_tiny

    half = epochs // 2
    steps = (
        (HALF, f"epoch_{half:02d}", texts, half, RATE),
        (WHOLE, f"epoch_{epochs:02d}", texts, epochs - half, RATE),
        (FURTHER, "further", other, FURTHER_EPOCHS, FURTHER_RATE),
    )
    model: LanguageModel | None = None
    before: Path | None = None
    folders = {name: folder / label for name, label, *_ in steps}
    for number, (name, _, own, more, rate) in enumerate(steps):
        # The tokenizer is written last.
        if (folders[name] / "tokenizer.json").exists():
            before = folders[name]
            continue
        if before is not None:
            model, before = load_model(before, device="cpu"), None
        elif model is None:
            words = (text.text for text in texts)
            model = build_tiny(words, vocabulary=600, width=96, layers=2, max_length=LONGEST, seed=seed)
        _train(model, own, epochs=more, rate=rate, seed=seed + number)
        model.save(folders[name])
    return folders


def _train(model: LanguageModel, texts: Sequence[CorpusText], *, epochs: int, rate: float, seed: int) -> None:
    from medunlearn.data.records import Record
    from medunlearn.models.sequences import record_sequences
    from medunlearn.training.loop import train_loop
    from medunlearn.training.objectives import NextToken
    from medunlearn.training.plan import Plan
    from medunlearn.training.settings import LoopSettings

    pieces = [
        piece
        for text in texts
        for copy in range(text.copies)
        for piece in record_sequences(Record(f"{text.text_id}.{copy}", text.text, {}), model.tokenizer, LONGEST)
    ]
    plan = Plan({"train": pieces}, BATCH, epochs, seed)
    settings = LoopSettings(lr=rate, precision="fp32", seed=seed)
    train_loop(model.model, model.tokenizer.pad_token_id, NextToken(), plan, settings)
