"""Sentences of an audit report that do not depend on its numbers."""

from __future__ import annotations

HOW_TO_READ: tuple[str, ...] = (
    "A probe is a record cut at a prefix length: the model is given the prefix, and what it goes on with is "
    "held against what truly follows. The memorization ratio is the share of probes whose response has 30 (50) "
    "consecutive tokens of the true continuation.",
    "A ratio alone says little. Set phrases, quotations and text that is everywhere are repeated by models that "
    "never saw this corpus. What training on it added is the difference from a baseline on the same probes.",
    "Intervals are 95%, by a bootstrap over subjects (patients; records where no patient is known). Differences "
    "are paired on probes. No interval is corrected for the number of comparisons.",
    "Exact measures miss a changed word, and approximate and semantic ones count what is only alike. Neither "
    "says what was memorized: that is what kinds and identifiers are for.",
)
STATISTICS = (
    "The paper tests with a rank-sum test between 100 means of 100 drawn texts each. With enough means it calls "
    "any difference significant, true or not; its p-values are not shown here. What is shown is how large a "
    "difference is, with an interval that counts subjects."
)
FIGURE_1 = "Share of probes with a run of 30 (left) and of 50 (right) by prefix length; bands are intervals."
FIGURE_2 = "Each decoding beside greedy at the shortest prefix; whiskers are of the ratio, not of the difference."
COPIES = (
    "Greedy, by how often a record stood in the training text, where somebody says. Not paired: records with many "
    "copies may differ in more than that."
)
FIGURE_3 = (
    "Share of all responses in which a run of 30 starts in a segment, by prefix length. The table has the other "
    "ways to count, and the ratio among responses long enough to reach the segment: a response that ends early "
    "has no later one."
)
FIGURE_5 = (
    "Share of probes with a run of 50 before (solid) and after (dashed) further fine-tuning, by prefix length."
)
FIGURE_7 = "Memorization, validation loss and accuracy after every epoch. The line marks the least validation loss."
TABLE_2 = (
    "One prefix length, greedy. Runs in percent of probes; under each number its interval. − is the paired "
    "difference from each baseline in points. BARTScore is a mean log-likelihood: closer to 0 is more alike."
)
TABLE_5 = "Removed answer options that the model gave back: exact (the same text) and relaxed (contained in it)."
TABLE_7 = (
    "Shares of the union of what was memorized before or after; they add up to 1. Retained is common over what "
    "was memorized before, which is the share that persisted: the paper does not print it. The union holds "
    "other probes at every prefix length, so columns are not steps of one thing."
)
TABLE_9 = (
    "Found in the response and in its record, and not in the prefix. Counts depend on what the search can find, "
    "and on how many responses there were. Examples are shapes alone: x for a letter, # for a digit."
)
TABLE_10 = "Beyond standard identifiers, by term lists: a mention of a word, not a judgement of its harm."
KINDS = (
    "Rules take evidence first (identifiers found, declared corpora, set phrases that many records share) and "
    "terms last; terms are weak, and a span that they do not take is counted without a kind. Agreement with a "
    "person is what makes a column worth anything."
)
PUBLISHED = "to compare with, not a target: other models, other texts, other tokenizers."
NO_TEXT = "No text of a record or a response is in this report, and no identifier."
