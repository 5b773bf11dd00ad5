"""One pass for all attacks against one document at a time with everything written out; and the areas found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from medunlearn.attacks import make_attack
from medunlearn.attacks.membership import passes
from medunlearn.attacks.membership.membership_results import score_candidates, summarize
from medunlearn.attacks.membership.passage import Passage
from medunlearn.attacks.membership.passes import (
    conditional_means,
    document_moments,
    document_sequences,
    documents_in_front,
    gradient_norms,
    log_likelihoods,
)
from medunlearn.attacks.membership.sample import Candidate
from medunlearn.data.records import Record
from medunlearn.errors import MedunlearnError


def token_log_probs(language_model: Any, ids: Sequence[int]) -> torch.Tensor:
    """Log-probability of each token but the first, from all logits; with its graph."""
    logits = language_model.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1]
    return logits.log_softmax(1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]


@pytest.mark.parametrize("batch_size", [1, 7])
def test_tokens_are_those_of_single_documents(memorized: Any, documents: list[Record], batch_size: int) -> None:
    sequences = document_sequences(documents[15:25], memorized.tokenizer, None)
    moments = document_moments(memorized, sequences, batch_size=batch_size)
    for record, tokens in zip(documents[15:25], moments, strict=True):
        ids = [*memorized.tokenizer(record.text)["input_ids"], memorized.tokenizer.eos_token_id]
        expected = token_log_probs(memorized, ids).detach().numpy()
        np.testing.assert_allclose(tokens.log_probs, expected, rtol=1e-4, atol=1e-5)


def test_chunks_of_a_document_are_joined(memorized: Any, documents: list[Record]) -> None:
    """Cut at 20 tokens, every token but the first is still scored once, in its place."""
    done: list[int] = []
    whole = document_sequences(documents[:3], memorized.tokenizer, None)
    cut = document_sequences(documents[:3], memorized.tokenizer, 20)
    assert all(len(pieces) > 1 for pieces in cut)
    moments = document_moments(memorized, cut, batch_size=2, advance=done.append)
    assert sum(done) == sum(map(len, cut))
    for tokens, pieces, one in zip(moments, cut, whole, strict=True):
        assert len(tokens.log_probs) == len(tokens.variances) == one[0].scored
        first = document_moments(memorized, [pieces[:1]])[0]
        np.testing.assert_allclose(tokens.log_probs[:19], first.log_probs, rtol=1e-5)
    sums = log_likelihoods(memorized, cut, batch_size=2)
    np.testing.assert_allclose(sums, [tokens.log_probs.sum() for tokens in moments], rtol=1e-5)


@pytest.mark.parametrize("max_length", [None, 20])
def test_gradient_norms_are_those_of_plain_backward_passes(
    untrained: Any, documents: list[Record], max_length: int | None
) -> None:
    """Also of a document in chunks: the gradient of the mean over all its tokens. The model is left as it was."""
    untrained.model.requires_grad_(False)
    untrained.model.lm_head.weight.requires_grad_(True)
    flags = [tensor.requires_grad for tensor in untrained.model.parameters()]
    sequences = document_sequences(documents[:2], untrained.tokenizer, max_length)
    norms = gradient_norms(untrained, sequences)
    assert [tensor.requires_grad for tensor in untrained.model.parameters()] == flags
    assert all(tensor.grad is None for tensor in untrained.model.parameters())
    untrained.model.requires_grad_(True)
    for pieces, norm in zip(sequences, norms, strict=True):
        total = sum(piece.scored for piece in pieces)
        loss = -sum(token_log_probs(untrained, piece.ids).sum() for piece in pieces) / total
        gradients = torch.autograd.grad(loss, list(untrained.model.parameters()))  # type: ignore[arg-type]
        squares = sum(float(gradient.square().sum()) for gradient in gradients)
        assert norm == pytest.approx(squares**0.5, rel=1e-4)


def test_documents_in_front_are_read_first(memorized: Any, documents: list[Record]) -> None:
    """The mean over a document's own tokens, in one text behind others; never behind itself, and cut to fit."""
    members = [place < 20 for place in range(len(documents))]
    in_front = documents_in_front(members, 0)
    assert all(len(own) == 4 and place not in own for place, own in enumerate(in_front))
    assert not any(members[place] for own in in_front for place in own)
    assert documents_in_front([True] * 9 + [False] * 7, 0) == [()] * 16
    sequences = document_sequences(documents, memorized.tokenizer, None)
    pieces = [piece for place in in_front[3] for piece in sequences[place]]
    (own,) = sequences[3]
    ids = [token for piece in (*pieces, own) for token in piece.ids]
    expected = token_log_probs(memorized, ids)[-own.scored :].mean().item()
    assert conditional_means(memorized, [[own], [own]], [pieces, []]) == [pytest.approx(expected, rel=1e-4), None]
    memorized.model.config.max_position_embeddings, longest = len(own.ids) + 5, 2048
    try:
        (short,) = conditional_means(memorized, [[own]], [pieces])
    finally:
        memorized.model.config.max_position_embeddings = longest
    expected = token_log_probs(memorized, ids[-len(own.ids) - 5 :])[-own.scored :].mean().item()
    assert short == pytest.approx(expected, rel=1e-4)


def areas(language_model: Any, documents: Sequence[Record], reference: Any) -> dict[str, dict[str, Any]]:
    """Area and interval of each attack: the first twenty documents against the others."""
    sequences = document_sequences(documents, language_model.tokenizer, None)
    moments = document_moments(language_model, sequences)
    likelihoods, norms = log_likelihoods(reference, sequences), gradient_norms(language_model, sequences)
    in_front = documents_in_front([place < 20 for place in range(len(documents))], 0)
    pieces = [[piece for place in own for piece in sequences[place]] for own in in_front]
    conditionals = conditional_means(language_model, sequences, pieces)
    names = ("loss", "zlib", "min_k", "min_k_pp", "reference", "gradient_norm", "conditional_ratio")
    who = [Candidate(record, record.record_id, place < 20, "all") for place, record in enumerate(documents)]
    passages = [
        Passage(
            one.record.text,
            *(np.float64(part) for part in (seen.log_probs, seen.means, seen.variances)),
            reference=likelihood,
            gradient_norm=norm,
            conditional=conditional,
        )
        for one, seen, likelihood, norm, conditional in zip(
            who, moments, likelihoods, norms, conditionals, strict=True
        )
    ]
    scores = score_candidates(who, passages, {name: make_attack(name, {}) for name in names})
    table = summarize(scores, replicates=400, seed=0)
    return {row["attack"]: row for row in table[table["measure"] == "auc"].to_dict("records")}


def test_every_attack_tells_memorized_documents(memorized: Any, untrained: Any, documents: list[Record]) -> None:
    rows = areas(memorized, documents, untrained)
    assert rows["loss"]["value"] == 1.0
    assert all(row["value"] > 0.95 for row in rows.values()), rows
    assert {row["against_chance"] for row in rows.values()} == {"above"}


def test_nothing_can_be_told_from_an_untrained_model(untrained: Any, documents: list[Record]) -> None:
    """Half, within the interval, whatever the attack reads; a model has no likelihood ratio to itself."""
    rows = areas(untrained, documents, untrained)
    assert rows.pop("reference")["value"] == 0.5
    for name, row in rows.items():
        assert row["low"] <= 0.5 <= row["high"], name
        assert row["against_chance"] == "not told apart"


def test_memory_that_runs_out_is_an_error_of_ours(
    memorized: Any, documents: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(passes, "_gradient_norm", full)
    with pytest.raises(MedunlearnError, match="Memory runs out"):
        gradient_norms(memorized, document_sequences(documents[:1], memorized.tokenizer, None))
