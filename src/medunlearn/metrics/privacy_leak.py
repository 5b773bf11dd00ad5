"""Privacy leakage of MUSE, from the AUCs of a membership attack."""

from __future__ import annotations

from medunlearn.errors import InputError


def privacy_leak(auc_unlearned: float, auc_retrained: float) -> float:
    """Relative difference of an attack's AUC on the unlearned model from that on the retrained one.

    Args:
        auc_unlearned, auc_retrained: AUC, 0-1, of Min-K% telling the forget set (members, which rank higher) from
            documents that no model saw.

    Returns:
        (unlearned - retrained) / retrained, -1 and up; times 100 it is the paper's percent. 0 = leaks as little as
        the retrained model; above 0 = still gives members away; below 0 = over-unlearned, which tells on them too.
        MUSE's tables have the other sign (about -100% for its target model on news), as where members rank lower:
        give ``1 - auc`` twice to compare with them.

    Raises:
        InputError: an AUC outside [0, 1], or a retrained model's AUC of 0.

    Source: MUSE (Shi et al. 2024, arXiv 2407.06460), Section 3.3.
    """
    for name, auc in (("unlearned", auc_unlearned), ("retrained", auc_retrained)):
        if not 0.0 <= auc <= 1.0:
            raise InputError(f"The AUC of the {name} model is {auc}; an AUC lies between 0 and 1.")
    if auc_retrained == 0.0:
        raise InputError("The retrained model's AUC is 0, so nothing can be said relative to it.")
    return (auc_unlearned - auc_retrained) / auc_retrained
