"""Clinical notes of a user's own: a benchmark of them alone, or with questions of a language model."""

from __future__ import annotations

from medunlearn.paper import Build, Paper

_HERE = __name__
PAPER = Paper(
    name="notes",
    title="Clinical notes alone: continuations, gaps and chat prompts, without a language model.",
    package=_HERE,
    summary="Build a benchmark from clinical notes alone: continuations, gaps, chat prompts; no server.",
    example="notes.csv --out bench/ --holdout unseen.csv; with what a chat model was asked: medunlearn build notes "
    "notes.csv --out bench/ --prompt 'Write the clinical note of {name}.'",
    first="out holdout patient_column prompt llm",
    argument="notes",
    builds=(
        Build(
            settings="medunlearn.config.clinical_notes:NotesSettings",
            make="medunlearn.notes.note_benchmark:build",
            write=f"{_HERE}.note_questions:build_notes",
            plan=f"{_HERE}.note_questions:plan_notes",
        ),
    ),
    sources={
        "patient_notes": ("NOTES", "medunlearn.sources.patient_notes"),
        "fhir": ("BUNDLE.json", "medunlearn.sources.fhir_notes"),
    },
)
