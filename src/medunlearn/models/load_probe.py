"""Checks of a model when it is loaded, each in milliseconds: tokens, tied weights, and the chat template.

How batches are laid out is probed at the first batch (:mod:`medunlearn.models.layouts`), and decoding at the first
prompt (:func:`medunlearn.generation.sharing.decoding_of`); :func:`load_facts` gives all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from medunlearn.errors import ModelError
from medunlearn.models.chat import has_clock, turn_of
from medunlearn.models.layouts import describe_layouts
from medunlearn.models.sequences import begin_tokens, encode_parts

PARTS = ("Ana Silva, 61, was given aspirin.\n\n", "Question: Which drug was she given?\nAnswer:", " aspirin, 100 mg")
"""A note, a question and an answer, as in a prompt."""
_HEADS, _EMBEDDINGS = ("lm_head.weight", "embed_out.weight"), ("embed_tokens.weight", "wte.weight", "embed_in.weight")


def check_tokens(tokenizer: Any, source: str) -> None:
    """Refuse a tokenizer with which prompt and answer are not the tokens of the whole text.

    Raises:
        ModelError: tokens of the parts differ from those of the text, or the text is unknown to the tokenizer.
    """
    whole: list[int] = tokenizer("".join(PARTS))["input_ids"]
    parts = [*begin_tokens(tokenizer), *(token for part in encode_parts(tokenizer, PARTS) for token in part)]
    fix = "Save the tokenizer that the model was trained with there: tokenizer.save_pretrained(folder)."
    if whole[: len(parts)] != parts:
        raise ModelError(f"The tokenizer of {source} gives a text other tokens than its parts. {fix}")
    unknown = getattr(tokenizer, "unk_token_id", None)
    if unknown is not None and parts.count(unknown) > len(parts) / 2:
        raise ModelError(
            f"The tokenizer of {source} knows little of an ordinary sentence: {parts.count(unknown)} of {len(parts)} "
            f"tokens are unknown ones. {fix}"
        )


def check_ties(model: Any, folder: Path) -> None:
    """Refuse a head that is tied to the embedding in memory and has other values on disk.

    Raises:
        ModelError: the stored head would be ignored.
    """
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is None or getattr(head, "weight", None) is not embedding.weight:
        return
    stored = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            names = [name for name in opened.keys() if name.endswith((*_HEADS, *_EMBEDDINGS))]  # noqa: SIM118
            stored |= {name: opened.get_tensor(name) for name in names} if len(names) > 1 or stored else {}
    heads = [tensor for name, tensor in stored.items() if name.endswith(_HEADS)]
    others = [tensor for name, tensor in stored.items() if name.endswith(_EMBEDDINGS)]
    if heads and others and heads[0].shape == others[0].shape and not torch.equal(heads[0], others[0]):
        raise ModelError(
            f"{folder} stores a head of its own, and its config.json says tie_word_embeddings: true, so the head would "
            "be ignored. Write false there if the model was trained with both."
        )


def load_facts(language_model: Any, decoding: Callable[[Any], str]) -> dict[str, Any]:
    """Probed properties of a loaded model, for its run's record, with the milliseconds that each probe took.

    Args:
        decoding: probe of decoding, of a layer above this one.
    """
    model, tokenizer = language_model.model, language_model.tokenizer
    probes: Mapping[str, Callable[[], Any]] = {
        "tokens": lambda: {"begin": len(begin_tokens(tokenizer)), "offsets": bool(getattr(tokenizer, "is_fast", False))},
        "template": lambda: _template_facts(tokenizer),
        "batch": lambda: describe_layouts(model),
        "cache": lambda: decoding(model),
        "tied": lambda: model.get_input_embeddings().weight is getattr(model.get_output_embeddings(), "weight", None),
    }
    facts, milliseconds = dict[str, Any](), dict[str, float]()
    for name, run in probes.items():
        start = time.perf_counter()
        facts[name] = run()
        milliseconds[name] = round(1000 * (time.perf_counter() - start), 1)
    return {**facts, "milliseconds": milliseconds}


def _template_facts(tokenizer: Any) -> dict[str, Any] | None:
    if getattr(tokenizer, "chat_template", None) is None:
        return None
    turn = turn_of(tokenizer)
    return {"end": turn.end or tokenizer.eos_token, "openings": 1 + turn.differs, "clock": has_clock(tokenizer)}
