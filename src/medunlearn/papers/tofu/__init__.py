"""TOFU (Maini et al. 2024)."""

from __future__ import annotations

from medunlearn.paper import Build, Paper

_HERE = __name__
PAPER = Paper(
    name="tofu",
    title="TOFU: forget some of 200 invented authors; retain the others, real authors and world facts.",
    source="TOFU (Maini et al. 2024).",
    package=_HERE,
    summary="Build TOFU: questions on authors who never were, with splits forget01, forget05 and forget10.",
    example="hub --out tofu/",
    first="out revision",
    argument="released",
    builds=(Build(settings=f"{_HERE}.settings:TofuSettings", make=f"{_HERE}.build:build"),),
    measures=(
        *("rouge_l", "answer_probability", "truth_ratio", "truth_ratio_utility"),
        *("truth_ratio.geometric", "truth_ratio_utility.geometric", "choice_probability", "em", "te"),
    ),
    runs_page=f"{_HERE}.report:paper_part",
    views={"evaluate": f"{_HERE}.report:evaluation_view"},
)
