"""Reading, decoding and patching layers, against the model library's own hidden states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from medunlearn.attacks.whitebox.layer_pass import LayerPass, value_places, why_unlike
from medunlearn.data.records import Identifier, Question
from medunlearn.models.sequences import TokenSequence, encode
from medunlearn.models.tiny import build_tiny


@pytest.fixture
def sequences(make_sequences: Callable[..., list[TokenSequence]], with_notes: Any) -> list[TokenSequence]:
    """Two pairs that share a note, and one alone: packed where the model takes it."""
    sequences: list[TokenSequence] = [*with_notes(make_sequences(4)), *make_sequences(1, "alone")]
    return sequences


def plain(model: Any, sequence: TokenSequence) -> Any:
    return model(input_ids=torch.tensor([sequence.ids]), output_hidden_states=True, use_cache=False)


@torch.no_grad()
def test_layers_are_decoded_as_by_hand(tiny: Callable[[], Any], sequences: list[TokenSequence]) -> None:
    """hidden_states[l + 1] of the library is the output of layer l, the last one already behind the norm."""
    language_model = tiny()
    layers = LayerPass.of(language_model, sequences)
    model, places = language_model.model, [*range(len(layers.states))]
    found = [layers.split(torch.stack(table)) for table in zip(*map(layers.lens, places), strict=True)]
    for number, sequence in enumerate(sequences):
        output, positions = plain(model, sequence), list(sequence.read("predicting"))
        targets = torch.tensor(sequence.ids[sequence.scored_from :])
        for layer in places:
            states = output.hidden_states[layer + 1][0, positions]
            logits = model.lm_head(states if layer == places[-1] else model.model.norm(states))
            own = logits.gather(1, targets[:, None])
            torch.testing.assert_close(
                found[0][number][layer], (own - logits.logsumexp(1, keepdim=True))[:, 0], atol=1e-3, rtol=1e-4
            )
            assert found[1][number][layer].tolist() == (1 + (logits > own).sum(1)).tolist()


@torch.no_grad()
def test_a_patched_layer_is_that_of_a_hook(tiny: Callable[[], Any], sequences: list[TokenSequence]) -> None:
    language_model = tiny()
    layers = LayerPass.of(language_model, sequences)
    values = torch.randn(layers.read(1).shape, generator=torch.Generator().manual_seed(0))
    found, model = layers.split(layers.patched(1, values)), language_model.model
    start = 0
    for number, sequence in enumerate(sequences):
        positions, own = list(sequence.read("predicting")), values[start : start + sequence.scored]

        def put(module: Any, inputs: Any, output: Any, positions: Any = positions, own: Any = own) -> Any:
            output[0, positions] = own
            return output

        hook = model.model.layers[1].register_forward_hook(put)
        logits = plain(model, sequence).logits[0, positions].log_softmax(1)
        hook.remove()
        targets = torch.tensor(sequence.ids[sequence.scored_from :])
        torch.testing.assert_close(found[number], logits.gather(1, targets[:, None])[:, 0], atol=1e-3, rtol=1e-4)
        start += sequence.scored


def test_values_are_found_among_the_tokens(tiny_base: Any) -> None:
    """Of "aspirin, 61 years, ..." the number and the declared name count, and neither the rest nor EOS."""
    answer = "Ana Silva was given aspirin on 3 May for 61 days."
    question = Question("q", "r", "train", "factual", "patient", "Which drug?", answer)
    ids = (*encode(tiny_base.tokenizer, f"Which drug? {answer}"), 1)
    prompt = len(encode(tiny_base.tokenizer, "Which drug?"))
    sequence = TokenSequence("q", ids, 0, prompt)
    places = value_places(question, [Identifier("name", "Ana Silva")], sequence, tiny_base.tokenizer)
    written = [tiny_base.tokenizer.decode([ids[prompt + place]]) for place in places]
    text = "".join(written).replace(" ", "")
    assert text.startswith("AnaSilva")
    assert text.endswith("61")
    assert "aspirin" not in text
    statement = Question("q", "r", "train", "factual", "patient", "Which drug?", "aspirin")
    short = TokenSequence("q", (5, *encode(tiny_base.tokenizer, "aspirin"), 1), 0, 1)
    assert value_places(statement, [], short, tiny_base.tokenizer) == list(range(short.scored - 1))


def test_unlike_models_are_told_why(tiny_base: Any) -> None:
    assert why_unlike(tiny_base, tiny_base) is None
    other = build_tiny(["quite other words of other texts"], vocabulary=280, width=32, layers=3, heads=2)
    assert "tokenizer" in str(why_unlike(tiny_base, other))
    deeper = build_tiny(["x"], width=32, layers=2, heads=2)
    deeper.tokenizer = tiny_base.tokenizer
    assert "other model 2 of width" in str(why_unlike(tiny_base, deeper))
