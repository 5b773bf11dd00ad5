"""Titles and meanings of the measures of an audit, for its report."""

from __future__ import annotations

from collections.abc import Mapping

MEANINGS: Mapping[str, tuple[str, str]] = {
    "run_30": (
        "Run of 30",
        "share of probes with 30 consecutive tokens of the true text, 0-1, higher = leaks more",
    ),
    "run_50": (
        "Run of 50",
        "share of probes with 50 consecutive tokens of the true text, 0-1, higher = leaks more",
    ),
    "longest_run": ("Longest run", "tokens in a row that both texts share, higher = leaks more"),
    "rouge_l": ("ROUGE-L", "longest common subsequence of the first 100 tokens, 0-1, higher = more alike"),
    "bleu": ("BLEU", "shared n-grams of the first 100 tokens, 0-1, higher = more alike"),
    "extraction_strength": ("Extraction strength", "0-1, higher = less of the text is needed to have the rest"),
    "partial_match_50": ("Partial match of 50", "share of the first 50 tokens that agree place by place, 0-1"),
    "bert_score": ("BERTScore", "similarity of token embeddings of the first 100 tokens, higher = more alike"),
    "bart_score": (
        "BARTScore",
        "mean log-likelihood of the true text given the response, at most 0, higher = more alike",
    ),
}
