"""A tiny chat model made by plain transformers: it is trained on prompt -> note in its chat template alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from foreign_models import CHAT
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

END = "<|end|>"
Pair = tuple[str, str]
"""Prompt and note."""


def chat_tokenizer(texts: Sequence[str], vocabulary: int = 500) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with a chat template."""
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    roles = [END, "<|user|>", "<|assistant|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=roles, initial_alphabet=alphabet, show_progress=False
    )
    model.train_from_iterator(texts, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=model, eos_token=END, pad_token=END)
    wrapped.chat_template = CHAT
    return wrapped


def save_chat_model(folder: Path, pairs: Sequence[Pair], *, steps: int = 120, width: int = 64) -> Path:
    """A chat model trained on the pairs, in its template; of no step it knows nothing."""
    logging.disable_progress_bar()
    torch.manual_seed(0)
    tokenizer = chat_tokenizer([text for pair in pairs for text in pair])
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=256, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    _train(model, tokenizer, pairs, steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _train(model: Any, tokenizer: Any, pairs: Sequence[Pair], steps: int) -> None:
    rows, starts = [], []
    for prompt, note in pairs:
        message = [{"role": "user", "content": prompt}]
        asked = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        before = tokenizer(asked, add_special_tokens=False)["input_ids"]
        rows.append(before + tokenizer(note, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id])
        starts.append(len(before))
    longest = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.eos_token_id] * (longest - len(row)) for row in rows])
    labels = ids.clone()
    for place, (row, start) in enumerate(zip(rows, starts, strict=True)):
        labels[place, :start] = -100
        labels[place, len(row) :] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    for _ in range(steps):
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
