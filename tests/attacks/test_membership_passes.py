"""One pass for all attacks against one document at a time with everything written out; and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from medunlearn.attacks import make_attack
from medunlearn.attacks.membership.passes import (
    document_moments,
    document_sequences,
    gradient_norms,
    log_likelihoods,
)
from medunlearn.attacks.membership.results import score_candidates, summarize
from medunlearn.attacks.membership.sample import Candidate
from medunlearn.attacks.protocol import Passage
from medunlearn.data.records import Record


def plain_log_probs(language_model: Any, text: str) -> torch.Tensor:
    """Log-probability of each token but the first, EOS last, from all logits; with its graph."""
    tokenizer = language_model.tokenizer
    ids = torch.tensor([[*tokenizer(text)["input_ids"], tokenizer.eos_token_id]])
    logits = language_model.model(input_ids=ids, use_cache=False).logits[0, :-1]
    return logits.log_softmax(1)[torch.arange(ids.shape[1] - 1), ids[0, 1:]]


@pytest.mark.parametrize("batch_size", [1, 7])
def test_tokens_are_those_of_single_documents(memorized: Any, documents: list[Record], batch_size: int) -> None:
    chosen = documents[15:25]
    found = document_moments(
        memorized, document_sequences(chosen, memorized.tokenizer, None), batch_size=batch_size
    )
    for record, tokens in zip(chosen, found, strict=True):
        expected = plain_log_probs(memorized, record.text).detach().numpy()
        np.testing.assert_allclose(tokens.log_probs, expected, rtol=1e-4, atol=1e-5)


def test_chunks_of_a_document_are_joined(memorized: Any, documents: list[Record]) -> None:
    """Cut at 20 tokens, every token but the first is still scored once, in its place."""
    done: list[int] = []
    whole = document_sequences(documents[:3], memorized.tokenizer, None)
    cut = document_sequences(documents[:3], memorized.tokenizer, 20)
    assert all(len(pieces) > 1 for pieces in cut)
    found = document_moments(memorized, cut, batch_size=2, advance=done.append)
    assert sum(done) == sum(map(len, cut))
    for tokens, pieces, one in zip(found, cut, whole, strict=True):
        assert len(tokens.log_probs) == len(tokens.variances) == one[0].scored
        first = document_moments(memorized, [pieces[:1]])[0]
        np.testing.assert_allclose(tokens.log_probs[:19], first.log_probs, rtol=1e-5)
    sums = log_likelihoods(memorized, cut, batch_size=2)
    np.testing.assert_allclose(sums, [tokens.log_probs.sum() for tokens in found], rtol=1e-5)


def test_gradient_norms_are_those_of_plain_backward_passes(untrained: Any, documents: list[Record]) -> None:
    chosen = documents[:3]
    untrained.model.requires_grad_(False)
    untrained.model.lm_head.weight.requires_grad_(True)
    flags = [tensor.requires_grad for tensor in untrained.model.parameters()]
    found = gradient_norms(untrained, document_sequences(chosen, untrained.tokenizer, None))
    assert [tensor.requires_grad for tensor in untrained.model.parameters()] == flags
    assert all(tensor.grad is None for tensor in untrained.model.parameters())
    untrained.model.requires_grad_(True)
    for record, norm in zip(chosen, found, strict=True):
        loss = -plain_log_probs(untrained, record.text).mean()
        gradients = torch.autograd.grad(loss, list(untrained.model.parameters()))
        expected = float(torch.sqrt(sum(gradient.square().sum() for gradient in gradients)))  # type: ignore[arg-type]
        assert norm == pytest.approx(expected, rel=1e-4)


def test_the_gradient_of_a_cut_document_is_that_of_all_its_tokens(untrained: Any, documents: list[Record]) -> None:
    (pieces,) = document_sequences(documents[:1], untrained.tokenizer, 20)
    total = sum(piece.scored for piece in pieces)
    loss = torch.tensor(0.0)
    for piece in pieces:
        logs = untrained.model(input_ids=torch.tensor([piece.ids]), use_cache=False).logits[0, :-1].log_softmax(1)
        loss = loss - logs[torch.arange(len(piece.ids) - 1), torch.tensor(piece.ids[1:])].sum() / total
    gradients = torch.autograd.grad(loss, list(untrained.model.parameters()))
    expected = float(torch.sqrt(sum(gradient.square().sum() for gradient in gradients)))  # type: ignore[arg-type]
    assert gradient_norms(untrained, [pieces])[0] == pytest.approx(expected, rel=1e-4)


def areas(language_model: Any, documents: Sequence[Record], reference: Any) -> dict[str, dict[str, float]]:
    """Area and interval of each attack: the first twenty documents against the others."""
    tokens = document_sequences(documents, language_model.tokenizer, None)
    moments = document_moments(language_model, tokens)
    likelihoods, norms = log_likelihoods(reference, tokens), gradient_norms(language_model, tokens)
    names = ("loss", "zlib", "min_k", "min_k_pp", "reference", "gradient_norm")
    attacks = {name: make_attack(name, {}) for name in names}
    who = [Candidate(record, record.record_id, place < 20, "all") for place, record in enumerate(documents)]
    passages = [
        Passage(
            one.record.text,
            *(np.float64(part) for part in (seen.log_probs, seen.means, seen.variances)),
            reference=likelihood,
            gradient_norm=norm,
        )
        for one, seen, likelihood, norm in zip(who, moments, likelihoods, norms, strict=True)
    ]
    table = summarize(score_candidates(who, passages, attacks), replicates=400, seed=0)
    return {row["attack"]: row for row in table[table["measure"] == "auc"].to_dict("records")}


def test_every_attack_tells_what_was_memorized(memorized: Any, untrained: Any, documents: list[Record]) -> None:
    found = areas(memorized, documents, untrained)
    assert found["loss"]["value"] == 1.0
    assert all(row["value"] > 0.95 for row in found.values()), found
    assert {row["against_chance"] for row in found.values()} == {"above"}


def test_nothing_can_be_told_from_an_untrained_model(untrained: Any, documents: list[Record]) -> None:
    """Weights that nothing was learned with: half, within the interval, whatever the attack reads."""
    found = areas(untrained, documents, untrained)
    for name in ("loss", "zlib", "min_k", "min_k_pp", "gradient_norm"):
        row = found[name]
        assert row["low"] <= 0.5 <= row["high"], name
        assert row["against_chance"] == "not told apart"
    assert found["reference"]["value"] == 0.5, "a model has no likelihood ratio to itself"


def test_documents_that_do_not_fit_are_said_to(
    memorized: Any, documents: list[Record], monkeypatch: pytest.MonkeyPatch, tiny: Callable[[], Any]
) -> None:
    from medunlearn.attacks.membership import passes
    from medunlearn.errors import MedunlearnError

    def full(*args: object) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(passes, "_gradient_norm", full)
    with pytest.raises(MedunlearnError, match="Memory runs out"):
        gradient_norms(memorized, document_sequences(documents[:1], memorized.tokenizer, None))
