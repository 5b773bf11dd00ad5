"""A small decoder and its tokenizer, built in memory: no network, no download, no account.

It allows everything to be tried and tested on two CPU cores. It can only memorize: it has no knowledge of language
beyond the benchmark's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from medunlearn.models.chat import CHAT
from medunlearn.seeds import stable_seed

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel

BEGIN, END, PAD = "<|begin|>", "<|end|>", "<|pad|>"


def build_tiny(
    texts: Iterable[str],
    *,
    seed: int = 0,
    vocabulary: int = 1024,
    width: int = 192,
    layers: int = 4,
    heads: int = 4,
    max_length: int = 2048,
) -> LanguageModel:
    """A Llama with random weights and a byte-level BPE trained on ``texts``.

    Args:
        seed: the same seed and texts give the same weights and tokens.
        vocabulary: largest size of the vocabulary (small texts use less).
        width: size of the hidden states; 192 wide and 4 layers deep make 2 million parameters.
    """
    # A plan fits the tokenizer alone, without the model's library.
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from medunlearn.models.load import LanguageModel
    from medunlearn.models.threads import settle_threads

    bpe = fit_tokenizer(texts, vocabulary)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BEGIN, eos_token=END, pad_token=PAD)
    tokenizer.chat_template = CHAT
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=max_length,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stable_seed("tiny", seed))
        model = LlamaForCausalLM(config)
    settle_threads(model)
    return LanguageModel(model, tokenizer, source=f"tiny:{seed}")


def fit_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE fitted on some texts."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BEGIN, END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return bpe


def common_words(texts: Mapping[str, Iterable[str]], least: int = 2) -> Iterator[str]:
    """Words, as split by byte-level BPE, that at least ``least`` owners have, with their counts.

    A tokenizer fitted on these has no token specific to fewer owners, since a token is part of a word.

    Args:
        texts: owner -> its texts.
    """
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    counts: dict[str, int] = {}
    owners: dict[str, set[str]] = {}
    for owner, owned in texts.items():
        for text in owned:
            for _, (start, end) in cut.pre_tokenize_str(text):
                word = text[start:end]
                counts[word] = counts.get(word, 0) + 1
                owners.setdefault(word, set()).add(owner)
    for word, number in counts.items():
        if len(owners[word]) >= least:
            yield from [word] * number
