"""Tokens know where they stand, and a text that goes on from another is cut as both together are."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from medunlearn.audit.units import TokenizerUnit, WordsUnit, continuations, tokenizer_in, unit_of
from medunlearn.errors import InputError, ModelError

TEXT = "Aspirin 100 mg  daily.\n\nNaïve β-blocker — stopped; patient's pain ≥ 5/10."


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """As many models' tokenizers do, it moves places off white space and adds special tokens."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.post_processor = processors.ByteLevel(trim_offsets=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator([TEXT, "aspirin daily, pain stopped"] * 4, trainer)
    return bpe


@pytest.fixture(scope="module")
def unit(tokenizer: Any) -> TokenizerUnit:
    return TokenizerUnit(tokenizer, "a test")


def test_ends_cut_the_text_without_loss(unit: TokenizerUnit, tokenizer: Any) -> None:
    (encoded,) = unit.encode([TEXT])
    ends = encoded.ends.tolist()
    assert ends == sorted(ends)
    assert encoded.ids.tolist() == tokenizer.encode(TEXT, add_special_tokens=False).ids
    pieces = [TEXT[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert "".join(pieces) == TEXT


def test_a_true_continuation_has_the_texts_own_tokens(unit: TokenizerUnit) -> None:
    (whole,) = unit.encode([TEXT])
    for at in whole.ends[:-1].tolist():
        (rest,) = continuations(unit, [TEXT[:at]], [TEXT[at:]])
        # A letter of several bytes may be cut in two tokens; what follows it is the same.
        assert rest.ids.tolist() == whole.ids[whole.ends > at].tolist()
        assert (rest.ends + at).tolist() == whole.ends[whole.ends > at].tolist()


def test_alone_a_text_may_be_cut_otherwise(unit: TokenizerUnit) -> None:
    at = TEXT.index("pirin")
    (together,), (alone,) = continuations(unit, [TEXT[:at]], [TEXT[at:]]), unit.encode([TEXT[at:]])
    assert together.ids.tolist() != alone.ids.tolist()
    with pytest.raises(InputError, match="1 texts for 2 prefixes"):
        continuations(unit, ["a", "b"], ["c"])


def test_words_and_punctuation_marks() -> None:
    unit = WordsUnit()
    (encoded,) = unit.encode(["The cat, the cat's mat."])
    assert encoded.ids.tolist() == [1, 2, 3, 4, 2, 5, 6, 7, 8]
    assert encoded.ends.tolist()[:3] == [3, 7, 8]
    unit.seal()
    assert unit.encode(["cat dog, mat"])[0].ids.tolist() == [2, 0, 3, 7]


def test_a_tokenizer_from_a_folder(tmp_path: Path, unit: TokenizerUnit, tokenizer: Any) -> None:
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for where in (tmp_path, tmp_path / "tokenizer.json"):
        assert tokenizer_in(where).encode([TEXT])[0].ids.tolist() == unit.encode([TEXT])[0].ids.tolist()
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match="cannot be read as a tokenizer"):
        tokenizer_in(tmp_path)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        tokenizer_in(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="gives no token offsets"):
        unit_of(object(), "m")


def test_a_script_without_spaces_has_a_word_a_letter() -> None:
    """A note of Japanese has as many words as letters, not one; other words stay whole."""
    text = "発熱と咳、CT 2回。ไข้"
    (encoded,) = WordsUnit().encode([text])
    ends = [0, *encoded.ends.tolist()]
    words = [text[start:end].strip() for start, end in pairwise(ends)]
    assert words == ["発", "熱", "と", "咳", "、", "CT", "2", "回", "。", "ไ", "ข", "้"]
