"""What texts are counted in: a tokenizer's tokens, or words and punctuation marks where there is no tokenizer.

A unit gives a text's numbers (ids), equal where the tokens are, and where in the text each token ends, so that a
text can be cut between tokens without being decoded. Nothing here needs torch.
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

from medunlearn.audit.tokens import Ids
from medunlearn.errors import InputError, ModelError
from medunlearn.metrics.workers import in_processes, usable_cores

WORDS = "words and punctuation marks"
_WORD = re.compile(r"\w+|[^\w\s]")
_AT_ONCE = 256
# A process starts in about half a second, which so many texts of some hundred tokens outweigh.
_WORTH_A_PROCESS = 2000


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text in tokens, n of them.

    Attributes:
        ids: [n].
        ends: where each token ends in the text, in characters, [n].
    """

    ids: Ids
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)


class Unit(Protocol):
    """A way to count texts.

    Attributes:
        name: what it is, for tables and run.json.
        noun: ``tokens`` or ``words``: what lengths are called.
        fingerprint: equal fingerprints, equal tokens of every text.
    """

    name: str
    noun: str
    fingerprint: str

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        """Each text's tokens, special ones left out."""
        ...


class TokenizerUnit:
    """The tokens of a tokenizer.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``; it is copied.
        of: whose it is, for tables.
    """

    noun = "tokens"

    def __init__(self, tokenizer: Any, of: str) -> None:
        self.name = f"tokens of {of}"
        self.fingerprint = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
        self._tokenizer = type(tokenizer).from_str(tokenizer.to_str())
        # Post-processing adds special tokens, and moves places off white space: no text could be cut there.
        self._tokenizer.post_processor = None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        parts = max(1, min(usable_cores(), len(texts) // _WORTH_A_PROCESS))
        size = max(1, -(-len(texts) // parts))
        shared = [texts[start : start + size] for start in range(0, len(texts), size)]
        return [one for part in in_processes(self._encode, shared) for one in part]

    def _encode(self, texts: Sequence[str]) -> list[Encoded]:
        found = []
        for start in range(0, len(texts), _AT_ONCE):
            for one in self._tokenizer.encode_batch(
                list(texts[start : start + _AT_ONCE]), add_special_tokens=False
            ):
                ends = np.array([end for _, end in one.offsets], dtype=np.int64)
                found.append(Encoded(np.array(one.ids, dtype=np.uint32), ends))
        return found


class WordsUnit:
    """Words (runs of letters, digits and underscores) and punctuation marks, each a token; case counts.

    A word has a number once it was met. After :meth:`seal` new words are all 0: texts that are compared with those
    met before cannot share them anyway.
    """

    name, noun, fingerprint = WORDS, "words", "words/1"

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._sealed = False

    def seal(self) -> None:
        self._sealed = True

    def encode(self, texts: Sequence[str]) -> list[Encoded]:
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> Encoded:
        words = list(_WORD.finditer(text))
        ids = [self._number(word[0]) for word in words]
        ends = np.array([word.end() for word in words], dtype=np.int64)
        return Encoded(np.array(ids, dtype=np.uint32), ends)

    def _number(self, word: str) -> int:
        if self._sealed:
            return self._numbers.get(word, 0)
        return self._numbers.setdefault(word, len(self._numbers) + 1)


def tokenizer_in(folder: str | Path) -> TokenizerUnit:
    """The tokens of a folder's ``tokenizer.json``, read without torch.

    Args:
        folder: a model's or tokenizer's folder, a run, or the file itself.

    Raises:
        ModelError: there is none, or it cannot be read.
    """
    from tokenizers import Tokenizer

    from medunlearn.models.folders import chain

    where = Path(folder)
    if (where / "run.json").exists():
        where = where / "model"
    if where.is_dir():
        where = chain(where, check=False)[0] / "tokenizer.json"
    if not where.exists():
        raise ModelError(f"There is no {where}. --tokenizer names a folder with a tokenizer.json.")
    try:
        return TokenizerUnit(Tokenizer.from_file(str(where)), str(folder))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{where} cannot be read as a tokenizer: {str(error).splitlines()[0][:200]}") from error


def unit_of(tokenizer: Any, of: str) -> TokenizerUnit:
    """The unit of a transformers tokenizer.

    Raises:
        ModelError: it is a slow one, which does not say where its tokens stand in the text.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"The tokenizer of {of} does not say where its tokens stand. Save it with a tokenizer.json: "
            "AutoTokenizer.from_pretrained(FOLDER, use_fast=True).save_pretrained(FOLDER)."
        )
    return TokenizerUnit(backend, of)


def continuations(unit: Unit, prefixes: Sequence[str], texts: Sequence[str]) -> list[Encoded]:
    """The tokens of texts that go on from prefixes, as they are when both are read as one text.

    A tokenizer may cut a text otherwise when it stands alone. A token that holds some of the prefix and some of the
    text counts as the text's. Places are those in the text.

    Raises:
        InputError: not as many texts as prefixes.
    """
    if len(prefixes) != len(texts):
        raise InputError(f"{len(texts)} texts for {len(prefixes)} prefixes: give one prefix a text.")
    whole = unit.encode([prefix + text for prefix, text in zip(prefixes, texts, strict=True)])
    found = []
    for prefix, one in zip(prefixes, whole, strict=True):
        start = int(np.searchsorted(one.ends, len(prefix), side="right"))
        found.append(Encoded(one.ids[start:], one.ends[start:] - len(prefix)))
    return found
