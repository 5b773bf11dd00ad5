"""Choice of the patients whose notes a request reads, and of those whom it asks about, by ids and columns alone.

| patients | read | asked about |
|---|---|---|
| of the request | all | all |
| who share an identifier with them | as far as there is room | up to half of ``others`` |
| of the same group | with the others | the rest of that half |
| others whom the model was trained on | a seeded sample, up to :data:`MOST_NOTES` notes | up to ``others`` in all |
| whom no model saw | those asked about | up to ``others`` |
| of earlier requests | those asked about | in turns (:mod:`.earlier_rotation`) |

The sample gives made-up values and notes to retain; the longest try draws at most 1,920 sequences of these. A
hospital with fewer notes is read whole, so the choice changes nothing there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from medunlearn.config import ForgetSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.splits import shuffled
from medunlearn.notes.note_benchmark import NoteIndex
from medunlearn.notes.note_columns import PATIENT
from medunlearn.sources.patient_notes import PatientNote, text_key

MOST_NOTES = 4000
"""Notes that are read of a larger hospital."""


@dataclass(frozen=True)
class PatientGroups:
    """Patients by their groups, without their texts.

    Attributes:
        trained: patient whom a model is trained on -> groups of the last note.
        unseen: patients with a note that no model is trained on.
        levels: from the coarsest to the finest, with ``level``, that of the patients.
    """

    trained: Mapping[str, Mapping[str, str]]
    unseen: frozenset[str]
    levels: Sequence[str]
    level: str = PATIENT

    @staticmethod
    def of(benchmark: Benchmark) -> PatientGroups:
        level = benchmark.subject_level
        trained = {record.groups[level]: record.groups for record in benchmark.records if record.fold == "train"}
        unseen = frozenset(record.groups[level] for record in benchmark.records if record.fold == "holdout")
        return PatientGroups(trained, unseen, benchmark.levels, level)

    def neighbours(self, patients: Collection[str]) -> frozenset[str]:
        """Trained patients who share the finest group of one of the patients, without the patients themselves."""
        finest = next((name for name in reversed(self.levels) if name != self.level), None)
        if finest is None:
            return frozenset()
        nodes = {self.trained[patient].get(finest) for patient in patients if patient in self.trained} - {None}
        others = self.trained.items()
        return frozenset(who for who, own in others if own.get(finest) in nodes and who not in patients)

    def asked_about(
        self, patients: Collection[str], relatives: Collection[str], settings: ForgetSettings
    ) -> set[str]:
        """The patients, and a seeded sample of as many retained and unseen ones.

        Up to half of the retained ones are relatives and neighbours, who are affected most.
        """
        most, seed = settings.others, settings.seed
        kin = shuffled(relatives, "relatives", seed)
        neighbours = shuffled(self.neighbours(patients) - {*kin}, "neighbours", seed)
        near = [*kin, *neighbours][: most // 2]
        trained, unseen = ({*people} - {*patients, *near} for people in (self.trained, self.unseen))
        others = shuffled(trained, "others", seed)[: most - len(near)]
        return {*patients, *near, *others, *shuffled(unseen, "never seen", seed)[:most]}


@dataclass(frozen=True)
class NoteChoice:
    """The choice among a hospital's notes.

    Attributes:
        index: the notes.
        patients: of the request.
        earlier: of earlier requests, who are neither asked about beside them nor trained on.
        most: notes to read.
    """

    index: NoteIndex
    patients: Sequence[str]
    earlier: Collection[str]
    settings: ForgetSettings
    most: int = MOST_NOTES

    @cached_property
    def groups(self) -> PatientGroups:
        """Everybody but the earlier patients."""
        trained, unseen = dict[str, Mapping[str, str]](), set[str]()
        for note, groups in zip(self.index.notes, self.index.groups, strict=True):
            if note.patient not in self.earlier and note.held_out:
                unseen.add(note.patient)
            elif note.patient not in self.earlier:
                trained[note.patient] = groups
        return PatientGroups(trained, frozenset(unseen), self.index.levels)

    @cached_property
    def relatives(self) -> frozenset[str]:
        """Trained patients who share an identifier with a patient of the request.

        An identifier stands in the note that it is of. So only notes with one of the patients' are searched for
        more.
        """
        own = self._identifiers(self.patients)
        candidates = [
            who
            for who in self.groups.trained
            if who not in self.patients and any(value in note.text for note in self._notes[who] for value in own)
        ]
        self._identifiers(candidates)  # all at once
        return frozenset(who for who in candidates if own & self._identifiers([who]))

    @cached_property
    def asked(self) -> set[str]:
        return self.groups.asked_about(self.patients, self.relatives, self.settings)

    @cached_property
    def read(self) -> set[str]:
        """Patients whose notes are read: those asked about, who has the same text, and a sample of others."""
        chosen, seed = {*self.asked, *self._with_same_text(self.asked)}, self.settings.seed
        kin = [who for who in shuffled(self.relatives, "relatives", seed) if who not in chosen]
        others = shuffled(self.groups.trained.keys() - {*chosen, *kin}, "read", seed)
        rest = shuffled(self.groups.unseen - {*chosen, *kin, *others}, "read", seed)
        number = sum(len(self._notes[who]) for who in chosen)
        for who in (*kin, *others, *rest):
            if number >= self.most:
                break
            number += len(self._notes[who])
            chosen.add(who)
        return chosen

    @cached_property
    def _notes(self) -> Mapping[str, Sequence[PatientNote]]:
        notes: dict[str, list[PatientNote]] = defaultdict(list)
        for note in self.index.notes:
            notes[note.patient].append(note)
        return notes

    def _identifiers(self, patients: Iterable[str]) -> set[str]:
        notes = [note for who in patients for note in self._notes[who] if not note.held_out]
        reader = self.index.identifiers
        return {identifier.value for note in reader.searched(notes) for identifier in reader.of_note(note)}

    def _with_same_text(self, patients: Collection[str]) -> set[str]:
        keys = {text_key(note.text) for who in patients for note in self._notes[who]}
        return {note.patient for note in self.index.notes if text_key(note.text) in keys} - {*self.earlier}
