"""WMDP (Li et al. 2024)."""

from __future__ import annotations

from medunlearn.paper import Build, Paper

_HERE = __name__
PAPER = Paper(
    name="wmdp",
    title="WMDP: forget corpora of hazardous knowledge, keep general text; multiple-choice questions on both.",
    source="WMDP (Li et al. 2024, arXiv 2403.03218).",
    package=_HERE,
    summary="Build WMDP from corpora of your own: texts to forget, texts to retain, and multiple-choice questions.",
    example="--forget bio.jsonl,cyber.jsonl --retain wikitext.jsonl --questions wmdp-bio.json --out wmdp/",
    first="forget retain questions out limit",
    builds=(Build(settings=f"{_HERE}.settings:WmdpSettings", make=f"{_HERE}.build:build"),),
    measures=("choice_probability", "exact_match", "rouge_l", "answer_probability", "em", "te"),
)
