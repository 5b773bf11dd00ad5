"""``build notes``: a benchmark from clinical notes only, without a language model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import DataUse, build_use, use_of_file
from medunlearn.data.deletion_requests import read_subjects, with_request
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import Split, nested_splits, request, shuffled
from medunlearn.errors import ConfigError, InputError
from medunlearn.notes.note_columns import (
    PATIENT,
    IdentifierReader,
    chain_of,
    groups_of,
    identifier_columns,
    level_columns,
)
from medunlearn.notes.note_probes import NoteProbes, without_repeats
from medunlearn.progress import progress
from medunlearn.sources.column_prompts import columns_of
from medunlearn.sources.patient_notes import NoteFields, PatientNote, PatientNotes, read_patient_notes, text_key

MOST_NODES = 100
"""Nodes of a level that get splits of their own."""
SEEN_PATIENT, SEEN_TEXT = (
    "held out, but of a patient who is trained on",
    "held out, but with a text that is trained on",
)
_TITLE = "title"


@dataclass(frozen=True)
class NoteIndex:
    """Usable notes by their ids and columns, before their texts are searched or asked about.

    Attributes:
        notes: all of them, those of non-members last.
        groups: level -> node, of each note.
        levels: those that nest, from the coarsest to the finest.
        identifiers: of any of the notes; searched once.
    """

    notes: Sequence[PatientNote]
    groups: Sequence[Mapping[str, str]]
    levels: tuple[str, ...]
    identifiers: IdentifierReader


class PatientChoice(NamedTuple):
    """Patients whose notes become records, and those of them about whom probes are made."""

    read: Collection[str]
    asked: Collection[str]


def build(
    settings: NotesSettings, *, quiet: bool = True, choose: Callable[[NoteIndex], PatientChoice] | None = None
) -> Benchmark:
    """Build a benchmark from notes: records, levels, probes made from the notes, splits.

    Its manifest counts skipped notes. Texts shared by several patients are records without probes, since they are
    not specific to one patient.

    Args:
        choose: chooses patients by ids, so that only their notes are searched for identifiers and asked about;
            None: all patients, and those that the settings draw.

    Raises:
        ConfigError: missing or ambiguous columns, all at once.
        SourceError: notes that cannot be read.
        InputError: fewer than two patients; a patient to forget who is missing, or has no usable note.
    """
    read, unseen = _read(settings)
    notes, excluded = _usable(read, unseen)
    requested = _requested_patients(settings, read, notes)
    notes = _sample(notes, settings, requested)
    shared, usable = _shared_note_ids(notes), notes
    columns = settings.identifier_columns or identifier_columns(read.columns)
    levels = level_columns(settings.level, read.columns, notes)
    groups = [groups_of(note, levels) for note in notes]
    chain = chain_of(groups, levels)
    reader, asked = IdentifierReader(columns, settings.detectors, quiet), None
    if choose is not None:
        choice = choose(NoteIndex(notes, groups, chain, reader))
        both = [own for own in zip(notes, groups, strict=True) if own[0].patient in choice.read]
        notes, groups, asked = [note for note, _ in both], [own for _, own in both], choice.asked
    records = tuple(
        Record(note.note_id, note.text, own, reader.of_note(note), fold="holdout" if note.held_out else "train")
        for note, own in zip(reader.searched(notes), groups, strict=True)
    )
    if asked is None:
        asked = _drawn_patients(settings, notes, requested)
    questions, without = _questions(settings, notes, records, shared, asked, quiet=quiet)
    title = next((name for name in read.columns if name.lower() == _TITLE), None)
    name = settings.notes.name
    benchmark = Benchmark(
        name=f"Notes of {len({n.patient for n in usable if not n.held_out}):,} patients in {name}",
        builder="notes",
        levels=chain,
        subject_level=PATIENT,
        records=records,
        questions=questions,
        splits=_splits(settings, Hierarchy(chain, records), records),
        seed=settings.seed,
        source=f"{read.form} ({name})" if read.is_open else name,
        licence=settings.licence,
        data_use=_use(settings, read, unseen),
        titles={n.note_id: n.values[title] for n in notes if title and title in n.values},
        notes=_facts(read, unseen, usable, excluded, shared, without, levels, chain),
    )
    return with_request(benchmark, requested) if requested else benchmark


def _read(settings: NotesSettings) -> tuple[PatientNotes, PatientNotes | None]:
    """The notes, and the non-members' notes."""
    note_fields = NoteFields(
        settings.patient_column,
        settings.text_column,
        settings.id_column,
        settings.date_column,
        settings.holdout_column,
    )
    flags = [("--level", name) for name in settings.level if name != PATIENT]
    flags += [("--identifier-columns", name) for name in settings.identifier_columns]
    flags += [("--prompt", name) for name in columns_of(settings.prompt)]
    if odd := [name for name in settings.split_by if settings.level and name not in (*settings.level, PATIENT)]:
        raise ConfigError([f"split_by={odd[0]}: it is not a level. Name it in --level too"])
    skip = settings.skip_bad_rows
    read = read_patient_notes(settings.notes, note_fields, required=flags, skip_bad_rows=skip)
    if settings.holdout is None:
        return read, None
    return read, read_patient_notes(
        settings.holdout, replace(note_fields, holdout=None), skip_bad_rows=skip, held_out=True
    )


def _usable(read: PatientNotes, unseen: PatientNotes | None) -> tuple[list[PatientNote], dict[str, int]]:
    """Usable notes, and the numbers of skipped ones, by reason."""
    excluded = Counter(read.excluded)
    trained = [note for note in read.notes if not note.held_out]
    patients = {note.patient for note in trained}
    held_out = [note for note in read.notes if note.held_out]
    if unseen is not None:
        excluded.update(unseen.excluded)
        ids = {note.note_id for note in read.notes}
        held_out += [
            replace(note, note_id=f"holdout-{note.note_id}") if note.note_id in ids else note
            for note in unseen.notes
        ]
    texts = {text_key(note.text) for note in trained} if held_out else set()
    for note in held_out:
        reason = SEEN_PATIENT if note.patient in patients else SEEN_TEXT if text_key(note.text) in texts else None
        if reason:
            excluded[reason] += 1
        else:
            trained.append(note)
    if len(patients) < 2:
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in excluded.items())
        raise InputError(
            f"{len(patients)} patient is left, and a benchmark needs at least two: one to forget, and one to "
            f"retain. Skipped: {left_out or 'none'}."
        )
    return trained, dict(excluded)


def _requested_patients(settings: NotesSettings, read: PatientNotes, notes: Sequence[PatientNote]) -> list[str]:
    """Patients of the deletion request, checked against the notes."""
    if settings.forget_patients is None:
        return []
    requested, there = read_subjects(settings.forget_patients), {note.patient for note in notes}
    for patient in requested:
        if patient not in there and patient in read.patients:
            raise InputError(f"Patient {patient!r} has rows in the notes, but no usable note.")
        if patient not in there:
            raise InputError(f"There is no patient {patient!r} in the notes.")
    return requested


def _sample(notes: list[PatientNote], settings: NotesSettings, requested: Sequence[str]) -> list[PatientNote]:
    """All notes of a seeded sample of trained patients and of non-members."""
    if settings.limit is None:
        return notes
    patients = {note.patient for note in notes if not note.held_out}
    if settings.limit > len(patients):
        raise InputError(f"limit={settings.limit}: there are only {len(patients)} patients. Lower it.")
    sample = _sample_with(patients, requested, settings.limit, "sample", settings.seed)
    return [note for note in notes if note.held_out or note.patient in sample]


def _sample_with(patients: Iterable[str], requested: Sequence[str], most: int, *purpose: str | int) -> set[str]:
    """A seeded sample of ``most`` patients, including all of the request."""
    others = [patient for patient in shuffled(patients, *purpose) if patient not in requested]
    return {*requested, *others[: max(0, most - len(requested))]}


def _shared_note_ids(notes: Sequence[PatientNote]) -> set[str]:
    """Ids of notes whose text occurs for several patients."""
    holders: dict[bytes, set[str]] = defaultdict(set)
    keys = [text_key(note.text) for note in notes]
    for note, key in zip(notes, keys, strict=True):
        holders[key].add(note.patient)
    return {note.note_id for note, key in zip(notes, keys, strict=True) if len(holders[key]) > 1}


def _drawn_patients(
    settings: NotesSettings, notes: Sequence[PatientNote], requested: Sequence[str]
) -> Collection[str]:
    """All patients or a seeded sample of them, those of the request always, to make probes about."""
    trained, outside = ({n.patient for n in notes if n.held_out is side} for side in (False, True))
    probed = _sample_with(trained, requested, settings.probed or len(trained), "probed", settings.seed)
    return probed | _sample_with(outside, (), settings.probed or len(outside), "probed", settings.seed)


def _questions(
    settings: NotesSettings,
    notes: Sequence[PatientNote],
    records: Sequence[Record],
    shared: set[str],
    probed: Collection[str],
    *,
    quiet: bool,
) -> tuple[tuple[Question, ...], int]:
    """Probes about some patients, and the number of these without probes."""
    probes = NoteProbes.of_settings(settings)
    questions: list[Question] = []
    with progress("probes of notes", len(records), quiet=quiet) as advance:
        for note, record in zip(notes, records, strict=True):
            if note.patient in probed and note.note_id not in shared:
                questions += probes.of(record, note.values)
            advance(1)
    by_id = {record.record_id: record.groups[PATIENT] for record in records}
    questions = without_repeats(questions, by_id)
    return tuple(questions), len({*probed} - {by_id[question.record_id] for question in questions})


def _splits(settings: NotesSettings, hierarchy: Hierarchy, records: Sequence[Record]) -> dict[str, Split]:
    """Random shares of the trained patients, and a split per node of each named level."""
    trained = Hierarchy(hierarchy.levels, [record for record in records if record.fold == "train"])
    members = set(trained.nodes(PATIENT))
    outside = [name for name in hierarchy.nodes(PATIENT) if name not in members]
    random = nested_splits(trained, PATIENT, settings.percents, prefix="random", seed=settings.seed)
    splits = {name: replace(split, retain=(*split.retain, *outside)) for name, split in random.items()}
    for level in settings.split_by:
        nodes = hierarchy.nodes(level)
        if not 2 <= len(nodes) <= MOST_NODES:
            raise InputError(f"split_by={level}: it has {len(nodes)} nodes; splits need 2 to {MOST_NODES}.")
        for node in trained.nodes(level):
            name = f"{level}_{_slug(node)}"
            while name in splits:
                name += "_2"
            splits[name] = request(hierarchy, name, level, [node])
    return splits


def _slug(node: str) -> str:
    return "_".join("".join(c if c.isalnum() else " " for c in node.lower()).split()) or "node"


def _use(settings: NotesSettings, read: PatientNotes, unseen: PatientNotes | None) -> DataUse:
    sources = {
        f"notes {where}": use_of_file(source.files[0], "open" if source.is_open else None)
        for where, source in ((settings.notes, read), (settings.holdout, unseen))
        if source is not None
    }
    return build_use(settings.data_use, sources)


def _facts(
    read: PatientNotes,
    unseen: PatientNotes | None,
    notes: Iterable[PatientNote],
    excluded: Mapping[str, int],
    shared: set[str],
    without: int,
    levels: Sequence[str],
    chain: Sequence[str],
) -> dict[str, Any]:
    """Facts for the manifest, without text, names or ids."""
    patients = {note.patient for note in notes}
    everybody = read.patients | (unseen.patients if unseen is not None else frozenset())
    outside = {note.patient for note in notes if note.held_out}
    bad = [f"{place}: {why}" for place, why in (*read.bad_rows, *(unseen.bad_rows if unseen else ()))]
    facts: dict[str, Any] = {
        "form": read.form,
        "columns": {key: getattr(read.fields, key) for key in ("patient", "text", "id", "date", "holdout")},
        "notes left out": dict(excluded),
        "patients without a usable note": len(everybody - patients),
        "patients without a probe": without,
        "notes whose text several patients have": len(shared),
        "patients that no model is trained on": len(outside),
        "groups that are no level": [name for name in levels if name not in chain],
        "skipped rows": bad,
    }
    return {key: value for key, value in facts.items() if value not in (0, {}, [])}
