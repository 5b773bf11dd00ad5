"""Each family of models goes on from shared text in the cheapest way that gives its own answers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from medunlearn.generation.decode import decode
from medunlearn.generation.sharing import way_of
from medunlearn.models.load import LanguageModel
from medunlearn.seeds import generator

WORDS, MOST = 48, 6
COMMON: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
    "bos_token_id": 0,
    "eos_token_id": None,
    "pad_token_id": 2,
}
MIXED = ["sliding_attention", "full_attention"]
SLIDING: dict[str, Any] = {"sliding_window": 40, "layer_types": MIXED}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("once", {}),
    "Qwen2": ("once", {"use_sliding_window": True, **SLIDING}),
    "Qwen3": ("once", {"head_dim": 8}),
    "Mistral": ("once", {"sliding_window": 40}),
    "Mixtral": ("once", EXPERTS),
    "Gemma": ("once", {"head_dim": 8}),
    "Gemma2": ("once", {"head_dim": 8, **SLIDING, "attn_logit_softcapping": 0.5}),
    "Gemma3": ("once", {"head_dim": 8, **SLIDING}),
    "Olmo": ("once", {}),
    "Olmo2": ("once", {}),
    "Phi": ("once", {}),
    "Phi3": ("once", {}),
    "GPT2": ("once", {}),
    # Its attention has sinks, which are not done here; its cache can be repeated.
    "GptOss": ("repeated", {"head_dim": 8, **SLIDING, **EXPERTS}),
    # It attends without transformers' table of attention functions.
    "Bloom": ("repeated", {}),
}


@pytest.fixture(params=FAMILIES)
def named(request: Any) -> tuple[str, LanguageModel]:
    name = request.param
    config = getattr(transformers, f"{'Gemma3Text' if name == 'Gemma3' else name}Config")
    head = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    left_out = ("num_key_value_heads", "intermediate_size") if name in ("GPT2", "Bloom") else ()
    sizes = {key: value for key, value in COMMON.items() if key not in left_out}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = getattr(transformers, head)(config(**{**sizes, **FAMILIES[name][1]})).eval()
        for name_of, tensor in model.named_parameters():
            centre = 1.0 if tensor.dim() == 1 and not name_of.endswith(("bias", "sinks")) else 0.0
            torch.nn.init.normal_(tensor, centre, 0.4)
    model.generation_config.eos_token_id = None
    return name, LanguageModel(model, type("Ends", (), {"eos_token_id": -1, "pad_token_id": 2}), name)


def test_shared_is_transformers_own(named: tuple[str, LanguageModel]) -> None:
    name, language_model = named
    model = language_model.model
    draw, prompts = generator("families of models"), []
    for length in (11, 7):
        head = draw.integers(3, WORDS, length).tolist()
        prompts += [(head + draw.integers(3, WORDS, own).tolist(), length) for own in (3, 1, 5)]
    usual = model.config._attn_implementation
    assert way_of(model) == FAMILIES[name][0]
    batches = decode(
        language_model, [p for p, _ in prompts], shared=[count for _, count in prompts], max_new_tokens=MOST
    )
    ours = dict(pair for batch in batches for pair in batch)
    assert model.config._attn_implementation == usual
    answers = set()
    for place, (prompt, _) in enumerate(prompts):
        ids = torch.tensor([prompt])
        theirs = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=MOST, pad_token_id=2
        )
        assert list(ours[place].tokens) == theirs[0, len(prompt) :].tolist()
        answers.add(ours[place].tokens)
    assert len(answers) > 2
    begun = [ours[place].tokens[: place % MOST] for place in range(len(prompts))]
    batches = decode(
        language_model,
        [p for p, _ in prompts],
        shared=[count for _, count in prompts],
        begun=begun,
        max_new_tokens=MOST,
    )
    assert dict(pair for batch in batches for pair in batch) == ours
