"""Encoders for text measures: sentence embeddings for CS, entailment for ES.

Both work with any encoder on a hub, in a folder or in a package (:mod:`.packaged`). AMNESIA uses PubMedBERT for
embeddings and PubMedBERT-MNLI-MedNLI for entailment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as transformers_logging

from medunlearn.errors import ModelError, first_line
from medunlearn.hub_offline import go_offline_if_unreachable
from medunlearn.models.folders import model_folder
from medunlearn.models.loading import from_pretrained
from medunlearn.models.pretrained import LOADING_ERRORS, pick_device, refuse_missing

BATCH = 64


class SentenceEncoder:
    """Sentence encoder: mean of the last hidden states over a text's tokens, scaled to unit length.

    Args:
        source: folder or hub id of an encoder.

    Raises:
        ModelError: it cannot be loaded.
    """

    def __init__(self, source: str, device: str = "auto") -> None:
        self.tokenizer, self.model = load_pretrained(source, AutoModel, device)

    def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """Unit-length vectors, [len(texts), width]; texts longer than the encoder's limit are cut."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            inputs = _inputs(self.tokenizer, self.model, list(texts[start : start + BATCH]))
            with torch.inference_mode():
                states: Tensor = self.model(**inputs).last_hidden_state
            mask = inputs["attention_mask"][:, :, None]
            means = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            vectors += torch.nn.functional.normalize(means, dim=1).tolist()
        return vectors


class EntailmentModel:
    """Entailment model: a sequence-pair classifier with a label for entailment.

    Args:
        source: folder or hub id.

    Raises:
        ModelError: it cannot be loaded, or does not have exactly one label called entailment.
    """

    def __init__(self, source: str, device: str = "auto") -> None:
        self.tokenizer, self.model = load_pretrained(source, AutoModelForSequenceClassification, device)
        labels = {int(index): str(label).lower() for index, label in self.model.config.id2label.items()}
        entailed = [index for index, label in labels.items() if label.startswith("entail")]
        if len(entailed) != 1:
            raise ModelError(
                f"{source} has the labels {', '.join(labels.values())}; exactly one of them must be called "
                "entailment. Set id2label in its config.json."
            )
        self._entailed = entailed[0]

    def entails(self, premises: Sequence[str], hypotheses: Sequence[str]) -> list[bool]:
        """True if the most probable label of each pair is entailment."""
        verdicts: list[bool] = []
        for start in range(0, len(premises), BATCH):
            pair = list(premises[start : start + BATCH]), list(hypotheses[start : start + BATCH])
            with torch.inference_mode():
                logits: Tensor = self.model(**_inputs(self.tokenizer, self.model, *pair)).logits
            verdicts += (logits.argmax(1) == self._entailed).tolist()
        return verdicts


def load_pretrained(source: str, cls: Any, device: str, kind: str = "Encoder") -> tuple[Any, Any]:
    """Tokenizer and model from a folder or hub id, in evaluation mode on the device.

    Args:
        cls: one of transformers' ``AutoModel`` classes.
        kind: name of the kind of model in errors.

    Raises:
        ModelError: it cannot be loaded, or lacks weights.
    """
    transformers_logging.disable_progress_bar()
    source = model_folder(source)
    if not Path(source).is_dir():
        go_offline_if_unreachable()
    try:
        tokenizer = from_pretrained(AutoTokenizer, source)
        model, loaded = from_pretrained(cls, source, use_safetensors=True, output_loading_info=True)
    except LOADING_ERRORS as error:
        raise ModelError(f"{kind} {source} cannot be loaded: {first_line(error)}") from error
    # Sentence vectors are means of states: the pooler, which many encoders come without, is not used for them.
    pooler_used = cls is not AutoModel
    refuse_missing(source, [name for name in loaded["missing_keys"] if pooler_used or "pooler" not in name])
    return tokenizer, model.to(pick_device(device)).eval()


def _inputs(tokenizer: Any, model: Any, *texts: list[str]) -> Any:
    longest = getattr(model.config, "max_position_embeddings", 512)
    return tokenizer(*texts, padding=True, truncation=True, max_length=min(longest, 512), return_tensors="pt").to(
        model.device
    )
