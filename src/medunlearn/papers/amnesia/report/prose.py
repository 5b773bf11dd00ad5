"""Sentences of a sweep's report that do not depend on its numbers."""

from __future__ import annotations

HOW_TO_READ: tuple[str, ...] = (
    "Utility is measured on the patients who stay, forgetting on those who are to be forgotten. Both are harmonic "
    "means; one with a part missing carries the names of its parts and is not comparable with the paper's MU or "
    "AFE.",
    "The target model was trained on everything. The retrained model never saw the forget set: a forgetting number "
    "is good where it comes close to the retrained model's, not where it is largest.",
    "Intervals are 95%, by a bootstrap over patients. With several seeds each number is the mean over seeds, "
    "points are the single seeds, and the interval draws patients and seeds again; with two or three seeds it is "
    "too narrow.",
    "Differences draw the patients of both sides together: paired where the patients are the same, also where one "
    "forget set lies in the other. No interval is corrected for the number of comparisons.",
)

FIGURE_2 = (
    "Plain bars: questions that were trained on. Hatched bars: holdout questions about the same patients. Lines "
    "across a panel: target model (ink) and retrained model (blue) on train (longer dashes) and holdout (dots). "
    "Whiskers are intervals. A dash stands where nothing was measured."
)
FIGURE_3 = (
    "One trace a method over the forget set sizes, darker for larger sets; star: target, diamond: retrained. A "
    "good method lies on the diamond of its size."
)
FIGURE_4 = (
    "Retained patients with the forgotten disease (solid line, filled marks) and all others (dashed, open). The "
    "number is the plain mean of the utility of each kind of question, each over all questions of that kind."
)
TABLE_2 = (
    "Leakage score and, in brackets, degradation score on the forget set, in percent, factual / reasoning, train "
    "fold. Bold: lowest, underlined: highest across methods, for each measure and kind, by the printed value. A "
    "difference of printed values may be noise: intervals are on each number and in the table below. Low leakage "
    "beside high degradation is collapse, not forgetting."
)
PUBLISHED = "to compare with, not a target: another model, other patients, other questions."
NO_TEXT = "No text of a record, question or response is in this report."
STEPS_GROW = (
    "A larger forget set also means more unlearning steps where the number of epochs is fixed, as in the paper. "
    "Growth of forgetting with the set mixes the two."
)
