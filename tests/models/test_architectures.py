"""Other families than Llama: batches, hidden states, trainable layers and decoding hold for them too.

Windows of attention are shorter than the prompts, so that a family's sliding layers do slide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from rounding import relative_bound
from transformers import AttentionInterface

from medunlearn.generation.decode import decode
from medunlearn.generation.sharing import way_of
from medunlearn.models import branches
from medunlearn.models.batches import collate
from medunlearn.models.decoder import LayoutSupport
from medunlearn.models.layouts import attention_window, batch_counts, decoder_of, describe_layouts, make_batch
from medunlearn.models.load import LanguageModel
from medunlearn.models.reference import Reference
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import generator
from medunlearn.training.trainable import choose_trainable, trained

CPU = torch.device("cpu")
WORDS, WINDOW, MOST = 48, 8, 10
BOUND = relative_bound(torch.float32)
BEST = LayoutSupport(attention="branches", head=True, layers=True, mlp=True)
# Gemma 2 caps the products of its attention, which only transformers' plain attention does.
WAYS = {"Gemma2": replace(BEST, attention="masks", longest=WINDOW)}
COMMON: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
SLIDING = {"sliding_window": WINDOW}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Qwen2": {"use_sliding_window": True, **SLIDING, "layer_types": MIXED},
    "Qwen3": {"head_dim": 8},
    "Mistral": SLIDING,
    "Gemma2": {"head_dim": 8, **SLIDING, "layer_types": MIXED, "query_pre_attn_scalar": 8},
    "Gemma3": {"head_dim": 8, **SLIDING, "layer_types": MIXED, "query_pre_attn_scalar": 8},
    "Olmo2": {},
    "Phi3": SLIDING,
    "GPT2": {"n_inner": 24},
}
# Decoding has its own tests of families (tests/generation).
LEARNING: dict[str, dict[str, Any]] = {
    **FAMILIES,
    "Gemma": {"head_dim": 8},
    "Olmo": {},
    "Olmo3": {**SLIDING, "layer_types": MIXED},
    "Phi": {},
}
CHUNKED = {
    "Llama4": {
        "head_dim": 8,
        "intermediate_size_mlp": 24,
        "num_local_experts": 2,
        "attention_chunk_size": WINDOW,
        "layer_types": ["chunked_attention", "full_attention", "chunked_attention"],
    }
}


class Ends:
    """As much of a tokenizer as decoding asks for."""

    eos_token_id, pad_token_id = 1, 2


@pytest.fixture(scope="module", params=FAMILIES)
def language_model(request: Any) -> LanguageModel:
    return LanguageModel(build(request.param), Ends(), request.param)


@pytest.fixture(scope="module", params=LEARNING)
def learning(request: Any) -> LanguageModel:
    return LanguageModel(build(request.param), Ends(), request.param)


def build(name: str) -> Any:
    config = getattr(transformers, f"{name}{'Text' if name in ('Gemma3', 'Llama4') else ''}Config")
    head = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    settings = {key: value for key, value in COMMON.items() if name != "GPT2" or "key_value" not in key}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = getattr(transformers, head)(config(**{**settings, **{**LEARNING, **CHUNKED}[name]})).eval()
        for name_of, tensor in model.named_parameters():
            if tensor.dim() == 1:
                torch.nn.init.normal_(tensor, 0.0 if name_of.endswith("bias") else 0.5, 0.2)
    return model


@pytest.fixture(scope="module")
def sequences(make_sequences: Callable[..., Any]) -> Any:
    five = make_sequences(5, "family", WORDS)
    assert max(len(s.ids) for s in five) > WINDOW + 4
    return five


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def test_logits_in_a_batch_are_those_alone(learning: LanguageModel, sequences: Any) -> None:
    with torch.no_grad():
        together = decoder_of(learning.model).logits(collate(sequences, 2, CPU))
        alone = torch.cat(
            [learning.model(input_ids=torch.tensor([s.ids])).logits[0, s.scored_from - 1 : -1] for s in sequences]
        )
    assert together.std() > 0.1
    assert difference(together, alone) < BOUND


def test_hidden_states_in_a_batch_are_those_alone(learning: LanguageModel, sequences: Any) -> None:
    layer = 1
    with torch.no_grad():
        together = decoder_of(learning.model).hidden(collate(sequences, 2, CPU), layer)
        alone = []
        for s in sequences:
            ids = torch.tensor([s.ids])
            hidden = learning.model(input_ids=ids, output_hidden_states=True).hidden_states[layer + 1]
            alone.append(hidden[0, s.scored_from - 1 : -1])
    assert difference(together, torch.cat(alone)) < BOUND


def endless(model: Any, prompt: Any) -> list[int]:
    """Tokens of transformers' own greedy decoding when nothing ends it."""
    ids = torch.tensor([prompt])
    model.generation_config.eos_token_id = None
    tokens = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=MOST, pad_token_id=2
    )
    tokens: list[int] = tokens[0, len(prompt) :].tolist()
    assert len(tokens) == MOST
    return tokens


def test_decoding_is_transformers_own(language_model: LanguageModel, sequences: Any) -> None:
    prompts = [s.prompt for s in sequences] + [s.ids for s in sequences[:2]]
    theirs = [endless(language_model.model, prompt) for prompt in prompts]
    # The token that comes first at the most different places is made EOS, so that answers differ in length.
    end = max(range(WORDS), key=lambda token: len({tokens.index(token) for tokens in theirs if token in tokens}))
    language_model.tokenizer.eos_token_id = end
    lengths = set()
    for batch in decode(language_model, prompts, max_new_tokens=MOST):
        for place, ours in batch:
            tokens = theirs[place]
            assert ours.finished == (end in tokens)
            assert list(ours.tokens) == (tokens[: tokens.index(end)] if end in tokens else tokens), place
            lengths.add((len(ours.tokens), ours.finished))
    assert len(lengths) > 1


@pytest.mark.parametrize("language_model", ["Qwen2", "Gemma2", "Phi3"], indirect=True)
@pytest.mark.parametrize(("head", "most"), [(3, 2), (12, MOST)])
def test_decoding_from_a_shared_cache_is_decoding_alone(
    language_model: LanguageModel, head: int, most: int
) -> None:
    """Within a sliding window from the shared cache; past it the plain way."""
    shared = [s for s in family(3, 3, head, head + 3) if s.shared]
    prompts, model = [s.ids for s in shared], language_model.model
    theirs = [endless(model, prompt)[:most] for prompt in prompts]
    language_model.tokenizer.eos_token_id = -1
    rows: list[int] = []
    assert way_of(model) != "whole"
    handle = model.register_forward_pre_hook(
        lambda module, arguments, named: rows.append(len(named["input_ids"])), with_kwargs=True
    )
    batches = decode(language_model, prompts, shared=[head] * len(prompts), max_new_tokens=most)
    ours = dict(pair for batch in batches for pair in batch)
    handle.remove()
    assert [list(ours[place].tokens) for place in range(len(prompts))] == theirs
    assert rows[0] == (3 if head + 3 + most <= attention_window(model) else len(prompts))


def test_a_layer_can_be_chosen_and_its_reference_kept(learning: LanguageModel, sequences: Any) -> None:
    model, batch = learning.model, collate(sequences, 2, CPU)
    layer_tensors = trained(choose_trainable(model, "layers:1"))
    every = dict(model.named_parameters())
    assert 0 < len(layer_tensors) < len(every) / 2
    assert sum(".1." in name for name in every) == len(layer_tensors)
    with torch.no_grad():
        before, reference = decoder_of(model).logits(batch), Reference(model)
        saved = {name: tensor.clone() for name, tensor in layer_tensors.items()}
        for tensor in layer_tensors.values():
            tensor.mul_(1.5)
        assert difference(decoder_of(model).logits(batch), before) > 1e-2
        with reference.active():
            assert torch.equal(decoder_of(model).logits(batch), before)
        for name, tensor in layer_tensors.items():
            tensor.copy_(saved[name])


def family(notes: int, questions: int, shared: int, longest: int) -> list[TokenSequence]:
    """Notes with several questions each, and as many single sequences; none longer than ``longest`` tokens."""
    draw = generator("packed", notes, questions, shared)
    members = []
    for note in range(notes):
        head = draw.integers(3, WORDS, shared).tolist()
        for question in range(questions):
            own = draw.integers(3, WORDS, int(draw.integers(2, longest - shared + 1))).tolist()
            # One question of each note is answered right behind the shared tokens.
            members.append(TokenSequence(f"{note}-{question}", (*head, *own), shared, shared + (question > 0)))
        single = draw.integers(3, WORDS, int(draw.integers(2, longest + 1))).tolist()
        members.append(TokenSequence(f"{note}", tuple(single), 0, 1))
    return members


@pytest.mark.parametrize(("shared", "longest"), [(4, WINDOW), (6, 2 * WINDOW), (WINDOW + 4, 3 * WINDOW)])
def test_packed_is_separate(learning: LanguageModel, shared: int, longest: int) -> None:
    """Within a sliding window; past it with the end of a branch; past it with shared text."""
    model, source = learning.model, learning.source
    sequences = family(3, 3, shared, longest)
    assert decoder_of(model).support == WAYS.get(source, BEST)
    packed, padded = make_batch(model, sequences, 2, CPU), collate(sequences, 2, CPU)
    if source in WAYS and longest > WINDOW:
        assert packed.position_ids is None
        return
    assert packed.position_ids is not None
    assert packed.input_ids.numel() < padded.input_ids.numel()
    assert packed.sequences == padded.sequences
    assert torch.equal(packed.targets, padded.targets)
    gradients = []
    for batch in (packed, padded):
        model.zero_grad(set_to_none=True)
        logits = decoder_of(model).logits(batch)
        hidden = decoder_of(model).hidden(batch, 1)
        (logits.log_softmax(1).gather(1, batch.targets[:, None]).sum() + hidden.square().sum()).backward()
        gradients.append(
            (logits.detach(), hidden.detach(), *(t.grad for t in model.parameters() if t.grad is not None))
        )
    model.zero_grad(set_to_none=True)
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours - theirs).norm() <= BOUND * theirs.norm()


@pytest.mark.parametrize("name", ["Gemma2", "Gemma3", "Llama4"])
def test_batches_padded_for_their_length_are_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemma 2 takes a mask alone, Gemma 3 is made not to hand its window over, Llama 4 attends in chunks."""
    model = build(name)
    if name == "Gemma3":

        def mute(*inputs: Any, sliding_window: Any, **more: Any) -> Any:
            return branches.attend(*inputs, **more)

        monkeypatch.setitem(AttentionInterface._global_mapping, branches.NAME, mute)
    assert decoder_of(model).support.longest == WINDOW
    assert describe_layouts(model).startswith("packed")
    assert "padded" not in describe_layouts(model)
    short, long = family(3, 3, 4, WINDOW), family(2, 3, 6, 2 * WINDOW)
    assert max(len(sequence.ids) for sequence in long) > WINDOW
    batches = [make_batch(model, sequences, 2, CPU) for sequences in (short, long, short)]
    assert [batch.position_ids is None for batch in batches] == [False, True, False]
    assert "; padded 1 of 3 batches: longer than the window of 8 tokens" in describe_layouts(model)
    assert "padded" not in describe_layouts(model, batch_counts(model))
