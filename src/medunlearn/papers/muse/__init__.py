"""MUSE (Shi et al. 2024)."""

from __future__ import annotations

from medunlearn.paper import Build, Grouping, Paper

_HERE = __name__
PAPER = Paper(
    name="muse",
    title="MUSE: forget news articles or a book; verbatim memorization, knowledge memorization, privacy leakage.",
    source="MUSE (Shi et al. 2024).",
    package=_HERE,
    summary="Build MUSE: news articles or a book, with verbatim prompts and questions, and documents no model saw.",
    example="hub --out muse/ --corpus books",
    first="out corpus revision",
    argument="released",
    builds=(Build(settings=f"{_HERE}.settings:MuseSettings", make=f"{_HERE}.build:build"),),
    measures=("rouge_l_f", "rouge_l_f.verbmem", "rouge_l_f.knowmem", "rouge_l", "em", "te", "answer_probability"),
    own_measures={
        "rouge_l_f.knowmem": f"{_HERE}.measures:KNOWMEM",
        "rouge_l_f.verbmem": f"{_HERE}.measures:VERBMEM",
    },
    # Section 3: on forget for forgetting, knowledge on retain for utility. Sets hold documents of one kind.
    grouping=Grouping(
        level="set",
        measures={"completion": ("rouge_l_f.verbmem", "VerbMem"), "knowledge": ("rouge_l_f.knowmem", "KnowMem")},
        kinds=False,
    ),
    runs_page=f"{_HERE}.report:paper_part",
    views={"attack": f"{_HERE}.report:attack_view"},
)
