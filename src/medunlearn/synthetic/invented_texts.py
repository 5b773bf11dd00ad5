"""Invented texts of the kinds that medical models are trained on: guidelines, abstracts, disclaimers, notes.

Nothing in them is true, and no person in them lives. They are there to show how memorization grows with
the number of copies of a text in a training set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medunlearn.seeds import generator
from medunlearn.synthetic.grammar import word_lists


@dataclass(frozen=True, slots=True)
class CorpusText:
    """One invented text; ``copies``, how often it stands in the training set, is 0 for a text that is held out."""

    text_id: str
    kind: str
    text: str
    copies: int


def invent_corpus(each: int, copies: Sequence[int], *, sentences: int = 10, seed: int = 0) -> list[CorpusText]:
    """``each`` texts of every kind for every number of copies; which are copied is not a property of the texts.

    Args:
        copies: numbers of copies; 0 for texts that are held out.
        sentences: of a text.
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
