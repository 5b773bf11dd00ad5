"""Decoding goes on in the cheapest way that gives a model's own answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from model_families import build_family

from medunlearn.generation.decode import decode
from medunlearn.generation.sharing import decoding_of
from medunlearn.models.load import LanguageModel
from medunlearn.models.rope import make_independent_of_batches, rope_limit

PROMPTS = [(5, 60, 7, 80), (9, 3), (4, 8, 15, 16, 23, 42)]
MOST = 6
TOKENIZER = SimpleNamespace(eos_token_id=-1, pad_token_id=2)


def answers(model: Any, prompts: Any = PROMPTS) -> list[list[int]]:
    batches = decode(LanguageModel(model, TOKENIZER, "it"), prompts, max_new_tokens=MOST)
    rows = {place: list(answer.tokens) for batch in batches for place, answer in batch}
    return [rows[place] for place in range(len(prompts))]


def whole(model: Any, prompt: Any) -> list[int]:
    ids = list(prompt)
    for _ in range(MOST):
        with torch.inference_mode():
            ids.append(int(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(prompt) :]


class Deaf(torch.nn.Module):
    """A model that takes a cache and reads nothing of it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config, self.generation_config = model, model.config, model.generation_config

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def forward(self, input_ids: Any, past_key_values: Any = None, use_cache: bool = False, **more: Any) -> Any:
        if past_key_values is not None and more["attention_mask"].shape[1] > input_ids.shape[1]:
            more.pop("attention_mask"), more.pop("position_ids")
        return self.model(input_ids=input_ids, use_cache=False, **more)


def test_a_cache_that_is_not_read_is_not_used() -> None:
    model = build_family("Llama")
    assert decoding_of(model) == "cached"
    deaf = Deaf(build_family("Llama"))
    assert decoding_of(deaf) == "uncached"
    assert answers(deaf) == answers(model) == [whole(model, prompt) for prompt in PROMPTS]


def test_rows_that_see_padding_are_run_alone() -> None:
    model = build_family("Llama")

    class Blind(Deaf):
        def forward(self, input_ids: Any, **more: Any) -> Any:
            return self.model(input_ids=input_ids, use_cache=False, logits_to_keep=more.get("logits_to_keep", 0))

    blind = Blind(build_family("Llama"))
    assert decoding_of(blind) == "alone"
    assert answers(blind) == [whole(model, prompt) for prompt in PROMPTS]


@pytest.mark.parametrize("name", ["Mamba", "Mamba 2", "Bamba", "Falcon-H1", "Granite 4", "Qwen3-Next"])
def test_hybrids_decode_with_their_cache(name: str) -> None:
    """Mamba's own step with a cache takes padding for tokens, so its rows are run whole."""
    model = build_family(name)
    assert decoding_of(model) == ("uncached" if name == "Mamba" else "cached")
    assert answers(model) == [whole(model, prompt) for prompt in PROMPTS]


@pytest.mark.parametrize("name", ["Phi-3, longrope", "Llama, dynamic NTK"])
def test_answers_that_cross_a_change_of_frequencies(name: str) -> None:
    model = build_family(name)
    make_independent_of_batches(model)
    limit = int(rope_limit(model))
    prompts = [tuple(range(3, 3 + length)) for length in (limit - MOST - 1, limit - 2, limit + 3, 4)]
    assert answers(model, prompts) == [whole(model, prompt) for prompt in prompts]
