"""Tiny random models of many families, from their configurations; no file and no hub."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

WORDS, WINDOW, LAYERS = 96, 8, 3
COMMON: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
HYBRID = ["linear_attention", "full_attention", "linear_attention"]
SLIDING = {"sliding_window": WINDOW}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
QWEN_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}
MAMBA = {
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_expand": 2,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 8,
    "mamba_n_groups": 1,
}


@dataclass(frozen=True)
class ModelFamily:
    """A family's classes and what its configuration needs besides :data:`COMMON`.

    Attributes:
        without: common settings that its configuration does not take.
    """

    config: str
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


def _plain(name: str, **settings: Any) -> ModelFamily:
    return ModelFamily(f"{name}Config", f"{name}ForCausalLM", settings)


OLD = ("num_key_value_heads", "intermediate_size")
FAMILIES: dict[str, ModelFamily] = {
    "Llama": _plain("Llama"),
    "Llama, tied": _plain("Llama", tie_word_embeddings=True),
    "Mistral": _plain("Mistral", **SLIDING),
    "Mixtral": _plain("Mixtral", **EXPERTS),
    "Qwen2": _plain("Qwen2", use_sliding_window=True, **SLIDING, layer_types=MIXED),
    "Qwen3": _plain("Qwen3", head_dim=8),
    "Qwen3-MoE": _plain("Qwen3Moe", head_dim=8, **QWEN_EXPERTS),
    "Qwen3-MoE, router logits": _plain("Qwen3Moe", head_dim=8, output_router_logits=True, **QWEN_EXPERTS),
    "Qwen3-Next": _plain(
        "Qwen3Next",
        head_dim=8,
        layer_types=HYBRID,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        shared_expert_intermediate_size=16,
        partial_rotary_factor=0.5,
        initializer_range=0.1,  # its states grow with larger weights, and rounding with them
        **QWEN_EXPERTS,
    ),
    "Gemma": _plain("Gemma", head_dim=8),
    "Gemma 2": _plain("Gemma2", head_dim=8, **SLIDING, layer_types=MIXED, query_pre_attn_scalar=8),
    "Gemma 3": ModelFamily(
        "Gemma3TextConfig",
        "Gemma3ForCausalLM",
        {"head_dim": 8, **SLIDING, "layer_types": MIXED, "query_pre_attn_scalar": 8},
    ),
    "Gemma 3, image tower": ModelFamily(
        "Gemma3Config",
        "Gemma3ForConditionalGeneration",
        {"head_dim": 8, **SLIDING, "layer_types": MIXED, "query_pre_attn_scalar": 8},
    ),
    "Olmo": _plain("Olmo"),
    "Olmo 2": _plain("Olmo2"),
    "Olmo 3": _plain("Olmo3", **SLIDING, layer_types=MIXED),
    "Phi": _plain("Phi"),
    "Phi-3": _plain("Phi3", **SLIDING),
    "Phi-3, longrope": _plain(
        "Phi3",
        original_max_position_embeddings=16,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [1.0, 2.0, 4.0, 8.0],
            "original_max_position_embeddings": 16,
        },
    ),
    "Llama, dynamic NTK": _plain(
        "Llama",
        max_position_embeddings=64,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
    ),
    "GPT-2": ModelFamily("GPT2Config", "GPT2LMHeadModel", {"n_inner": 48}, OLD),
    "GPT-NeoX": ModelFamily("GPTNeoXConfig", "GPTNeoXForCausalLM", {}, ("num_key_value_heads",)),
    "OPT": ModelFamily(
        "OPTConfig", "OPTForCausalLM", {"ffn_dim": 48, "word_embed_proj_dim": 32, "do_layer_norm_before": True}, OLD
    ),
    "Bloom": ModelFamily("BloomConfig", "BloomForCausalLM", {}, OLD),
    "GPT-OSS": _plain("GptOss", head_dim=8, **SLIDING, layer_types=MIXED, **EXPERTS),
    "Llama 4": ModelFamily(
        "Llama4TextConfig",
        "Llama4ForCausalLM",
        {
            "head_dim": 8,
            "intermediate_size_mlp": 48,
            "attention_chunk_size": WINDOW,
            "layer_types": ["chunked_attention", "full_attention", "chunked_attention"],
            **EXPERTS,
        },
    ),
    "DeepSeek-V3": _plain(
        "DeepseekV3",
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=12,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
    ),
    "Granite": _plain("Granite"),
    "Granite 4": ModelFamily(
        "GraniteMoeHybridConfig",
        "GraniteMoeHybridForCausalLM",
        {**MAMBA, "layer_types": ["mamba", "attention", "mamba"], "shared_intermediate_size": 24, **EXPERTS},
    ),
    "Bamba": _plain("Bamba", **MAMBA, attn_layer_indices=[1]),
    "Falcon-H1": ModelFamily("FalconH1Config", "FalconH1ForCausalLM", {**MAMBA, "mamba_d_ssm": 64}),
    "Mamba 2": ModelFamily(
        "Mamba2Config",
        "Mamba2ForCausalLM",
        {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 8, "expand": 2},
        (*OLD, "num_attention_heads", "max_position_embeddings"),
    ),
    "Mamba": ModelFamily(
        "MambaConfig",
        "MambaForCausalLM",
        {"state_size": 8},
        (*OLD, "num_attention_heads", "max_position_embeddings"),
    ),
    "SmolLM3": _plain("SmolLM3"),
    "Cohere": _plain("Cohere"),
    "StableLM": _plain("StableLm"),
}


TOWER = "Gemma 3, image tower"


def build_family(name: str, **settings: Any) -> Any:
    """A random model in evaluation mode; its norms and embeddings are random too, so that nothing cancels."""
    family = FAMILIES[name]
    common = {key: value for key, value in COMMON.items() if key not in family.without}
    values = {**common, **family.settings, **settings}
    config = _with_tower(values) if name == TOWER else getattr(transformers, family.config)(**values)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = getattr(transformers, family.model)(config).eval()
        for key, tensor in model.named_parameters():
            if tensor.dim() == 1 and not key.endswith(("A_log", "dt_bias", ".D", "sinks")):
                torch.nn.init.normal_(tensor, 0.0 if key.endswith("bias") else 0.8, 0.2)
    model.generation_config.eos_token_id = None
    return model


def _with_tower(text: dict[str, Any]) -> Any:
    """Configuration of a language model with an image tower in front of it."""
    vision = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    return transformers.Gemma3Config(
        text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=text["vocab_size"] - 1
    )
