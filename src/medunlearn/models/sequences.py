"""Token sequences with a mask of scored tokens.

The mask of scored tokens comes from how the sequence was built, never from comparing with the pad id: pad
may be the same token as EOS. An answer is followed by one EOS, in a chat template by the token that ends its turn
there. That token is always part of the answer: it is learned, it counts in the likelihood, and decoding stops at
it. Text measures and exact memorization exclude it.

Prompt and answer are tokenized as one text and cut by offsets, since a tokenizer may begin every text with a token
of its own (Llama 2 prepends a space) or join characters over the cut.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, takewhile
from typing import Any, Literal, Protocol

from medunlearn.config.prompt_files import PromptFile
from medunlearn.data.records import Question, Record
from medunlearn.errors import InputError
from medunlearn.models.chat import TODAY, Opening, end_token_id, has_clock, rendered_together
from medunlearn.models.prompts import IMAGE, Context, Prompt, Template, chat_content, render

Positions = Literal["predicting", "answer", "all"]
"""Tokens whose outputs are read: those that predict a scored token, the scored tokens, or every token."""
NOTE_SHARE = 7 / 8
"""The most of ``max_length`` that shared text may take where long notes are cut; the rest is the question's."""

TOGETHER = 64
"""Questions whose chat prompts are rendered in one request."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One training or scoring sequence.

    Attributes:
        key: the question's id, or ``<record_id>#<chunk>`` for a piece of a record; unique in a run.
        ids: all tokens: prompt, answer, EOS.
        shared: number of leading tokens shared by all questions on the record.
        scored_from: index of the first scored token; every token from there on is scored. At least 1,
            since nothing predicts the first token.
        caps: target log-probability of each scored token for unlearning, for methods that use it; else empty.
        floors: lower bound of each scored token's log-probability in unlearning, ``-inf`` without one; empty: no
            bounds.
    """

    key: str
    ids: tuple[int, ...]
    shared: int
    scored_from: int
    caps: tuple[float, ...] = ()
    floors: tuple[float, ...] = ()

    @property
    def prompt(self) -> tuple[int, ...]:
        return self.ids[: self.scored_from]

    @property
    def shared_name(self) -> str:
        """Name of the shared tokens: equal exactly for sequences that begin with the same ones."""
        tokens = ",".join(map(str, self.ids[: self.shared]))
        return "shared:" + hashlib.sha256(tokens.encode()).hexdigest()[:32]

    @property
    def scored(self) -> int:
        """Number of scored tokens."""
        return len(self.ids) - self.scored_from

    def read(self, positions: Positions) -> range:
        """Indices of the tokens whose outputs are used."""
        if positions == "predicting":
            return range(self.scored_from - 1, len(self.ids) - 1)
        return range(self.scored_from if positions == "answer" else 0, len(self.ids))


@dataclass(frozen=True, slots=True)
class Rendering:
    """Rendering of questions as token sequences.

    Attributes:
        max_length: the longest sequence in tokens; None for no bound. Records are cut into chunks of this
            length; a question that does not fit is an error, since cutting would change it.
        long_notes: treatment of a record's text in ``note`` context if the shared text takes more than
            ``NOTE_SHARE`` of ``max_length``: ``refuse`` keeps it, and a question that does not fit is an error;
                ``cut`` truncates it, at the same place for all questions on the record.
        images: ``ignore`` drops the images of records; with ``use`` a record with an image is an error for a text
            model.
        opening: text before an answer in the chat template (:mod:`medunlearn.models.chat`).
        today: ISO date of prompts whose chat template has a clock; None: without one, or the usual date.
    """

    template: Template = "plain"
    context: Context = "closed_book"
    max_length: int | None = None
    long_notes: Literal["refuse", "cut"] = "refuse"
    images: Literal["use", "ignore"] = "use"
    opening: Opening = "prompt"
    today: str | None = None

    def __post_init__(self) -> None:
        own = self.template if isinstance(self.template, PromptFile) and self.context == "note" else None
        if own is not None and "note" not in own.placeholders():
            raise InputError(
                f"{own.file} lacks the placeholder {{{{ note }}}}, which --context note needs. Add it, or choose "
                "--context closed_book."
            )

    @property
    def template_name(self) -> str:
        """Name of the template; for a user's file with the beginning of its SHA-256."""
        return self.template.name if isinstance(self.template, PromptFile) else self.template

    def dated(self, tokenizer: Any) -> Rendering:
        """The rendering with the date of its prompts, if the chat template has a clock."""
        is_dated = self.today is None and self.template == "chat" and has_clock(tokenizer)
        return replace(self, today=TODAY) if is_dated else self

    @property
    def chat_facts(self) -> dict[str, str]:
        """Opening and date of chat prompts where they are not the usual ones; they change numbers."""
        facts = {"opening": self.opening if self.opening != "prompt" else None, "today": self.today}
        return {name: value for name, value in facts.items() if value and self.template == "chat"}


class SequenceImages(Protocol):
    """The images of records as tokens (:class:`medunlearn.models.vision.pictures.Pictures`)."""

    @property
    def marker(self) -> str: ...

    def tokens(self, images: Sequence[str], record_id: str) -> tuple[int, ...]: ...


def question_sequence(
    question: Question, record: Record, tokenizer: Any, rendering: Rendering, pictures: SequenceImages | None = None
) -> TokenSequence:
    """Prompt, answer and EOS of one question.

    Args:
        pictures: image input of a vision-language model.

    Raises:
        InputError: the sequence is longer than ``rendering.max_length``; the record's image cannot be shown.
    """
    image = image_tokens(record, rendering, pictures)
    marker = pictures.marker if pictures is not None and image else None

    def shown(letters: int) -> Prompt:
        text, how = record.text[:letters].rstrip() if letters < len(record.text) else record.text, rendering
        return render(
            question,
            text,
            template=how.template,
            context=how.context,
            tokenizer=tokenizer,
            marker=marker,
            opening=how.opening,
            today=how.today,
        )

    def shared_length(text: str) -> int:
        return sum(map(len, _around_image(tokenizer, (text,), image)))

    prompt = shown(len(record.text))
    begin = [] if rendering.template == "chat" and question.kind != "completion" else begin_tokens(tokenizer)
    if rendering.context == "note" and rendering.long_notes == "cut" and rendering.max_length is not None:
        room = int(NOTE_SHARE * rendering.max_length) - len(begin)
        if shared_length(prompt.shared) > room:
            prompt = shown(_letters_within(room, len(record.text), lambda n: shared_length(shown(n).shared)))
    parts = _around_image(tokenizer, (prompt.shared, prompt.own, prompt.answer), image)
    shared, question_ids, answer = [*begin, *parts[0]], parts[1], [*parts[2], end_token_id(tokenizer, prompt.end)]
    ids = (*shared, *question_ids, *answer)
    if rendering.max_length is not None and len(ids) > rendering.max_length:
        raise InputError(
            f"Question {question.question_id!r} takes {len(ids)} tokens with its prompt and answer, more than "
            f"max_length={rendering.max_length}. Raise --max-length, truncate long notes with --long-notes cut, "
            "or use --context closed_book."
        )
    return TokenSequence(question.question_id, ids, len(shared), max(1, len(ids) - len(answer)))


def each_rendered_together(
    questions: Sequence[Question],
    records: Mapping[str, Record],
    tokenizer: Any,
    rendering: Rendering,
    make: Callable[[Question], TokenSequence],
) -> Iterator[TokenSequence]:
    """Sequences of questions, whose chat prompts are rendered in batches.

    Args:
        make: sequence of one question.
    """
    in_notes = rendering.context == "note"
    for start in range(0, len(questions), TOGETHER):
        batch = questions[start : start + TOGETHER] if rendering.template == "chat" else ()
        contents = (chat_content(q, records[q.record_id].text if in_notes else None) for q in batch)
        with rendered_together(tokenizer, contents):
            sequences = [make(question) for question in questions[start : start + TOGETHER]]
        yield from sequences


def _around_image(tokenizer: Any, texts: Sequence[str], image: Sequence[int]) -> list[list[int]]:
    """Tokens of consecutive texts, with image tokens at the place of the image in the first one."""
    if not image or IMAGE not in texts[0]:
        return encode_parts(tokenizer, texts)
    before, _, after = texts[0].partition(IMAGE)
    first, *others = encode_parts(tokenizer, (after, *texts[1:]))
    return [[*encode(tokenizer, before), *image, *first], *others]


def image_tokens(record: Record, rendering: Rendering, pictures: SequenceImages | None) -> tuple[int, ...]:
    """Image tokens of the record; empty without images, or if images are ignored.

    Raises:
        InputError: the record has an image and the model takes only text, or several images and the model takes
            one.
    """
    if record.image is None or rendering.images == "ignore":
        return ()
    if pictures is None:
        raise InputError(
            f"Record {record.record_id!r} has an image, {record.image}, and this model takes only text. Use a "
            "vision-language model, or drop images with --images ignore."
        )
    return pictures.tokens(record.images, record.record_id)


def _letters_within(room: int, most: int, tokens: Callable[[int], int]) -> int:
    """Number of characters of a note whose ``tokens`` fit, at most ``most``."""
    return max(0, bisect_left(range(most + 1), True, key=lambda letters: tokens(letters) > room) - 1)


def record_sequences(
    record: Record, tokenizer: Any, max_length: int | None, image: Sequence[int] = ()
) -> list[TokenSequence]:
    """A record as plain text, cut into chunks of at most ``max_length`` tokens.

    Each chunk begins with the last token of the one before, so that every token of the record but the first
    is scored exactly once, EOS included.

    Args:
        image: image tokens of the record; they precede each chunk, so that the record's first token is scored too.

    Raises:
        InputError: the image leaves no room for text.
    """
    if image:
        return _behind_image(record, tokenizer, max_length, image)
    ids = [*begin_tokens(tokenizer), *encode(tokenizer, record.text), tokenizer.eos_token_id]
    size = max_length or len(ids)
    chunks = [ids[start : start + size] for start in range(0, len(ids) - 1, size - 1)]
    return [TokenSequence(f"{record.record_id}#{place}", tuple(chunk), 0, 1) for place, chunk in enumerate(chunks)]


def _behind_image(
    record: Record, tokenizer: Any, max_length: int | None, image: Sequence[int]
) -> list[TokenSequence]:
    head = (*begin_tokens(tokenizer), *image)
    ids = (*encode(tokenizer, record.text), tokenizer.eos_token_id)
    size = (max_length or len(head) + len(ids)) - len(head)
    if size < 2:
        raise InputError(
            f"The image of record {record.record_id!r} takes {len(image)} tokens, which leaves no room for text "
            f"within max_length={max_length}. Raise --max-length."
        )
    return [
        TokenSequence(
            f"{record.record_id}#{place}",
            (*head, *ids[start : start + size]),
            len(head),
            len(head) + (start > 0),
        )
        for place, start in enumerate(range(0, max(1, len(ids) - 1), size - 1))
    ]


def encode(tokenizer: Any, text: str) -> list[int]:
    """Tokens of a text, without special tokens."""
    if not text:
        return []
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def encode_parts(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Tokens of consecutive texts, tokenized as one text and cut at the texts' ends; no special tokens.

    A token over a cut belongs to the text in which it ends, so the tokens before are those of every continuation.
    A tokenizer without offsets is cut where the tokens of the beginning alone differ from those of the whole.
    """
    whole = "".join(texts)
    if not whole:
        return [[] for _ in texts]
    ends = [*accumulate(map(len, texts))]
    if not getattr(tokenizer, "is_fast", True):
        ids, cuts = encode(tokenizer, whole), [0]
        for end in ends[:-1]:
            cuts.append(max(cuts[-1], _common(encode(tokenizer, whole[:end]), ids)))
        return [ids[start:stop] for start, stop in pairwise([*cuts, len(ids)])]
    encoding = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    parts: list[list[int]] = [[] for _ in texts]
    for token, (_, end) in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
        parts[bisect_left(ends, end)].append(token)
    return parts


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def begin_tokens(tokenizer: Any) -> list[int]:
    """The special tokens that the tokenizer puts before a text."""
    with_special: list[int] = tokenizer("a")["input_ids"]
    alone = encode(tokenizer, "a")
    start = next((n for n in range(len(with_special)) if with_special[n : n + len(alone)] == alone), 0)
    return with_special[:start]


def families(sequences: Sequence[TokenSequence]) -> list[list[int]]:
    """Indices of sequences grouped by shared tokens; a sequence without any forms its own group."""
    by_start: dict[tuple[int, ...] | int, list[int]] = {}
    for place, sequence in enumerate(sequences):
        by_start.setdefault(sequence.ids[: sequence.shared] if sequence.shared else -place - 1, []).append(place)
    return list(by_start.values())


def tokens_once(sequences: Sequence[TokenSequence]) -> int:
    """Number of tokens of the sequences, with shared ones counted once."""
    spared = sum((len(family) - 1) * sequences[family[0]].shared for family in families(sequences))
    return sum(len(sequence.ids) for sequence in sequences) - spared


def families_by_length(sequences: Sequence[TokenSequence]) -> list[list[int]]:
    """The families, those with short sequences first."""
    return sorted(families(sequences), key=lambda places: max(len(sequences[place].ids) for place in places))
