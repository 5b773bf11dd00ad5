"""Tokenizers that treat the beginning of a text, spaces and the end of a turn as those of real model folders do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
GEMMA_END, CHATML_END = "<end_of_turn>", "<|im_end|>"
MARKERS = ("<start_of_turn>", GEMMA_END, "<|im_start|>", CHATML_END)

GEMMA = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n{{ message['content'] | trim }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
QWEN3 = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['role'] == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA2 = (
    "{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + message['content'] | trim + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
)
CLOCK = (
    "{% if strftime_now is defined %}{% set today = strftime_now('%d %b %Y') %}{% else %}"
    "{% set today = '26 Jul 2024' %}{% endif %}<|im_start|>system\nToday Date: {{ today }}<|im_end|>\n"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def prepending(texts: Iterable[str], vocabulary: int = 400, chat: str | None = None) -> PreTrainedTokenizerFast:
    """Llama 2's kind: a space before every text, no cut between words, begin token added."""
    bpe = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bpe.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", BOS, EOS, PAD, *MARKERS]
    letters = sorted({letter for text in texts for letter in text} | {"▁", "\n"})
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, initial_alphabet=letters, show_progress=False
    )
    # Trained on words, as sentencepiece does; applied to whole texts.
    bpe.train_from_iterator([f" {word}" for text in texts for word in text.split()], trainer)
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, bpe.token_to_id(BOS))]
    )
    return _wrapped(bpe, chat)


def byte_level(
    texts: Iterable[str], vocabulary: int = 500, chat: str | None = None, words: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """GPT-2's kind; nothing is added to a text.

    Args:
        words: further added tokens, such as the marks of a reasoning block.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS, EOS, PAD, *MARKERS, *words],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return _wrapped(bpe, chat)


def _wrapped(bpe: Tokenizer, chat: str | None) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BOS, eos_token=EOS, pad_token=PAD)
    tokenizer.chat_template = chat
    return tokenizer
