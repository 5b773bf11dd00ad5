"""Sentences of the report that do not depend on its numbers."""

from __future__ import annotations

HOW_TO_READ: tuple[str, ...] = (
    "Each level's split forgets a share of its nodes with everything below them. Four sets are asked: what is"
    " to be forgotten, what is to stay, the first in other words on another view, and general questions about"
    " nobody here. On the first and third lower is better, on the others higher.",
    "The target model was trained on everything. The retrained model of a split never saw its forget set: a "
    "forgetting number is good where it comes close to the retrained model's, not where it is lowest.",
    "Numbers are percent. Intervals are 95%, by a bootstrap over patients; of fewer than five patients there "
    "is none. Differences draw the patients of both sides together, so that a patient in two forget sets is "
    "drawn once for both. Nothing is corrected for the number of comparisons.",
    "With a fixed number of epochs a larger forget set also means more unlearning steps.",
)
FIGURE_5 = (
    "One line a method over the levels of forgetting, from institution to section; star: target, diamond: "
    "retrained model of the level. Whiskers are intervals."
)
FIGURE_6 = (
    "Questions on forgotten sections with more and more names in front of them: none, the study's, the "
    "patient's too, the institution's too. Levels of unlearning from section to institution. Higher = more is"
    " reconstructed; the diamond is what a model says that never saw the sections."
)
FIGURE_7 = (
    'One question a level, drawn from its forget set by seed and not chosen for what models say. "Flat" is '
    "the same method after unlearning as many questions drawn without hierarchy."
)
FLAT = (
    "The share of names and sections of the forgotten nodes that is left, after unlearning on the level and "
    "after unlearning as many questions drawn over the whole hospital. The flat model was asked to forget "
    "other questions, of which about the split's share lies in this forget set."
)
PUBLISHED = "to compare with, not a target: another model, other patients, other questions."
NO_TEXT = (
    "No text of a record, question or response is in this report but for Figure 7, which is there for invented "
    "data, or where text was asked for."
)
