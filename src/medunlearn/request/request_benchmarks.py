"""Benchmarks of a request: the one to unlearn on, and one of the patients of earlier requests.

Without notes of unseen patients, such patients are invented (:mod:`~medunlearn.request.invented_patients`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medunlearn.config import ForgetSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import REQUEST, read_subjects, with_request
from medunlearn.data.records import Fold
from medunlearn.data.splits import request
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import InputError
from medunlearn.request.case.ledger import RequestLedger
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.direct_probes import with_direct_questions
from medunlearn.request.invented_patients import PREFIX, with_invented
from medunlearn.request.note_reading import EARLIER, NoteReading, NoteTotals, without_records
from medunlearn.study.benchmark_builds import save_new

BENCHMARK, EARLIER_BENCHMARK = "bench", "bench-earlier"
"""Folders below ``case-work/``."""
PSEUDONYMS = "pseudonyms.json"


@dataclass(frozen=True)
class RequestBenchmarks:
    """Benchmarks that a request is carried out and verified on.

    Attributes:
        benchmark: notes of all but the patients of earlier requests, with the split ``request``.
        patients: patients of the request.
        earlier: benchmark of the earlier patients, with the split ``earlier``; None if there are none.
        pseudonyms: of everybody whom the benchmarks ask about, as the case names them.
        totals: of all notes, read or not.
    """

    benchmark: Benchmark
    patients: tuple[str, ...]
    earlier: Benchmark | None
    pseudonyms: Mapping[str, str]
    totals: NoteTotals

    @staticmethod
    def load(work: Path) -> RequestBenchmarks:
        """Load the benchmarks that a request stored in its work folder.

        Raises:
            InputError: there are none.
        """
        benchmark, earlier = Benchmark.load(work / BENCHMARK), None
        if (work / EARLIER_BENCHMARK).exists():
            earlier = Benchmark.load(work / EARLIER_BENCHMARK)
        patients = tuple(sorted(benchmark.split(REQUEST).forget))
        if not (work / PSEUDONYMS).exists():
            raise InputError(f"{work} has no {PSEUDONYMS}: an older version wrote it. Choose another --out.")
        return RequestBenchmarks(
            benchmark, patients, earlier, read_json(work / PSEUDONYMS), NoteTotals.load(work, benchmark, earlier)
        )

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
    unsaved.totals.save(work)
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
        few: for a plan, read fewer notes of others.

    Raises:
        InputError: somebody who is not in the notes (nobody else's id is shown), who was forgotten before, or
            everybody; held-out notes of nobody else.
    """
    patients = tuple(read_subjects(settings.patient))
    reading = NoteReading(notes, settings, ledger, secret, patients, quiet, few)
    checked, everybody, part = reading.read()
    level, before = everybody.subject_level, part.before
    remaining = with_request(without_records(everybody, before.records), patients)
    questions = tuple(q for q in remaining.questions if remaining.subject(q.record_id) in part.asked)
    benchmark = with_direct_questions(replace(remaining, questions=questions), part.asked, checked, all_of=patients)
    _refuse_without_questions(benchmark, patients)
    if not patients_of_fold(benchmark, "holdout"):
        if settings.holdout is not None:
            raise InputError(
                f"--holdout: {settings.holdout} has no note of a patient whom the model never saw: its patients or "
                "their texts are in the notes too. Name other notes, or leave it out."
            )
        benchmark = with_invented(benchmark, settings.others, checked, without=patients)
    earlier = None
    if part.earlier:
        forgotten = with_direct_questions(everybody, part.earlier, checked)
        earlier = _earlier(forgotten, benchmark, part.earlier)
    pseudonyms = {who: secret.pseudonym(who, level) for who in (*patients, *part.earlier, *_asked(benchmark))}
    return RequestBenchmarks(benchmark, patients, earlier, pseudonyms, part.totals)


def _asked(benchmark: Benchmark) -> list[str]:
    """Patients whom a question is about."""
    return sorted({benchmark.subject(question.record_id) for question in benchmark.questions})


def _refuse_without_questions(benchmark: Benchmark, patients: Sequence[str]) -> None:
    """Refuse a patient without questions: no verdict would be possible."""
    subjects = _asked(benchmark)
    if mute := [name for name in patients if name not in subjects]:
        raise InputError(
            f"No probe could be made of the notes of {mute[0]!r}: too short, or others have the same text. What a "
            "model knows about such a patient cannot be measured; `medunlearn build notes` lists these notes."
        )


def _earlier(everybody: Benchmark, benchmark: Benchmark, patients: Collection[str]) -> Benchmark:
    """The earlier patients who are asked about, with those that no model is trained on."""
    level = everybody.subject_level
    theirs = {record.record_id for record in everybody.records if record.groups[level] in patients}
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
    split = request(together.hierarchy, EARLIER, benchmark.subject_level, patients)
    return replace(together, splits={EARLIER: split})
