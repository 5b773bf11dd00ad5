"""Probes of a note, made from the note itself: continuations, gaps, chat prompts.

| kind | question | fold |
|---|---|---|
| ``completion`` | the note's beginning, of several lengths | about half ``train``: the text continues as in
training; the others ``holdout`` | | ``cloze`` | a sentence with a gap, and its patient | ``holdout``; paraphrased
``rephrase`` | | ``generation`` | a chat prompt filled from the row's columns; the answer is the note | the first
prompt ``train``, the others ``holdout`` | | ``question`` | a plain question about one fact
(:mod:`medunlearn.notes.direct_questions`) | ``holdout``, ``rephrase``, ``choosing`` |

A probe with a truncated prompt or answer (``longest``) is ``holdout``: training would add an end-of-text where the
note has none. Probes of non-members are ``utility``, to separate them from those of retained patients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest

from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.completions import continuations
from medunlearn.data.records import DIRECT, Fold, Kind, Question, Record
from medunlearn.data.sentences import sentence_starts
from medunlearn.data.splits import shuffled
from medunlearn.notes.direct_questions import FINDING, FOLDS, direct_facts
from medunlearn.notes.identifying_phrases import identifying_phrase, stands_in
from medunlearn.notes.note_gaps import BLANK, NoteGap, gaps_in, sentence_with_gap
from medunlearn.seeds import generator
from medunlearn.sources.column_prompts import fill_prompt

LEVEL = "patient"
SHORTEST = 8
"""Words of a beginning, and of what is to follow it."""
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
        questions: most facts per note that direct questions are about; None: all of them.
    """

    prefixes: Sequence[str]
    clozes: int
    prompts: Sequence[str]
    longest: int
    seed: int = 0
    questions: int | None = 0

    @staticmethod
    def of_settings(settings: NotesSettings) -> NoteProbes:
        """The probes of `build notes`."""
        own = settings
        return NoteProbes(own.prefixes, own.clozes, own.prompt, own.longest, own.seed, own.questions)

    def of(self, record: Record, values: Mapping[str, str]) -> list[Question]:
        """All probes of a record; drawn by its id, so independent of other records.

        Args:
            values: column values for prompts; a prompt with an empty one is skipped.
        """
        probes = [*self._completions(record), *self._gaps(record), *self._chats(record, values)]
        return [*probes, *self.direct(record)]

    def direct(self, record: Record) -> Iterator[Question]:
        """Direct questions about a record, each fact in several wordings; of non-members in a drawn one."""
        gaps = () if self.questions == 0 else self.order(record)
        facts = (fact for fact in direct_facts(record, gaps) if fact.reason is None)
        for number, fact in enumerate(islice(facts, self.questions)):
            # By the fact, so that it has the same wording in all notes of a patient.
            turn = int(generator("wording", fact.source, fact.answer).integers(len(FOLDS)))
            for place, (fold, wording) in enumerate(zip(FOLDS, fact.wordings, strict=True)):
                if record.fold != "holdout" or turn == place:
                    name = f"{record.record_id}-question-{number + 1}-{fold}"
                    yield _question(record, name, fold, DIRECT, wording, fact.answer, fact.source)

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
        for gap in self.order(record) if self.clozes else ():
            answer = " ".join(text[gap.start : gap.end].split())
            who, sentence = identifying_phrase(record, answer, gap.start), sentence_with_gap(text, gap, starts)
            if who is None or (gap.label, answer) in values or stands_in(answer, f"{who} {sentence}"):
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

    def order(self, record: Record) -> Iterator[NoteGap]:
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


def without_repeats(questions: Sequence[Question], subjects: Mapping[str, str]) -> list[Question]:
    """The questions without those direct ones that ask a subject again what another note asked.

    Args:
        subjects: record id -> its subject.
    """
    distinct, known = list[Question](), set[tuple[str, ...]]()
    for question in questions:
        finding = question.answer if question.provenance == FINDING else ""
        key = (subjects[question.record_id], question.question, finding)
        if question.kind != DIRECT or key not in known:
            distinct.append(question)
            known.add(key)
    return distinct


def _question(
    record: Record, name: str, fold: Fold, kind: Kind, question: str, answer: str, source: str
) -> Question:
    where: Fold = "utility" if record.fold == "holdout" else fold
    return Question(name, record.record_id, where, kind, LEVEL, question, answer, provenance=source)
