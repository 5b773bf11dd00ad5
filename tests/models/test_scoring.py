"""Teacher-forced scores against one sequence at a time with all logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from medunlearn.models.batches import collate
from medunlearn.models.layouts import decoder_of
from medunlearn.models.scoring import AnswerScore, score_answers, score_moments
from medunlearn.models.sequences import TokenSequence


def one_by_one(model: Any, sequences: list[TokenSequence]) -> list[AnswerScore]:
    scores = []
    for s in sequences:
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([s.ids])).logits[0]
        log_probs, hits, choices = [], [], []
        for place in range(s.scored_from, len(s.ids)):
            log_probs.append(float(logits[place - 1].double().log_softmax(0)[s.ids[place]]))
            choices.append(int(logits[place - 1].argmax()))
            hits.append(choices[-1] == s.ids[place])
        scores.append(AnswerScore(tuple(log_probs), tuple(hits), tuple(choices)))
    return scores


def confident(sequences: list[TokenSequence], model: Any) -> list[TokenSequence]:
    """The same prompts, every second one answered with the arg-max of each place, so that some tokens are hit."""
    changed = []
    for number, s in enumerate(sequences):
        ids = list(s.ids)
        if number % 2:
            for place in range(s.scored_from, len(ids) - 1):
                ids[place] = int(model(input_ids=torch.tensor([ids[:place]])).logits[0, -1].argmax())
        changed.append(TokenSequence(s.key, tuple(ids), s.shared, s.scored_from))
    return changed


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_scores_are_the_plain_ones_in_order(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any], batch_size: int
) -> None:
    language_model, counts = tiny(), list[int]()
    sequences = confident(make_sequences(9), language_model.model)
    scores = score_answers(language_model, sequences, batch_size=batch_size, advance=counts.append)
    plain = one_by_one(language_model.model, sequences)
    assert [(score.hits, score.choices) for score in scores] == [(score.hits, score.choices) for score in plain]
    assert {hit for score in scores for hit in score.hits} == {True, False}
    for ours, theirs in zip(scores, plain, strict=True):
        assert ours.log_probs == pytest.approx(theirs.log_probs, rel=1e-5, abs=1e-6)
    assert sum(counts) == 9
    assert len(counts) == -(-9 // batch_size)


def test_one_possible_token_is_certain(tiny: Callable[[], Any]) -> None:
    # Raise one row of the head: its token's probability goes to 1 and its log to 0, never above.
    language_model = tiny()
    with torch.no_grad():
        language_model.model.lm_head.weight[7] = 1e3 * language_model.model.lm_head.weight[7]
    both = [TokenSequence(f"s{n}", (20 + n, 7, 7), 0, 1) for n in range(30)]
    log_probs = [value for score in score_answers(language_model, both) for value in score.log_probs]
    assert max(log_probs) == pytest.approx(0, abs=1e-6)
    assert max(log_probs) <= 0


class TestCollate:
    def test_masks_come_from_lengths(self, make_sequences: Callable[..., Any]) -> None:
        # Prompts that hold the pad token (which is EOS here), as a chat history does.
        sequences = [TokenSequence("a", (5, 1, 1, 6, 1), 0, 3), TokenSequence("b", (1, 8, 1), 0, 1)]
        batch = collate(sequences, 1, torch.device("cpu"))
        assert batch.attention_mask.sum(1).tolist() == [5, 3]
        assert batch.attention_mask[1, :3].tolist() == [1, 1, 1]
        assert list(zip(batch.row.tolist(), batch.column.tolist(), batch.targets.tolist(), strict=True)) == [
            (0, 2, 6),
            (0, 3, 1),
            (1, 0, 8),
            (1, 1, 1),
        ]
        assert (batch.sequences, batch.size) == (tuple(sequences), 2)

    @pytest.mark.parametrize("pad", [0, 1, 150])
    def test_padding_is_not_seen(
        self, tiny: Callable[[], Any], make_sequences: Callable[..., Any], pad: int
    ) -> None:
        model, sequences = tiny().model.eval(), make_sequences(4)
        with torch.inference_mode():
            usual = decoder_of(model).logits(collate(sequences, 2, torch.device("cpu")))
            assert torch.equal(decoder_of(model).logits(collate(sequences, pad, torch.device("cpu"))), usual)


@pytest.mark.parametrize("batch_size", [1, 4, 32])
def test_moments_are_the_plain_ones_in_order(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any], batch_size: int
) -> None:
    language_model, sequences = tiny(), make_sequences(9)
    moments = score_moments(language_model, sequences, batch_size=batch_size)
    for s, ours in zip(sequences, moments, strict=True):
        with torch.inference_mode():
            logs = language_model.model(input_ids=torch.tensor([s.ids])).logits[0].double().log_softmax(1)
        logs = logs[s.scored_from - 1 : -1]
        means = (logs.exp() * logs).sum(1)
        variances = (logs.exp() * logs.square()).sum(1) - means.square()
        assert ours.log_probs == pytest.approx(logs[range(s.scored), s.ids[s.scored_from :]].numpy(), rel=1e-4)
        assert ours.means == pytest.approx(means.numpy(), rel=1e-4)
        assert ours.variances == pytest.approx(variances.numpy(), rel=1e-3)


def test_moments_of_a_model_whose_head_is_not_all(
    tiny: Callable[[], Any], make_sequences: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.models import layouts, scoring
    from medunlearn.models.decoder import Decoder, LayoutSupport

    sequences = make_sequences(4)
    expected = score_moments(tiny(), sequences)
    monkeypatch.setattr(layouts, "decoder_of", lambda model: Decoder(model, LayoutSupport()))
    monkeypatch.setattr(scoring, "decoder_of", lambda model: Decoder(model, LayoutSupport()))
    for ours, other in zip(score_moments(tiny(), sequences), expected, strict=True):
        assert ours.log_probs == pytest.approx(other.log_probs, rel=1e-4)
        assert ours.variances == pytest.approx(other.variances, rel=1e-3)
