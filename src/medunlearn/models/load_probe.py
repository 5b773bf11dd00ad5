"""Checks of a model when it is loaded, each in milliseconds: tokens, tied weights, and the chat template.

How batches are laid out is probed at the first batch (:mod:`medunlearn.models.layouts`), and decoding at the first
prompt (:func:`medunlearn.generation.sharing.decoding_of`); :func:`load_facts` gives all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from medunlearn.errors import ModelError
from medunlearn.models.chat import has_clock, turn_of
from medunlearn.models.layouts import describe_layouts
from medunlearn.models.sequences import begin_tokens, encode_parts

PARTS = (
    "Ana Silva, 61, was given aspirin.\n\n",
    "Question: Which drug was she given?\nAnswer:",
    " aspirin, 100 mg",
)
"""A note, a question and an answer, as in a prompt."""


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
            f"The tokenizer of {source} knows little of an ordinary sentence: {parts.count(unknown)} of "
            f"{len(parts)} tokens are unknown ones. {fix}"
        )


def settle_ties(model: Any) -> None:
    """Make a configuration say whether head and embedding are tied.

    transformers loads a head of its own where a folder stores one, also if the configuration says that it is tied.
    """
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is None or getattr(head, "weight", None) is embedding.weight:
        return
    for config in (model.config, model.config.get_text_config()):
        if getattr(config, "tie_word_embeddings", False):
            config.tie_word_embeddings = False


def load_facts(language_model: Any, decoding: Callable[[Any], str]) -> dict[str, Any]:
    """Probed properties of a loaded model, for its run's record, with the milliseconds that each probe took.

    Args:
        decoding: probe of decoding, of a layer above this one.
    """
    model, tokenizer = language_model.model, language_model.tokenizer
    probes: Mapping[str, Callable[[], Any]] = {
        "tokens": lambda: {
            "begin": len(begin_tokens(tokenizer)),
            "offsets": bool(getattr(tokenizer, "is_fast", False)),
        },
        "template": lambda: _template_facts(tokenizer),
        "batch": lambda: describe_layouts(model),
        "cache": lambda: decoding(model),
        "tied": lambda: (
            model.get_input_embeddings().weight is getattr(model.get_output_embeddings(), "weight", None)
        ),
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
