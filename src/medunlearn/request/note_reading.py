"""Reading of the notes of a request: ids first, then those who are asked about and a sample of others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from medunlearn.config import ForgetSettings, check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.config.forgetting import ALL, AUTOMATIC
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.deletion_requests import forget_records, relatives_of, with_request
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import ConfigError, InputError, SourceError
from medunlearn.notes.note_benchmark import NoteIndex, PatientChoice, build
from medunlearn.notes.note_columns import PATIENT
from medunlearn.progress import remark
from medunlearn.request.case.ledger import EarlierRecords, RequestLedger, earlier_records
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.direct_probes import HospitalQuestions
from medunlearn.request.earlier_rotation import Rotation
from medunlearn.request.patient_choice import MOST_NOTES, NoteChoice, PatientGroups

EARLIER = "earlier"
"""Split of the patients of earlier requests."""
PLANNED = 4
"""Notes that a plan reads for each further patient who is asked about."""
TOTALS = "notes.json"
"""Numbers of the notes and the rotation of earlier patients."""
CLOZES = 3
"""Gaps a note, each in two wordings: whole models are asked several times, and continuations tell more."""
QUESTIONS = 6
"""Facts a note of somebody else's that direct questions are about; of the patients, every fact is asked for."""


@dataclass(frozen=True)
class NoteTotals:
    """Numbers of a hospital's notes, of which a request may read a part, and its earlier patients.

    Attributes:
        records, patients: those that a model may be trained on.
        earlier_records: number of records of earlier requests' patients, which stay out of training.
        asked, not_asked: pseudonyms of the earlier patients who are asked about, and of those who are not.
        absent: pseudonyms of earlier patients who are not in the notes.
    """

    records: int
    patients: int
    earlier_records: int = 0
    asked: tuple[str, ...] = ()
    not_asked: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    def save(self, work: Path) -> None:
        write_json(work / TOTALS, asdict(self))

    @staticmethod
    def load(work: Path, benchmark: Benchmark, earlier: Benchmark | None) -> NoteTotals:
        """The stored numbers; of an older version's folder those of the benchmarks, which had all notes."""
        if (work / TOTALS).exists():
            stored: dict[str, Any] = read_json(work / TOTALS)
            lists: dict[str, Any] = {key: tuple(own) for key, own in stored.items() if isinstance(own, list)}
            return NoteTotals(**{**stored, **lists})
        records = 0 if earlier is None else len(forget_records(earlier, EARLIER))
        return NoteTotals(*_trained_numbers(benchmark), records)


def _trained_numbers(benchmark: Benchmark) -> tuple[int, int]:
    """Numbers of records and patients that a model may be trained on."""
    owners = [benchmark.subject(record.record_id) for record in benchmark.records if record.fold == "train"]
    return len(owners), len({*owners})


@dataclass(frozen=True)
class ReadPart:
    """The part of a hospital's notes that a request reads.

    Attributes:
        before: all records of earlier patients.
        asked: patients of the request, retained and unseen ones who are asked about.
        earlier: earlier patients who are asked about.
    """

    before: EarlierRecords
    asked: Collection[str]
    earlier: Collection[str]
    totals: NoteTotals


@dataclass(frozen=True)
class NoteReading:
    """Reads the notes of a request: ids first, then those who are asked about and a sample of others."""

    notes: Path
    settings: ForgetSettings
    ledger: RequestLedger
    secret: OwnerSecret
    patients: Sequence[str]
    quiet: bool
    few: bool

    def read(self) -> tuple[NotesSettings, Benchmark, ReadPart]:
        """Settings of the notes, a benchmark of the part that is read with a hospital's own questions, the part.

        Raises:
            ForgottenBeforeError: a patient of the request whose earlier one is closed.
        """
        settings, parts = self.settings, list[ReadPart]()
        known = set[str]()

        def choose(index: NoteIndex) -> PatientChoice:
            owners = [(note.note_id, note.patient) for note in index.notes]
            before, rotation = self._before(owners, PATIENT)
            most = PLANNED * settings.others if self.few else MOST_NOTES
            choice = NoteChoice(index, self.patients, before.subjects, settings, most)
            trained = [note for note in index.notes if not note.held_out and note.patient not in before.subjects]
            numbers = len(trained), len(choice.groups.trained)
            parts.append(self._part(before, rotation, choice.asked, numbers))
            known.update(patient for _, patient in owners)
            earlier = rotation.patients
            return PatientChoice({*choice.read, *earlier}, {*choice.asked, *earlier})

        with _flags_of_build():
            checked = check(NotesSettings, self._values())
            if is_benchmark(self.notes):
                everybody = _of_folder(self.notes, settings)
                parts.append(self._part_of(everybody))
            else:
                # Direct questions are made later, about those who are asked about.
                plain = checked.model_copy(update={"questions": 0})
                everybody = build(plain, quiet=self.quiet, choose=choose)
        if settings.questions is None:
            return checked, everybody, parts[0]
        own = HospitalQuestions.read(settings.questions, everybody, self.patients, others=known)
        remark(own.remark, quiet=self.quiet or not own.remark)
        both = own.added_to(everybody, halves=settings.method == AUTOMATIC, seed=settings.seed)
        return checked, both, parts[0]

    def _values(self) -> dict[str, Any]:
        """Settings of `build notes`."""
        settings = self.settings
        return {
            "clozes": CLOZES,
            "questions": QUESTIONS,
            **settings.build,
            "notes": self.notes,
            "holdout": settings.holdout,
            "prompt": settings.prompt,
            "forget_patients": settings.patient,
            "seed": settings.seed,
        }

    def _part_of(self, everybody: Benchmark) -> ReadPart:
        """The part of a benchmark's folder, whose records are all read."""
        level = everybody.subject_level
        owners = [(record.record_id, record.groups[level]) for record in everybody.records]
        before, rotation = self._before(owners, level)
        remaining = with_request(without_records(everybody, before.records), self.patients)
        relatives = relatives_of(remaining, self.patients)
        asked = PatientGroups.of(remaining).asked_about(self.patients, relatives, self.settings)
        return self._part(before, rotation, asked, _trained_numbers(remaining))

    def _before(self, owners: Sequence[tuple[str, str]], level: str) -> tuple[EarlierRecords, Rotation]:
        """Records of earlier patients, and the rotation over these."""
        before = earlier_records(self.ledger, self.secret, owners, level, again=self.patients)
        if again := [name for name in self.patients if name in before.subjects]:
            raise ForgottenBeforeError(again[0], before.subjects[again[0]])
        names = {self.secret.pseudonym(who, level): who for who in before.subjects}
        most = None if self.settings.earlier == ALL else int(self.settings.earlier)
        return before, Rotation.of(self.ledger, names, most, self.settings.seed)

    def _part(
        self, before: EarlierRecords, rotation: Rotation, asked: Collection[str], numbers: tuple[int, int]
    ) -> ReadPart:
        totals = NoteTotals(*numbers, len(before.records), rotation.asked, rotation.not_asked, before.absent)
        return ReadPart(before, asked, rotation.patients, totals)


def is_benchmark(notes: Path) -> bool:
    """True if the notes are a benchmark's folder."""
    return (notes / MANIFEST).exists()


@contextmanager
def _flags_of_build() -> Iterator[None]:
    """Name settings of `build notes` in its errors as `forget` takes them: ``--build.patient-column``.

    Raises:
        ConfigError, SourceError: those of the body.
    """
    keys = sorted(set(NotesSettings.model_fields) - set(ForgetSettings.model_fields), key=len, reverse=True)
    words = "|".join(key.replace("_", "-") for key in keys)
    flag, key = re.compile(rf"--(?={words})"), re.compile(rf"^(?=(?:{'|'.join(keys)})\b)")
    try:
        yield
    except ConfigError as error:
        problems = [flag.sub("--build.", key.sub("build.", problem)) for problem in error.problems]
        raise ConfigError(problems) from None
    except SourceError as error:
        raise SourceError(flag.sub("--build.", str(error))) from None


def _of_folder(folder: Path, settings: ForgetSettings) -> Benchmark:
    """The benchmark in a folder, unchanged.

    Raises:
        InputError: settings for building a benchmark were given, or its questions were drawn at random.
    """
    if settings.holdout is not None or settings.prompt or settings.build:
        raise InputError(f"{folder} is a benchmark already: leave --holdout, --prompt and --build out.")
    benchmark = Benchmark.load(folder)
    benchmark.refuse_drawn("A deletion request")
    return benchmark


class ForgottenBeforeError(InputError):
    """A patient was forgotten in an earlier request, which is closed.

    Attributes:
        row: row of the ledger.
    """

    def __init__(self, patient: str, row: int) -> None:
        super().__init__(
            f"Patient {patient!r} was forgotten in an earlier request (row {row + 1} of the model's ledger), "
            "which is closed: there is nothing more to do. `medunlearn verify MODEL CASE` tests whether she came "
            "back."
        )
        self.row = row


def without_records(benchmark: Benchmark, record_ids: Collection[str]) -> Benchmark:
    """The benchmark without some records, the questions about them, and all splits."""
    dropped = {*record_ids}
    records = tuple(record for record in benchmark.records if record.record_id not in dropped)
    if not any(record.fold == "train" for record in records):
        raise InputError("All other patients were forgotten in earlier requests: no patient is left to retain.")
    return replace(
        benchmark,
        records=records,
        questions=tuple(question for question in benchmark.questions if question.record_id not in dropped),
        splits={},
        titles={name: title for name, title in benchmark.titles.items() if name not in dropped},
        folder=None,
    )
