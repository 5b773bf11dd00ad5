"""Benchmarks of a request: the one that is unlearned on, and one of the patients of earlier requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medunlearn.cases.ledger import EarlierRecords, RequestLedger, earlier_records
from medunlearn.cases.pseudonyms import OwnerSecret
from medunlearn.config import ForgetSettings, check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.deletion_requests import REQUEST, read_subjects, with_request
from medunlearn.data.records import Record
from medunlearn.data.splits import request, shuffled
from medunlearn.errors import InputError
from medunlearn.forgetting.invented_patients import PREFIX, with_invented
from medunlearn.notes.note_benchmark import build
from medunlearn.pipeline.benchmark_builds import save_new

EARLIER = "earlier"
BENCHMARK, EARLIER_BENCHMARK = "bench", "bench-earlier"
"""Folders below ``case-work/``."""
CLOZES = 3
"""Gaps a note, each in two wordings: whole models are asked several times, and continuations tell more."""


@dataclass(frozen=True)
class RequestBenchmarks:
    """Benchmarks on which a request is carried out and verified.

    Attributes:
        benchmark: notes of everybody but the patients of earlier requests, with the split ``request``.
        patients: of the request.
        earlier: benchmark of the earlier patients, with the split ``earlier``; None where there are none.
        earlier_records: number of records of earlier requests' patients, which stay out of training.
    """

    benchmark: Benchmark
    patients: tuple[str, ...]
    earlier: Benchmark | None
    earlier_records: int

    @staticmethod
    def load(work: Path) -> RequestBenchmarks:
        """The benchmarks that a request left in its work folder.

        Raises:
            InputError: there are none.
        """
        benchmark, earlier = Benchmark.load(work / BENCHMARK), None
        if (work / EARLIER_BENCHMARK).exists():
            earlier = Benchmark.load(work / EARLIER_BENCHMARK)
        records = () if earlier is None else earlier.records_of(earlier.split(EARLIER), "forget")
        patients = tuple(sorted(benchmark.split(REQUEST).forget))
        return RequestBenchmarks(benchmark, patients, earlier, len(tuple(records)))

    @property
    def unseen(self) -> frozenset[str]:
        """Patients whom no model is trained on."""
        return unseen_patients(self.benchmark)

    @property
    def has_invented(self) -> bool:
        """True if these are invented."""
        return any(name.startswith(PREFIX) for name in self.unseen)


def unseen_patients(benchmark: Benchmark) -> frozenset[str]:
    """Patients of a benchmark whom no model is trained on."""
    level = benchmark.subject_level
    return frozenset(one.groups[level] for one in benchmark.records if one.fold == "holdout")


def build_benchmarks(
    notes: Path, settings: ForgetSettings, ledger: RequestLedger, secret: OwnerSecret, work: Path, *, quiet: bool
) -> RequestBenchmarks:
    """The benchmarks of a request, saved in its work folder.

    Raises:
        Other errors: as of :func:`make_benchmarks`; and a folder that holds something else.
    """
    made = make_benchmarks(notes, settings, ledger, secret, quiet=quiet)
    earlier = None if made.earlier is None else save_new(made.earlier, work / EARLIER_BENCHMARK)
    return replace(made, benchmark=save_new(made.benchmark, work / BENCHMARK), earlier=earlier)


def make_benchmarks(
    notes: Path, settings: ForgetSettings, ledger: RequestLedger, secret: OwnerSecret, *, quiet: bool
) -> RequestBenchmarks:
    """Read the notes, and leave the patients of earlier requests out; nothing is written.

    Raises:
        InputError: somebody who is not in the notes (nobody else's id is shown), who was forgotten before, or
            everybody.
    """
    patients = tuple(read_subjects(settings.patient))
    values = {
        "clozes": CLOZES,
        **settings.build,
        "notes": notes,
        "holdout": settings.holdout,
        "prompt": settings.prompt,
        "forget_patients": settings.patient,
        "seed": settings.seed,
    }
    checked = check(NotesSettings, values)
    built = _of_folder(notes, settings) if is_benchmark(notes) else build(checked, quiet=quiet)
    level = built.subject_level
    before = earlier_records(ledger, secret, ((r.record_id, r.groups[level]) for r in built.records), level)
    if again := [name for name in patients if name in before.subjects]:
        raise ForgottenBeforeError(again[0], before.subjects[again[0]])
    benchmark = _asking(with_request(_without(built, before.subjects), patients), patients, settings)
    _refuse_unasked(benchmark, patients)
    if not unseen_patients(benchmark):
        benchmark = with_invented(benchmark, settings.others, checked, without=patients)
    return RequestBenchmarks(
        benchmark,
        patients,
        _earlier(built, benchmark, before),
        len(before.records),
    )


def is_benchmark(notes: Path) -> bool:
    """True if the notes are a benchmark's folder."""
    return (notes / MANIFEST).exists()


def _of_folder(folder: Path, settings: ForgetSettings) -> Benchmark:
    """A benchmark as it is.

    Raises:
        InputError: settings that say how a benchmark is built.
    """
    if settings.holdout is not None or settings.prompt or settings.build:
        raise InputError(f"{folder} is a benchmark already: leave --holdout, --prompt and --build out.")
    return Benchmark.load(folder)


def neighbours_of(benchmark: Benchmark, patients: Collection[str]) -> frozenset[str]:
    """Patients who are trained on and share the finest group of one of the patients, other than themselves."""
    level = benchmark.subject_level
    groups = {one.groups[level]: one.groups for one in benchmark.records if one.fold == "train"}
    finest = next((name for name in reversed(benchmark.levels) if name != level), None)
    if finest is None:
        return frozenset()
    nodes = {groups[patient].get(finest) for patient in patients if patient in groups} - {None}
    return frozenset(who for who, own in groups.items() if own.get(finest) in nodes and who not in patients)


def _asking(benchmark: Benchmark, patients: Sequence[str], settings: ForgetSettings) -> Benchmark:
    """The benchmark with questions about the patients and about so many others, retained and never seen (seeded).

    Up to half of the retained ones are neighbours, who lose most.
    """
    level, most, seed = benchmark.subject_level, settings.others, settings.seed
    near = shuffled(neighbours_of(benchmark, patients), "neighbours", seed)[: most // 2]
    trained, outside = (
        {one.groups[level] for one in benchmark.records if one.fold == fold} - {*patients, *near}
        for fold in ("train", "holdout")
    )
    asked = {*patients, *near, *shuffled(trained, "others", seed)[: most - len(near)]}
    asked |= {*shuffled(outside, "never seen", seed)[:most]}
    kept = {one.record_id for one in benchmark.records if one.groups[level] in asked}
    questions = tuple(one for one in benchmark.questions if one.record_id in kept)
    return replace(benchmark, questions=questions, folder=None)


def _refuse_unasked(benchmark: Benchmark, patients: Sequence[str]) -> None:
    """Refuse a patient about whom nothing can be asked: no verdict could rest on anything."""
    level = benchmark.subject_level
    asked = {benchmark.record[one.record_id].groups[level] for one in benchmark.questions}
    if mute := [name for name in patients if name not in asked]:
        raise InputError(
            f"No probe could be made of the notes of {mute[0]!r}: too short, or others have the same text. Nothing "
            "could show what a model knows of such a patient; `medunlearn build notes` names these notes."
        )


class ForgottenBeforeError(InputError):
    """The patient was forgotten in an earlier request.

    Attributes:
        row: of the ledger.
    """

    def __init__(self, patient: str, row: int) -> None:
        super().__init__(
            f"Patient {patient!r} was forgotten in an earlier request (row {row + 1} of the model's ledger), so "
            "there is nothing more to do. `medunlearn verify MODEL CASE` tests whether she came back."
        )
        self.row = row


def _without(benchmark: Benchmark, subjects: Mapping[str, int] | Iterable[str]) -> Benchmark:
    """The benchmark without some subjects' records and questions, and without splits."""
    gone, level = set(subjects), benchmark.subject_level
    records = tuple(one for one in benchmark.records if one.groups[level] not in gone)
    if not any(record.fold == "train" for record in records):
        raise InputError("All other patients were forgotten in earlier requests: nobody is left to retain.")
    return _with_records(benchmark, records)


def _with_records(benchmark: Benchmark, records: tuple[Record, ...]) -> Benchmark:
    kept = {record.record_id for record in records}
    questions = tuple(one for one in benchmark.questions if one.record_id in kept)
    titles = {name: title for name, title in benchmark.titles.items() if name in kept}
    return replace(benchmark, records=records, questions=questions, splits={}, titles=titles, folder=None)


def _earlier(built: Benchmark, benchmark: Benchmark, before: EarlierRecords) -> Benchmark | None:
    """The earlier patients beside those whom no model is trained on."""
    if not before.subjects:
        return None
    level, kept = built.subject_level, {*before.subjects}
    records = tuple(one for one in built.records if one.groups[level] in kept)
    outside = tuple(one for one in benchmark.records if one.fold == "holdout")
    names = {record.record_id for record in records}
    questions = tuple(one for one in built.questions if one.record_id in names)
    their = {record.record_id for record in outside}
    together = replace(
        benchmark,
        name=f"{benchmark.name}, earlier requests",
        records=(*records, *outside),
        questions=(*questions, *(one for one in benchmark.questions if one.record_id in their)),
        splits={},
        titles={},
        folder=None,
    )
    split = request(together.hierarchy, EARLIER, level, before.subjects)
    return replace(together, splits={EARLIER: split})
