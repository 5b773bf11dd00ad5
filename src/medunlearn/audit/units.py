"""Units of text length: tokens of a tokenizer, or words and punctuation marks without one. No torch.

A unit gives a text's token ids and each token's end offset, so a text can be cut between tokens without decoding.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from medunlearn.errors import InputError, ModelError, first_line
from medunlearn.input_files import regular_file
from medunlearn.metrics.measure import FIRST
from medunlearn.metrics.verbatim import Ids
from medunlearn.metrics.workers import in_processes, shares

WORDS = "words and punctuation marks"
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")
_BATCH = 256
# Starting a process takes about half a second, the time of encoding this many texts of some hundred tokens.
_PER_PROCESS = 2000


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text of n tokens: their ids [n] and end offsets in characters [n]."""

    ids: Ids
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    def start_of(self, text: str) -> str:
        """The text of the first :data:`~medunlearn.metrics.measure.FIRST` tokens."""
        return text if len(self) <= FIRST else text[: int(self.ends[FIRST - 1])]


class Unit(Protocol):
    """A way to split texts into countable tokens.

    Attributes:
        name: label in tables and run.json.
        noun: ``tokens`` or ``words``.
        fingerprint: equal fingerprints give equal tokens of every text.
    """

    name: str
    noun: str
    fingerprint: str

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Each text's tokens, without special tokens."""
        ...


class TokenizerUnit:
    """The tokens of a tokenizer.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``; it is copied.
        owner: name of its model, for tables.
    """

    noun = "tokens"

    def __init__(self, tokenizer: Any, owner: str) -> None:
        self.name = f"tokens of {owner}"
        self.fingerprint = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
        self._tokenizer = type(tokenizer).from_str(tokenizer.to_str())
        # Post-processing adds special tokens and trims offsets at white space, where texts could not be cut.
        self._tokenizer.post_processor = None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        return [encoded for share in in_processes(self._encode, shares(texts, _PER_PROCESS)) for encoded in share]

    def _encode(self, texts: Sequence[str]) -> list[Encoded]:
        return [
            Encoded(
                np.array(encoding.ids, dtype=np.uint32),
                np.array([end for _, end in encoding.offsets], dtype=np.int64),
            )
            for start in range(0, len(texts), _BATCH)
            for encoding in self._tokenizer.encode_batch(
                list(texts[start : start + _BATCH]), add_special_tokens=False
            )
        ]


class WordsUnit:
    """Words (runs of letters, digits and underscores) and punctuation marks as tokens; case-sensitive.

    In scripts without spaces each letter is a word: a sentence of Japanese would be one. Words get ids in order of
    appearance. After :meth:`seal` every new word has id 0: it cannot match a known word anyway.
    """

    name, noun, fingerprint = WORDS, "words", "words/2"

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sealed = False

    def seal(self) -> None:
        self._sealed = True

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        encoded = []
        for text in texts:
            words = list(_WORD.finditer(text))
            ids = np.array([self._number(word[0]) for word in words], dtype=np.uint32)
            encoded.append(Encoded(ids, np.array([word.end() for word in words], dtype=np.int64)))
        return encoded

    def _number(self, word: str) -> int:
        if self._sealed:
            return self._numbers.get(word, 0)
        return self._numbers.setdefault(word, len(self._numbers) + 1)


def unit_without_model(tokenizer: str | None) -> Unit:
    """The unit of a tokenizer folder; without one, words and punctuation marks."""
    return WordsUnit() if tokenizer is None else tokenizer_in(tokenizer)


def tokenizer_in(folder: str | Path) -> TokenizerUnit:
    """The unit of a folder's ``tokenizer.json`` (:func:`read_tokenizer`)."""
    return TokenizerUnit(read_tokenizer(folder), str(folder))


def read_tokenizer(folder: str | Path) -> Any:
    """The ``tokenizers.Tokenizer`` of a folder's ``tokenizer.json``, read without torch.

    Args:
        folder: of a model, a tokenizer or a run, or the file itself.

    Raises:
        ModelError: it is missing or cannot be read.
    """
    from tokenizers import Tokenizer

    from medunlearn.models.folders import adapter_base, chain, is_adapter, model_folder

    path = Path(model_folder(folder))
    if is_adapter(path) and not (path / "tokenizer.json").exists():
        path = Path(adapter_base(path))
    if path.is_dir():
        path = chain(path, check=False)[0] / "tokenizer.json"
    if not path.exists():
        raise ModelError(f"There is no {path}. --tokenizer names a folder with a tokenizer.json.")
    try:
        return Tokenizer.from_file(str(regular_file(path, ModelError)))
    except ModelError:
        raise
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{path} cannot be read as a tokenizer: {first_line(error)}") from error


def unit_of(tokenizer: Any, owner: str) -> TokenizerUnit:
    """The unit of a transformers tokenizer."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"The tokenizer of {owner} gives no token offsets. Save it with a tokenizer.json: "
            "AutoTokenizer.from_pretrained(FOLDER, use_fast=True).save_pretrained(FOLDER)."
        )
    return TokenizerUnit(backend, owner)


def continuations(unit: Unit, prefixes: Sequence[str], texts: Sequence[str]) -> list[Encoded]:
    """Tokens of texts that continue prefixes, encoded as one text; offsets are in the text.

    A token across the boundary belongs to the text.
    """
    if len(prefixes) != len(texts):
        raise InputError(f"{len(texts)} texts for {len(prefixes)} prefixes: give one prefix per text.")
    joint = unit.encode([prefix + text for prefix, text in zip(prefixes, texts, strict=True)])
    parts = []
    for prefix, encoded in zip(prefixes, joint, strict=True):
        start = int(np.searchsorted(encoded.ends, len(prefix), side="right"))
        parts.append(Encoded(encoded.ids[start:], encoded.ends[start:] - len(prefix)))
    return parts
