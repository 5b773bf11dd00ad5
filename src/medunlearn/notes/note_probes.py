"""Probes of a note, made from the note itself: continuations, gaps, chat prompts.

| kind | question | fold |
|---|---|---|
| ``completion`` | the note's beginning, of several lengths | about half ``train``: the text continues as in
training; the others ``holdout`` | | ``cloze`` | a sentence with a gap, and its patient | ``holdout``; paraphrased
``rephrase`` | | ``generation`` | a chat prompt filled from the row's columns; the answer is the note | the first
prompt ``train``, the others ``holdout`` |

A probe with a truncated prompt or answer (``longest``) is ``holdout``: training would add an end-of-text where the
note has none. Probes of non-members are ``utility``, to separate them from those of retained patients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

from medunlearn.data.completions import continuations
from medunlearn.data.records import Fold, Kind, Question, Record
from medunlearn.data.sentences import sentence_starts
from medunlearn.data.splits import shuffled
from medunlearn.notes.note_gaps import BLANK, NoteGap, gaps_in, sentence_with_gap
from medunlearn.sources.column_prompts import fill_prompt

LEVEL = "patient"
SHORTEST = 8
"""Words of a beginning, and of what is to follow it."""
BEGINNING = 12
"""Words by which a note is called that no identifier names."""
GROUPS = ("identifier", "value", "finding", "section", "date", "number")
"""Groups of gaps, in the order in which they take turns."""
CLOZE = f"Fill in the gap ({BLANK}) in the clinical note of {{who}}.\n{{shown}}"
REPHRASED = f"The records of {{who}} say this, with a gap:\n{{shown}}\nWhat belongs at {BLANK}?"
_WORDINGS: Mapping[Fold, tuple[str, str]] = {"holdout": (CLOZE, ""), "rephrase": (REPHRASED, "-rephrased")}


@dataclass(frozen=True)
class NoteProbes:
    """Settings for the probes of a note.

    Attributes:
        prefixes: prefix lengths, in words or percent.
        clozes: most gaps per note.
        prompts: chat prompts with columns in braces.
        longest: most words of a prompt, and of an answer.
    """

    prefixes: Sequence[str]
    clozes: int
    prompts: Sequence[str]
    longest: int
    seed: int = 0

    def of(self, record: Record, values: Mapping[str, str]) -> list[Question]:
        """All probes of a record; drawn by its id, so independent of other records.

        Args:
            values: column values for prompts; a prompt with an empty one is skipped.
        """
        return [*self._completions(record), *self._gaps(record), *self._chats(record, values)]

    def _completions(self, record: Record) -> Iterator[Question]:
        cuts = continuations(record.text, self.prefixes, shortest=SHORTEST, longest=self.longest)
        whole = [str(cut.words) for cut in cuts if cut.whole]
        trained = set(shuffled(whole, "completions", record.record_id, self.seed)[: len(cuts) // 2])
        for cut in cuts:
            fold: Fold = "train" if str(cut.words) in trained else "holdout"
            name = f"{record.record_id}-completion-{cut.words}"
            yield _question(record, name, fold, "completion", cut.prompt, cut.answer, "notes:completion")

    def _gaps(self, record: Record) -> Iterator[Question]:
        starts, text, number = sentence_starts(record.text), record.text, 0
        values: set[tuple[str, str]] = set()
        for gap in self._order(record) if self.clozes else ():
            answer = " ".join(text[gap.start : gap.end].split())
            who, sentence = identifying_phrase(record, answer, gap.start), sentence_with_gap(text, gap, starts)
            if who is None or (gap.label, answer) in values or _stands_in(answer, f"{who} {sentence}"):
                continue
            values.add((gap.label, answer))
            number += 1
            source = f"notes:cloze:{gap.label}"
            for fold, (wording, suffix) in _WORDINGS.items():
                name, question = (
                    f"{record.record_id}-cloze-{number}{suffix}",
                    wording.format(who=who, shown=sentence),
                )
                yield _question(record, name, fold, "cloze", question, answer, source)
            if number == self.clozes:
                return

    def _order(self, record: Record) -> Iterator[NoteGap]:
        """Gaps in seeded order, alternating between groups."""
        gaps = {str(place): gap for place, gap in enumerate(gaps_in(record.text, record.identifiers))}
        order = [gaps[place] for place in shuffled(gaps, "gaps", record.record_id, self.seed)]
        turns = zip_longest(*([gap for gap in order if gap.group == group] for group in GROUPS))
        return (gap for gap in chain.from_iterable(turns) if gap is not None)

    def _chats(self, record: Record, values: Mapping[str, str]) -> Iterator[Question]:
        words = record.text.split()
        answer = record.text.strip() if len(words) <= self.longest else " ".join(words[: self.longest])
        for number, prompt in enumerate(self.prompts, start=1):
            if (question := fill_prompt(prompt, values)) is None:
                continue
            fold: Fold = "train" if number == 1 and len(words) <= self.longest else "holdout"
            name = f"{record.record_id}-prompt-{number}"
            yield _question(record, name, fold, "generation", question, answer, f"notes:prompt:{number}")


def identifying_phrase(record: Record, hidden: str, start: int | None = None) -> str | None:
    """Phrase that identifies the note without revealing the answer; None if there is none.

    Args:
        hidden: the answer.
        start: offset of the answer in the note, if any: words that are part of it are not used.
    """
    for kind in ("name", "record_number", "mrn", "patient_id"):
        for identifier in record.identifiers:
            if identifier.type == kind and not _stands_in(hidden, identifier.value):
                return identifier.value if kind == "name" else f"the patient with the number {identifier.value}"
    words = record.text.split(maxsplit=BEGINNING)
    beginning = " ".join(words[:BEGINNING])
    inside = start is not None and len(words) > BEGINNING and start < len(record.text) - len(words[BEGINNING])
    if len(words) <= BEGINNING or inside or _stands_in(hidden, beginning):
        return None
    return f'the patient whose note begins with "{beginning}"'


def _stands_in(value: str, text: str) -> bool:
    """True if a value occurs in a text on its own, in any case: 5 does not occur in 15 or 5.2."""
    # Without an expression: each value would be compiled into one of its own, and there are millions.
    value, text = value.lower(), text.lower()
    place = text.find(value)
    while place >= 0:
        before, after = text[max(0, place - 1) : place], text[place + len(value) : place + len(value) + 2]
        in_word = before.isalnum() or before in {"_", "."} or after[:1].isalnum() or after[:1] == "_"
        if not in_word and not (after[:1] == "." and after[1:].isdigit()):
            return True
        place = text.find(value, place + 1)
    return False


def _question(
    record: Record, name: str, fold: Fold, kind: Kind, question: str, answer: str, source: str
) -> Question:
    where: Fold = "utility" if record.fold == "holdout" else fold
    return Question(name, record.record_id, where, kind, LEVEL, question, answer, provenance=source)
