"""Benchmarks of a request: the one to unlearn on, and one of the patients of earlier requests.

Without notes of unseen patients, such patients are invented (:mod:`~medunlearn.request.invented_patients`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from medunlearn.audit.identifiers.same_person import People, person_ids, read_same_person, requested_ids
from medunlearn.config import ForgetSettings, check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.config.forgetting import AUTOMATIC
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.deletion_requests import REQUEST, forget_records, read_subjects, relatives_of, with_request
from medunlearn.data.records import Fold
from medunlearn.data.splits import request, shuffled
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import ConfigError, InputError, SourceError
from medunlearn.notes.note_benchmark import build
from medunlearn.notes.note_columns import PATIENT
from medunlearn.progress import remark
from medunlearn.request.case.ledger import EarlierRecords, RequestLedger, earlier_records
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.direct_probes import HospitalQuestions, with_direct_questions
from medunlearn.request.invented_patients import PREFIX, with_invented
from medunlearn.study.benchmark_builds import save_new

EARLIER = "earlier"
BENCHMARK, EARLIER_BENCHMARK = "bench", "bench-earlier"
"""Folders below ``case-work/``."""
PSEUDONYMS = "pseudonyms.json"
PLANNED = 4
"""Further patients whose notes a plan takes for each one who is asked about."""
CLOZES = 3
"""Gaps a note, each in two wordings: whole models are asked several times, and continuations tell more."""


QUESTIONS = 6
"""Facts a note of somebody else's that direct questions are about; of the patients, every fact is asked for."""


@dataclass(frozen=True)
class RequestBenchmarks:
    """Benchmarks that a request is carried out and verified on.

    Attributes:
        benchmark: notes of all but the patients of earlier requests, with the split ``request``.
        patients: patients of the request.
        earlier: benchmark of the earlier patients, with the split ``earlier``; None if there are none.
        earlier_records: number of records of earlier requests' patients, which stay out of training.
        pseudonyms: of everybody whom the benchmarks ask about, as the case names them.
    """

    benchmark: Benchmark
    patients: tuple[str, ...]
    earlier: Benchmark | None
    earlier_records: int
    pseudonyms: Mapping[str, str]

    @staticmethod
    def load(work: Path) -> RequestBenchmarks:
        """Load the benchmarks that a request stored in its work folder.

        Raises:
            InputError: there are none.
        """
        benchmark, earlier = Benchmark.load(work / BENCHMARK), None
        if (work / EARLIER_BENCHMARK).exists():
            earlier = Benchmark.load(work / EARLIER_BENCHMARK)
        records = () if earlier is None else forget_records(earlier, EARLIER)
        patients = tuple(sorted(benchmark.split(REQUEST).forget))
        if not (work / PSEUDONYMS).exists():
            raise InputError(f"{work} has no {PSEUDONYMS}: an older version wrote it. Choose another --out.")
        return RequestBenchmarks(benchmark, patients, earlier, len(records), read_json(work / PSEUDONYMS))

    @property
    def unseen(self) -> frozenset[str]:
        """Patients that no model is trained on."""
        return patients_of_fold(self.benchmark, "holdout")

    @property
    def has_invented(self) -> bool:
        """True if the unseen patients are invented."""
        return any(name.startswith(PREFIX) for name in self.unseen)


def patients_of_fold(benchmark: Benchmark, fold: Fold) -> frozenset[str]:
    """Patients with a record of a fold: ``train``, or ``holdout``, which no model is trained on."""
    level = benchmark.subject_level
    return frozenset(record.groups[level] for record in benchmark.records if record.fold == fold)


def build_benchmarks(
    notes: Path, settings: ForgetSettings, ledger: RequestLedger, secret: OwnerSecret, work: Path, *, quiet: bool
) -> RequestBenchmarks:
    """The benchmarks of a request, saved in its work folder.

    Raises:
        Other errors: those of :func:`make_benchmarks`; and a folder with other content.
    """
    unsaved = make_benchmarks(notes, settings, ledger, secret, quiet=quiet)
    earlier = None if unsaved.earlier is None else save_new(unsaved.earlier, work / EARLIER_BENCHMARK)
    write_json(work / PSEUDONYMS, dict(unsaved.pseudonyms))
    return replace(unsaved, benchmark=save_new(unsaved.benchmark, work / BENCHMARK), earlier=earlier)


def make_benchmarks(
    notes: Path,
    settings: ForgetSettings,
    ledger: RequestLedger,
    secret: OwnerSecret,
    *,
    quiet: bool,
    few: bool = False,
) -> RequestBenchmarks:
    """Read the notes without the patients of earlier requests; writes nothing.

    Args:
        few: for a plan, take the notes of the patients, of earlier requests, and of a sample of others.

    Raises:
        InputError: somebody who is not in the notes (nobody else's id is shown), who was forgotten before, or
            everybody; held-out notes of nobody else.
    """
    checked, everybody = _everybody(notes, settings, ledger, secret, quiet=quiet, few=few)
    people, persons = People.of_benchmark(everybody), read_same_person(settings.same_person)
    patients = tuple(requested_ids(read_subjects(settings.patient), people, persons))
    level = everybody.subject_level
    owners = [(record.record_id, record.groups[level]) for record in everybody.records]
    before = earlier_records(ledger, secret, owners, level, again=patients)
    if again := [name for name in patients if name in before.subjects]:
        raise ForgottenBeforeError(again[0], before.subjects[again[0]])
    remaining = with_request(_without_records(everybody, before.records), patients)
    sample = _sample_of(remaining, patients, settings)
    questions = tuple(q for q in remaining.questions if remaining.subject(q.record_id) in sample)
    benchmark = with_direct_questions(replace(remaining, questions=questions), sample, checked, all_of=patients)
    _refuse_without_questions(benchmark, patients)
    if not patients_of_fold(benchmark, "holdout"):
        if settings.holdout is not None:
            raise InputError(
                f"--holdout: {settings.holdout} has no note of a patient whom the model never saw: its patients or "
                "their texts are in the notes too. Name other notes, or leave it out."
            )
        benchmark = with_invented(benchmark, settings.others, checked, without=patients)
    earlier = None
    if before.subjects:
        forgotten = with_direct_questions(everybody, {*before.subjects}, checked)
        earlier = _earlier(forgotten, benchmark, before)
    pseudonyms = {who: secret.pseudonym(who, level) for who in (*patients, *before.subjects, *_asked(benchmark))}
    return RequestBenchmarks(benchmark, patients, earlier, len(before.records), pseudonyms)


def _everybody(
    notes: Path, settings: ForgetSettings, ledger: RequestLedger, secret: OwnerSecret, *, quiet: bool, few: bool
) -> tuple[NotesSettings, Benchmark]:
    """Settings of the notes, and a benchmark of all of them, with a hospital's own questions."""
    patients = person_ids(read_subjects(settings.patient), read_same_person(settings.same_person))
    values = {
        "clozes": CLOZES,
        "questions": QUESTIONS,
        **settings.build,
        "notes": notes,
        "holdout": settings.holdout,
        "prompt": settings.prompt,
        "forget_patients": settings.patient,
        "same_person": settings.same_person,
        "seed": settings.seed,
    }

    def drawn(owners: Iterable[tuple[str, str]]) -> Collection[str]:
        """Patients whose notes a plan takes, from records and their patients."""
        everyone = [*owners]
        before = earlier_records(ledger, secret, everyone, PATIENT, again=patients)
        others = {patient for _, patient in everyone} - {*patients, *before.subjects}
        sample = shuffled(others, "planned", settings.seed)[: PLANNED * settings.others]
        return {*patients, *before.subjects, *sample}

    with _flags_of_build():
        checked = check(NotesSettings, values)
        if is_benchmark(notes):
            everybody = _of_folder(notes, settings)
        else:
            # Direct questions are made later, about those who are asked about.
            plain = checked.model_copy(update={"questions": 0})
            everybody = build(plain, quiet=quiet, choose=drawn if few else None)
    if settings.questions is None:
        return checked, everybody
    own = HospitalQuestions.read(settings.questions, everybody, patients, partly=few)
    remark(own.remark, quiet=quiet or not own.remark)
    return checked, own.added_to(everybody, halves=settings.method == AUTOMATIC, seed=settings.seed)


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


def neighbours_of(benchmark: Benchmark, patients: Collection[str]) -> frozenset[str]:
    """Trained patients who share the finest group of one of the patients, without the patients themselves."""
    level = benchmark.subject_level
    groups = {record.groups[level]: record.groups for record in benchmark.records if record.fold == "train"}
    finest = next((name for name in reversed(benchmark.levels) if name != level), None)
    if finest is None:
        return frozenset()
    nodes = {groups[patient].get(finest) for patient in patients if patient in groups} - {None}
    return frozenset(who for who, own in groups.items() if own.get(finest) in nodes and who not in patients)


def _asked(benchmark: Benchmark) -> list[str]:
    """Patients whom a question is about."""
    return sorted({benchmark.subject(question.record_id) for question in benchmark.questions})


def _sample_of(benchmark: Benchmark, patients: Sequence[str], settings: ForgetSettings) -> set[str]:
    """The patients, and a seeded sample of as many retained and unseen ones, who are asked about.

    Up to half of the retained ones are relatives and neighbours, who are affected most.
    """
    most, seed = settings.others, settings.seed
    relatives = shuffled(relatives_of(benchmark, patients), "relatives", seed)
    neighbours = shuffled(neighbours_of(benchmark, patients) - {*relatives}, "neighbours", seed)
    near = [*relatives, *neighbours][: most // 2]
    trained, unseen = (patients_of_fold(benchmark, fold) - {*patients, *near} for fold in ("train", "holdout"))
    others = shuffled(trained, "others", seed)[: most - len(near)]
    return {*patients, *near, *others, *shuffled(unseen, "never seen", seed)[:most]}


def _refuse_without_questions(benchmark: Benchmark, patients: Sequence[str]) -> None:
    """Refuse a patient without questions: no verdict would be possible."""
    subjects = _asked(benchmark)
    if mute := [name for name in patients if name not in subjects]:
        raise InputError(
            f"No probe could be made of the notes of {mute[0]!r}: too short, or others have the same text. What a "
            "model knows about such a patient cannot be measured; `medunlearn build notes` lists these notes."
        )


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


def _without_records(benchmark: Benchmark, record_ids: Collection[str]) -> Benchmark:
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


def _earlier(everybody: Benchmark, benchmark: Benchmark, before: EarlierRecords) -> Benchmark:
    """The earlier patients, with those that no model is trained on."""
    theirs = {*before.records}
    unseen = {record.record_id for record in benchmark.records if record.fold == "holdout"}
    both = ((everybody, theirs), (benchmark, unseen))
    together = replace(
        benchmark,
        name=f"{benchmark.name}, earlier requests",
        records=tuple(record for bench, ids in both for record in bench.records if record.record_id in ids),
        questions=tuple(q for bench, ids in both for q in bench.questions if q.record_id in ids),
        splits={},
        titles={},
        folder=None,
    )
    split = request(together.hierarchy, EARLIER, benchmark.subject_level, before.subjects)
    return replace(together, splits={EARLIER: split})
