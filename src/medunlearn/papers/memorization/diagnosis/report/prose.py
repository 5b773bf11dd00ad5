"""Sentences of the diagnosis report."""

from __future__ import annotations

from medunlearn.papers.memorization.diagnosis.report.content import DiagnosisContent

EPOCHS = (
    "After each epoch; epoch 0 is the model before training. The line marks the epoch whose model was kept, the "
    "dashed one the epoch after which early stopping ends the training, or would have. Grey and dotted: the same "
    "probes on records that no model is trained on. What comes back there is wording that records share, and no "
    "memorization."
)
RISE = (
    "From the model before training to the epoch of the least validation loss, in pairs, over patients. It holds "
    "where the loss fell and the share of memorized training records rose, both with intervals that leave 0 out."
)
NO_TEXT = "No text of a record or a response is in this report."


def counted(content: DiagnosisContent) -> str:
    """What makes a response right."""
    what = "the principal diagnosis" if content.gold == "principal" else "any of the patient's diagnoses"
    return (
        f"A response is right at k if {what} is among the first k that it names, by name or synonym. A response in "
        "which no diagnosis can be read is wrong, and counted as one without a list. Intervals: 95%, "
        f"{content.replicates:,} bootstrap draws of patients; differences are paired on patients, and no p is "
        "corrected for the number of comparisons."
    )


def specialties(content: DiagnosisContent) -> str:
    """Which specialties are not shown."""
    if not content.small:
        return ""
    names = ", ".join(f"{name} ({n})" for name, n in content.small.items())
    return f"Specialties with fewer than {content.least_patients} patients are not shown by themselves: {names}."


def stop(content: DiagnosisContent) -> str:
    """Where early stopping ends the training."""
    if content.best is None:
        return ""
    at = f"ends after epoch {content.stop}" if content.stop is not None else "does not end"
    return (
        f"The least validation loss is that of epoch {content.best}; with a patience of {content.patience} the "
        f"training {at}. The model is epoch {content.chosen}'s."
    )
