"""MedForget (Wu et al.)."""

from __future__ import annotations

from medunlearn.paper import Build, Paper

_HERE = __name__
PAPER = Paper(
    name="medforget",
    title="MedForget: institution > patient > study > section, with questions on every level, from chest X-rays "
    "and reports.",
    source="MedForget (Wu et al.).",
    package=_HERE,
    summary="Build MedForget: institutions, patients, studies and sections, with chest X-rays and questions on "
    "each.",
    example="--synthetic 64 --out bench/; MIMIC-CXR: medunlearn build medforget --mimic-cxr mimic-cxr/ "
    "--out bench/",
    first="synthetic mimic_cxr openi folder out llm",
    builds=(
        Build(
            settings=f"{_HERE}.settings:MedforgetSettings",
            make=f"{_HERE}.build:build",
            write=f"{_HERE}.assemble:build_medforget",
            plan=f"{_HERE}.assemble:plan_medforget",
            memory={"text_only": True},
        ),
    ),
    measures=(
        *("rouge_l_f", "exact_match", "exact_match.rouge_l", "option_accuracy"),
        *("rouge_l", "em", "te", "token_f1", "answer_probability"),
    ),
    own_measures={
        "exact_match.rouge_l": f"{_HERE}.published_measures:MATCH_BY_ROUGE",
        "gen_score.failed_zero": f"{_HERE}.published_measures:GEN_SCORE_FAILED_ZERO",
    },
    tasks={
        "medforget_paraphrase": f"{_HERE}.prompts:MedforgetParaphrase",
        "medforget_section": f"{_HERE}.prompts:MedforgetSection",
    },
    recurring_answers=True,
    sources={
        "mimic_cxr": ("--mimic-cxr", "medunlearn.sources.mimic_cxr"),
        "openi": ("--openi", "medunlearn.sources.openi"),
        "image_table": ("--folder", "medunlearn.sources.image_table"),
    },
    files=("images", "images.parquet", "studies.parquet"),
    sweep_page=f"{_HERE}.report:sweep_report",
    views={"inspect": f"{_HERE}.partitions:inspect_view"},
)
