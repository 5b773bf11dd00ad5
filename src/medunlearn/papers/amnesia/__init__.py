"""AMNESIA (Davoudi et al. 2026)."""

from __future__ import annotations

from medunlearn.paper import Build, Paper

_HERE = __name__
PAPER = Paper(
    name="amnesia",
    title="AMNESIA: patients with a note, four factual and four reasoning questions; random and disease-level "
    "splits.",
    source="AMNESIA (Davoudi et al. 2026).",
    package=_HERE,
    summary="Build AMNESIA: patients with a note and eight questions each, random and disease-level splits.",
    example="--synthetic 400 --out bench/; of notes of your own: medunlearn build amnesia NOTES.csv "
    "--llm http://127.0.0.1:8000/v1 --llm.model qwen3-32b --out bench/",
    first="synthetic out llm limit percents",
    argument="notes",
    builds=(
        Build(
            words="--synthetic N (patients to invent)",
            settings=f"{_HERE}.settings:AmnesiaSettings",
            given=("synthetic",),
            make=f"{_HERE}.build:build",
        ),
        Build(
            words="NOTES (a file of notes, hub:org/name)",
            settings=f"{_HERE}.settings:AmnesiaNotesSettings",
            given=("notes",),
            write=f"{_HERE}.notes:build_from_notes",
            plan=f"{_HERE}.notes:plan_from_notes",
        ),
    ),
    measures=("rouge_l", "em", "te", "degenerate", "cs", "es", "token_f1", "answer_probability", "ls"),
    tasks={
        "amnesia_questions": f"{_HERE}.prompts:AmnesiaQuestions",
        "disease_label": f"{_HERE}.prompts:DiseaseLabel",
    },
    sources={
        "synthetic": ("--synthetic N", "medunlearn.synthetic.hospital"),
        "hub": ("hub:org/name", "medunlearn.sources.hub"),
    },
    files=("labels.parquet", "evidence.parquet"),
    sweep_page=f"{_HERE}.report:sweep_report",
    demos={"amnesia": f"{_HERE}.demo:run_demo"},
)
