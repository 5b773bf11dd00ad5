"""Vocabulary leaks: strings of a tokenizer that only a few subjects of a benchmark have in their texts.

A tokenizer fitted on records may have a name as a single token, so that even a model that never saw the patient
contains it. An unrelated tokenizer has rare words too, by chance: these reveal nothing about the records.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from medunlearn.data.benchmark import Benchmark

LEAST = 4
"""Letters and digits that a token must have at least, spaces around it left out."""

TEMPLATE = ("Question:", "Answer:")
"""Words around the questions that a tiny model's tokenizer is fitted on: parts of them are nobody's strings."""


@dataclass(frozen=True, slots=True)
class OwnedString:
    """A vocabulary string that only these subjects have.

    Attributes:
        identifier: whether it is part of an identifier of one of them.
    """

    text: str
    subjects: tuple[str, ...]
    identifier: bool


@dataclass(frozen=True)
class VocabularyOwners:
    """Strings of a vocabulary grouped by the subjects who exclusively have them.

    Attributes:
        strings: number of searched strings of the vocabulary, of at least :data:`LEAST` letters and digits.
        private: number that exactly one subject has.
        forgotten: number that only subjects to forget have.
    """

    strings: int
    private: tuple[OwnedString, ...]
    forgotten: tuple[OwnedString, ...] = ()

    def counts(self) -> dict[str, int]:
        """Counts for ``run.json`` and pages; no string and no id."""
        return {
            "strings": self.strings,
            "private_strings": len(self.private),
            "private_in_identifiers": sum(owned.identifier for owned in self.private),
            "subjects_with_private_strings": len(by_subject(self.private)),
            "strings_of_forgotten_alone": len(self.forgotten),
            "forgotten_subjects_with_such": len(by_subject(self.forgotten)),
        }

    def lines(self, noun: str = "subject") -> list[str]:
        """The counts in Markdown sentences, the forget set first; no string and no id.

        Args:
            noun: name of a subject.
        """
        lines = []
        if self.forgotten:
            lines.append(
                f"**{len(self.forgotten):,} strings of the vocabulary stand in texts of the forget set alone** "
                f"({_count(len(by_subject(self.forgotten)), noun)}; "
                f"{sum(owned.identifier for owned in self.forgotten):,} in identifiers)."
            )
        return [
            *lines,
            f"{len(self.private):,} of {self.strings:,} strings of {LEAST} letters or digits or more "
            f"stand in the texts of one {noun} alone, of {_count(len(by_subject(self.private)), noun)} together; "
            f"{sum(owned.identifier for owned in self.private):,} of them in identifiers.",
        ]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def forgotten_subjects(benchmark: Benchmark, split: str) -> set[str]:
    """The subjects that a split forgets entirely."""
    sides = benchmark.sides(benchmark.split(split))
    retained = {benchmark.subject(record) for record, side in sides.items() if side == "retain"}
    return {benchmark.subject(record) for record in sides} - retained


def by_subject(strings: Iterable[OwnedString]) -> dict[str, int]:
    """Subject -> number of the strings that it owns, most first."""
    return dict(Counter(subject for owned in strings for subject in owned.subjects).most_common())


@dataclass(frozen=True)
class Vocabulary:
    """The strings of a tokenizer, and its normalisation of text (lower case, Unicode form).

    Attributes:
        strings: decoded and stripped strings of at least :data:`LEAST` letters and digits.
    """

    strings: frozenset[str]
    normalize: Callable[[str], str]

    @staticmethod
    def of(tokenizer: Any) -> Vocabulary:
        """Vocabulary of a ``tokenizers.Tokenizer``, without special tokens and partial characters."""
        content = json.loads(tokenizer.to_str())
        special = {token["content"] for token in content["added_tokens"] if token["special"]}
        parts = json.dumps([content.get("pre_tokenizer"), content.get("decoder")])
        letters = _byte_letters() if '"ByteLevel"' in parts else None
        decoded = (_token_text(token, letters) for token in tokenizer.get_vocab() if token not in special)
        normalizer = tokenizer.normalizer

        def normalize(text: str) -> str:
            # Unigram models write a space as this sign, some of them in the normaliser.
            return text if normalizer is None else str(normalizer.normalize_str(text)).replace("\u2581", " ")

        return Vocabulary(frozenset(text for text in decoded if sum(map(str.isalnum, text)) >= LEAST), normalize)


def _token_text(token: str, letters: Mapping[str, int] | None) -> str:
    """The text of a token; empty for a partial character."""
    if letters is not None and all(letter in letters for letter in token):
        try:
            return bytes(letters[letter] for letter in token).decode().strip()
        except UnicodeDecodeError:
            return ""
    return token.removeprefix("##").removesuffix("</w>").replace("\u2581", " ").strip()


def _byte_letters() -> dict[str, int]:
    """Letter that byte-level BPE writes for a byte -> the byte (GPT-2's ``bytes_to_unicode``)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


def vocabulary_owners(
    vocabulary: Vocabulary, benchmark: Benchmark, forgotten: Collection[str] = ()
) -> VocabularyOwners:
    """Owners of a vocabulary's strings.

    A subject owns a string if it occurs, case-sensitive, in a record or identifier of the subject or in a question,
    answer or option about it, with the tokenizer's normalisation. Parts of :data:`TEMPLATE` have no owner.

    Args:
        forgotten: subjects to forget.
    """
    subjects = sorted({record.groups[benchmark.subject_level] for record in benchmark.records})
    bit = {subject: 1 << place for place, subject in enumerate(subjects)}
    texts: dict[str, list[str]] = {subject: [] for subject in subjects}
    identifiers: dict[str, list[str]] = {subject: [] for subject in subjects}
    for record in benchmark.records:
        owner = record.groups[benchmark.subject_level]
        values = [vocabulary.normalize(identifier.value) for identifier in record.identifiers]
        identifiers[owner] += values
        texts[owner] += [vocabulary.normalize(record.text), *values]
    for question in benchmark.questions:
        parts = (question.question, question.answer, *question.options)
        texts[benchmark.subject(question.record_id)] += map(vocabulary.normalize, parts)
    holders, identifier_holders = (_holders(vocabulary.strings, owned, bit) for owned in (texts, identifiers))
    to_forget = sum(bit[subject] for subject in set(forgotten) & set(bit))

    def owned(text: str, mask: int) -> OwnedString:
        return OwnedString(
            text, tuple(name for name in subjects if bit[name] & mask), bool(identifier_holders.get(text, 0) & mask)
        )

    owned_strings = sorted(
        (text, mask) for text, mask in holders.items() if not any(text in word for word in TEMPLATE)
    )
    return VocabularyOwners(
        len(vocabulary.strings),
        tuple(owned(text, mask) for text, mask in owned_strings if mask.bit_count() == 1),
        tuple(owned(text, mask) for text, mask in owned_strings if not mask & ~to_forget),
    )


def _holders(strings: frozenset[str], texts: Mapping[str, Iterable[str]], bit: Mapping[str, int]) -> dict[str, int]:
    """String -> the subjects whose texts contain it, as bits. Strings without owners are dropped.

    A string without a space occurs in a text if it is part of a word (a run without spaces). Words repeat, so each
    distinct one is split only once.
    """
    words: dict[str, int] = {}
    for subject, owned in texts.items():
        for word in {word for text in owned for word in text.split() if len(word) >= LEAST}:
            words[word] = words.get(word, 0) | bit[subject]
    spaced = [text for text in strings if any(map(str.isspace, text))]
    lengths = sorted({len(text) for text in strings})
    holders: dict[str, int] = {}
    for word, mask in words.items():
        for length in lengths:
            if length > len(word):
                break
            for start in range(len(word) - length + 1):
                part = word[start : start + length]
                if part in strings:
                    holders[part] = holders.get(part, 0) | mask
    for subject, owned in texts.items() if spaced else ():
        joined = "\0".join(owned)
        for text in spaced:
            if text in joined:
                holders[text] = holders.get(text, 0) | bit[subject]
    return holders
