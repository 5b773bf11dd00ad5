"""``build notes NOTES --llm URL``: AMNESIA's questions on notes, in addition to probes made from the notes.

A note whose questions are rejected keeps its probes, so no patient is lost. Questions include the patient's name,
or another phrase that identifies the note, since they are also asked without the note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.config import check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.config.reading import with_server
from medunlearn.data.benchmark import PROVENANCE, Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.storage import sha256_of_json, write_table
from medunlearn.judging.writing import Source
from medunlearn.llm import CostEstimate
from medunlearn.notes.identifying_phrases import identifying_phrase
from medunlearn.notes.note_benchmark import build
from medunlearn.papers.amnesia.from_notes import KINDS, QuestionedNote, written_questions
from medunlearn.papers.amnesia.notes import EVIDENCE, EVIDENCE_FILE, evidence_rows
from medunlearn.papers.amnesia.prompts import AmnesiaQuestions
from medunlearn.papers.llm_build import (
    BuildResult,
    Say,
    Writer,
    build_facts,
    recorded,
    refuse_another,
    server_of,
    summary_lines,
)
from medunlearn.sources.patient_notes import PatientNote
from medunlearn.study.benchmark_builds import refuse_foreign, save_new

TASK = AmnesiaQuestions()


def build_notes(values: Mapping[str, Any], out: Path, *, quiet: bool = True, say: Say = print) -> BuildResult:
    """Build from notes, let a language model write questions if a server is named, and save; resumes.

    Args:
        values: settings of :class:`~medunlearn.config.clinical_notes.NotesSettings`.

    Raises:
        ConfigError, SourceError: wrong settings, notes that cannot be read.
        RemoteRefusedError: the notes must stay on this machine, and the server is not on it.
        InputError: the folder has other content.
        MedunlearnError: server, network or budget failed for some notes; the others are stored.
    """
    settings = check(NotesSettings, with_server(values))
    refuse_foreign(out)
    if not settings.llm:
        return BuildResult(save_new(build(settings, quiet=quiet), out), (), {})
    server_of(settings.llm)  # before a long file is read
    notes = build(settings, quiet=quiet)
    writer = Writer.of(settings, out, data_use=notes.data_use, records=notes.records)
    sampling = [settings.temperature, settings.answer_tokens, settings.llm_seed]
    key = sha256_of_json([notes.fingerprint, notes.data_use, sampling, writer.server.name, TASK.version])
    refuse_another(out, key, again=settings.again)
    facts = build_facts(key, settings)
    with recorded(out, facts):
        with writer.session(out, facts, quiet=quiet) as session:
            answers = session.write(TASK, _sources(notes))
        provenance = f"llm:{writer.server.name}:{TASK.version}"
        benchmark = save_new(_with_questions(notes, answers, provenance, facts["provenance"]), out)
        write_table(out / EVIDENCE_FILE, evidence_rows(answers), EVIDENCE)
    if not quiet:
        for line in summary_lines(out, session.rejects, facts):
            say(line)
    return BuildResult(benchmark, tuple(session.rejects), facts)


def plan_notes(values: Mapping[str, Any], out: Path) -> dict[str, CostEstimate]:
    """Cost of the questions of :func:`build_notes`, empty without a server; sends and writes nothing."""
    settings = check(NotesSettings, with_server(values))
    if not settings.llm:
        return {}
    server_of(settings.llm)
    notes = build(settings)
    writer = Writer.of(settings, out, data_use=notes.data_use, records=notes.records)
    return writer.estimates({TASK: _sources(notes)})


def _probed_notes(notes: Benchmark) -> list[Record]:
    """Training notes that have probes; questions are written only about these."""
    ids = {question.record_id for question in notes.questions}
    return [record for record in notes.records if record.fold == "train" and record.record_id in ids]


def _sources(notes: Benchmark) -> list[Source]:
    return [
        Source(record.record_id, {"note": record.text}, tuple(own.value for own in record.identifiers))
        for record in _probed_notes(notes)
    ]


def _with_questions(
    notes: Benchmark, answers: Mapping[str, Any], provenance: str, records: Sequence[Mapping[str, Any]]
) -> Benchmark:
    questioned = [
        QuestionedNote(
            PatientNote(record.record_id, record.text, notes.subject(record.record_id)),
            "",
            {k: [(item["question"], item["answer"]) for item in answers[record.record_id][k]] for k in KINDS},
        )
        for record in _probed_notes(notes)
        if record.record_id in answers
    ]
    named_questions = _with_note_phrases(notes, written_questions(questioned, provenance, notes.seed))
    about = {**notes.notes, "questions by": provenance, PROVENANCE: list(records)}
    return replace(notes, questions=(*notes.questions, *named_questions), notes=about)


def _with_note_phrases(notes: Benchmark, questions: Sequence[Question]) -> list[Question]:
    """The questions, each with a phrase that identifies its note, unless that reveals the answer."""
    who = {q.question_id: identifying_phrase(notes.record[q.record_id], q.answer) for q in questions}
    return [
        replace(q, question=f"About {who[q.question_id]}: {q.question}") if who[q.question_id] else q
        for q in questions
    ]
