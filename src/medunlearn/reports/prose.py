"""Sentences of the report that do not depend on its numbers."""

from __future__ import annotations

HOW_TO_READ: tuple[str, ...] = (
    "Each point is one model. Further right, it still answers questions about the retain set. Further up, it "
    "gives away less of the answers about the forget set.",
    "The target model (star) was trained on everything. The retrained model (diamond) never saw the forget set: "
    "it is the reference that each forgetting number is read against. A good unlearned model lies on the diamond.",
    "Closeness to the retrained model is what counts, not the largest forgetting. A model that knows nothing of "
    "a subject still guesses some answers right. A point well above the diamond has not forgotten better: it may "
    "be damaged, or its odd answers may show that something was removed.",
    "Bars are 95% intervals over subjects, because questions on one subject are not independent.",
)

RANKING_NOTE = (
    "Distance: the root of the two squared differences from the retrained model, in utility and in forgetting; "
    "0 = the same. Where intervals overlap, the order of the methods is not settled. Differences are paired on "
    "subjects; no interval here is corrected for the number of comparisons."
)

LIMITS = (
    "The report covers the questions that were asked. What other questions, other wordings or an attack on the "
    "weights would bring up is not measured here."
)

TEXT_WITHHELD = (
    "Questions and responses are not shown, because they may carry text of real records. Run the report again "
    "with --show-text to put them in; the file is then as sensitive as the records."
)

NEEDS_SCRIPT = "This figure needs JavaScript. The same numbers stand in the tables."

JUDGED = (
    "A panel's verdict is what more than half of its judges say; a judge without a verdict still counts as one. "
    "Judges are models, and agreeing with each other does not make them right: read that beside people's labels."
)

LUME_FINDINGS = (
    "What LUME's Section 3 found, as rules on the numbers of these runs. A case is decided only where an interval "
    "over documents leaves the threshold out, and stays open otherwise. No interval is corrected for the number of "
    "cases."
)

EPOCHS = (
    "Every method after each epoch of unlearning; epoch 0 is the target model. A band is the 95% interval. The "
    "dashed line is the target model, the dotted one the retrained model. Forgetting is to come down to what the "
    "retrained model shows, which never saw the forget set."
)
