"""PEFT adapters merged into their base, with a check that the merged model is the unmerged one."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from safetensors import safe_open
from torch import Tensor, nn

from medunlearn.data.storage import read_json
from medunlearn.errors import ModelError, first_line
from medunlearn.models.folders import ADAPTER, ADAPTER_TENSORS
from medunlearn.models.loading import from_pretrained
from medunlearn.models.pretrained import LOADING_ERRORS
from medunlearn.template_process import match_patterns

MERGED = {4: 1e-3, 2: 0.1}
"""Bytes of a weight -> largest change of a logit in a merge, as a share of the largest logit. A merge rounds."""
_TOKENS = 12
_EMBEDDINGS = ("embed_tokens", "wte", "embed_in", "word_embeddings", "embeddings", "lm_head", "embed_out")


def merge_adapter(model: Any, folder: Path, tokenizer: Any | None) -> Any:
    """A base with the adapter in a folder merged into its weights.

    An embedding and a head that share their weights are separated if the adapter changes one of them. A base is
    resized to the vocabulary with which the adapter was trained.

    Args:
        tokenizer: that of the adapter's folder; None: without one.

    Raises:
        ModelError: the adapter does not fit, changes no weights, or is not the same model once merged.
    """
    from peft import PeftModel

    _refuse_prompts(folder)
    _refuse_slow_patterns(folder, [name for name, _ in model.named_modules()])
    _resize(model, folder, tokenizer)
    try:
        with warnings.catch_warnings():
            # PEFT asks a property of the model that transformers renamed in 5.20.
            warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
            # Tied weights are separated below.
            warnings.filterwarnings("ignore", message=".*tie_word_embeddings", category=UserWarning)
            # It only warns where the file lacks what the base asks for, and goes on with the bare base.
            warnings.filterwarnings("error", message="Found missing adapter keys", category=UserWarning)
            adapted = from_pretrained(PeftModel, folder, model)
            separate_embeddings(adapted)
            unmerged = sample_logits(adapted)
            merged = adapted.merge_and_unload()
    except LOADING_ERRORS as error:
        raise ModelError(f"Adapter {folder} does not fit its base: {first_line(error)}") from error
    refuse_other_model(unmerged, merged, f"Adapter {folder}")
    return merged


def separate_embeddings(adapted: Any) -> None:
    """Give the head weights of its own if an adapter is on it or on the embedding, and both share theirs."""
    base = adapted.get_base_model()
    embedding, head = (_below(module) for module in (base.get_input_embeddings(), base.get_output_embeddings()))
    if head is None or head.weight is not embedding.weight:
        return
    wrapped = (base.get_input_embeddings(), base.get_output_embeddings())
    if not any(
        hasattr(module, "merge") and module is not bare
        for module, bare in zip(wrapped, (embedding, head), strict=True)
    ):
        return
    head.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=head.weight.requires_grad)
    for config in (base.config, base.config.get_text_config()):
        config.tie_word_embeddings = False


def sample_logits(model: Any) -> Tensor:
    """Logits of a few tokens, [T, V] in fp32 on the CPU, by which two forms of a model are compared."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    ids = torch.tensor([[(7 * step * step + 3 * step + 5) % vocabulary for step in range(_TOKENS)]])
    training, device = model.training, next(model.parameters()).device
    model.eval()
    try:
        with torch.no_grad():
            logits: Tensor = model(input_ids=ids.to(device), use_cache=False).logits[0]
    finally:
        model.train(training)
    return logits.float().cpu()


def refuse_other_model(unmerged: Tensor, merged: Any, what: str) -> None:
    """Refuse a merge that changed a model's answers by more than rounding.

    Raises:
        ModelError: the logits differ.
    """
    logits = sample_logits(merged)
    width = next(merged.parameters()).element_size()
    change, largest = (logits - unmerged).abs().max(), unmerged.abs().max()
    if not change <= MERGED.get(width, MERGED[2]) * largest and bool(unmerged.isfinite().all()):
        raise ModelError(
            f"{what} is another model once it is merged: a logit changes by {change:.2g}, and the largest is "
            f"{largest:.2g}. Merge it with the software that made it, and give the merged model."
        )


def _below(module: Any) -> Any:
    """The module that an adapter is wrapped around."""
    while hasattr(module, "base_layer"):
        module = module.base_layer
    return module


def _refuse_prompts(folder: Path) -> None:
    from peft import PeftConfig

    try:
        config = from_pretrained(PeftConfig, folder)
    except LOADING_ERRORS as error:
        raise ModelError(f"Adapter {folder} does not fit its base: {first_line(error)}") from error
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    if config.is_prompt_learning or config.is_adaption_prompt:
        raise ModelError(
            f"Adapter {folder} is of the kind {kind}: it puts learned vectors before every input and changes no "
            "weights, so there is nothing to unlearn in. Give a LoRA adapter, or the base itself."
        )


def _refuse_slow_patterns(folder: Path, modules: list[str]) -> None:
    """Refuse patterns of an adapter that take too long to match, before PEFT matches them with each module's name.

    Raises:
        InputError: they backtrack too long.
        ModelError: one is no pattern.
    """
    config = read_json(folder / ADAPTER)
    config = config if isinstance(config, dict) else {}
    whole = [config.get(key) for key in ("target_modules", "exclude_modules")]
    layers = config.get("layers_pattern") or []
    patterns = [pattern for pattern in whole if isinstance(pattern, str)]
    patterns += [rf".*\.{part}\.(\d+)\..*" for part in ([layers] if isinstance(layers, str) else layers)]
    for key in ("rank_pattern", "alpha_pattern"):
        patterns += [rf"(.*\.)?({part})" for part in config.get(key) or ()]
    if all(re.fullmatch(r"[\w.-]*", pattern) for pattern in patterns):
        return
    try:
        match_patterns(f"A pattern in {folder / ADAPTER}", patterns, modules)
    except TemplateError as error:
        raise ModelError(f"{folder / ADAPTER} has a wrong pattern: {first_line(error)}.") from error


def _resize(model: Any, folder: Path, tokenizer: Any | None) -> None:
    """Resize a base to the embedding that an adapter was trained with.

    Raises:
        ModelError: the adapter's vocabulary differs, and no tokenizer of its own says what the rows are.
    """
    rows = int(model.get_input_embeddings().weight.shape[0])
    own = _embedding_rows(folder)
    if own is None or own == rows:
        return
    if tokenizer is None:
        raise ModelError(
            f"Adapter {folder} was trained with a vocabulary of {own:,} tokens, and its base has {rows:,}. Save "
            "the tokenizer that it was trained with beside it: tokenizer.save_pretrained(folder)."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.resize_token_embeddings(own, mean_resizing=False)


def _embedding_rows(folder: Path) -> int | None:
    """Rows of a whole embedding or head in an adapter's file; None if it has none."""
    try:
        with safe_open(folder / ADAPTER_TENSORS, framework="pt") as opened:
            names = [name for name in opened.keys() if _is_embedding(name)]  # noqa: SIM118
            return max((int(opened.get_slice(name).get_shape()[0]) for name in names), default=None)
    except LOADING_ERRORS:
        return None


def _is_embedding(name: str) -> bool:
    parts = [part for part in name.split(".") if part not in ("base_layer", "modules_to_save", "default")]
    return parts[-1] == "weight" and len(parts) > 1 and parts[-2] in _EMBEDDINGS
