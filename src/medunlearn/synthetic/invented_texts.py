"""Invented texts of kinds used to train medical models: guidelines, abstracts, disclaimers, notes.

They contain no facts and no real persons. They show how memorization grows with the number of copies of a text in a
training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medunlearn.seeds import generator
from medunlearn.synthetic.grammar import word_lists


@dataclass(frozen=True, slots=True)
class CorpusText:
    """One invented text; ``copies`` is its number of copies in the training set, 0 for held-out text."""

    text_id: str
    kind: str
    text: str
    copies: int


def invent_corpus(each: int, copies: Sequence[int], *, sentences: int = 10, seed: int = 0) -> list[CorpusText]:
    """Invent ``each`` texts of every kind for every number of copies, assigned independently of the text.

    Args:
        copies: numbers of copies; 0 for held-out texts.
        sentences: number of sentences per text.
    """
    kinds = word_lists("texts/corpus")["sentences"]
    names = (
        (f"{kind}-{count}-{place}", kind, count) for count in copies for kind in kinds for place in range(each)
    )
    return [CorpusText(name, kind, _text(name, kind, sentences, seed), count) for name, kind, count in names]


def _text(name: str, kind: str, sentences: int, seed: int) -> str:
    draw = generator("invented corpus", seed, name)
    lists = word_lists("texts/corpus")
    parts = [lists["headings"][kind]]
    for _ in range(sentences):
        drug, other = map(str, draw.choice(lists["drugs"], size=2, replace=False))
        form = str(draw.choice(lists["sentences"][kind]))
        words = {word: str(draw.choice(lists[f"{word}s"])) for word in ("state", "group", "when")}
        parts.append(form.format(drug=drug, other=other, number=int(draw.integers(10, 900)), **words))
    return " ".join(parts)
