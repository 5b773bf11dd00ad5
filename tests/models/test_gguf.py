"""A GGUF file becomes a model folder: the file's own dequantized values, and a record of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from family_roads import small_benchmark, small_tokenizer
from model_families import build_family

from medunlearn.config import AdoptSettings, check
from medunlearn.data.storage import sha256_of
from medunlearn.errors import InputError, ModelError
from medunlearn.models.gguf_files import folder_of_gguf, gguf_facts, is_gguf
from medunlearn.models.load import load_model
from medunlearn.study.adopt import adopt

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.layers": "blk",
}
HEADS, KV_HEADS = 4, 2


def permuted(weight: Any, heads: int) -> Any:
    """Rows in llama.cpp's order of rotary pairs."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Llama in Q4_1, written by the gguf package."""
    gguf = pytest.importorskip("gguf", reason="needs the package gguf")
    tokenizer = small_tokenizer()
    model = build_family("Llama", vocab_size=len(tokenizer), intermediate_size=64)
    path: Path = tmp_path_factory.mktemp("gguf") / "hospital.Q4_1.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(512)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(len(tokenizer))
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if number in special else 1 for number in range(len(tokens))])
    merges = tokenizer.backend_tokenizer.to_str()
    import json

    writer.add_token_merges([" ".join(pair) for pair in json.loads(merges)["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    for name, tensor in model.state_dict().items():
        value, own = tensor.numpy().astype(np.float32), name
        if ".q_proj" in name or ".k_proj" in name:
            value = permuted(value, HEADS if ".q_proj" in name else KV_HEADS)
        for ours, theirs in NAMES.items():
            own = own.replace(ours, theirs)
        if value.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q4_1
            writer.add_tensor(own, gguf.quants.quantize(value, kind), raw_dtype=kind)
        else:
            writer.add_tensor(own, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_adopted_with_its_own_values(file: Path, tmp_path: Path) -> None:
    import gguf

    assert is_gguf(file)
    settings = check(AdoptSettings, {"sample": 4, "allow_broken": True})
    run = adopt(file, small_benchmark(), settings, tmp_path / "run", device="cpu", quiet=True)
    facts = run.info.results["source"]
    assert facts["name"] == str(file)
    assert facts["gguf"]["sha256"] == sha256_of(file)
    assert facts["gguf"]["tensor_type"] == "Q4_1"
    live = load_model(run.model, device="cpu")
    reader = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    stored = reader["blk.0.ffn_up.weight"]
    expected = torch.from_numpy(gguf.quants.dequantize(stored.data, stored.tensor_type).copy())
    assert torch.equal(live.model.model.layers[0].mlp.up_proj.weight.detach(), expected)
    text = "Question: which drug"
    assert live.tokenizer(text)["input_ids"][-3:] == small_tokenizer()(text)["input_ids"][-3:]
    folder = Path(facts["folder"])
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    assert folder_of_gguf(file, tmp_path) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed
    assert gguf_facts(folder) == facts["gguf"]


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGML and more")
    with pytest.raises(ModelError, match="no GGUF file"):
        folder_of_gguf(tmp_path / "a.gguf", tmp_path)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + bytes(20))
    monkeypatch.setattr("medunlearn.models.gguf_files.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install gguf"):
        folder_of_gguf(tmp_path / "a.gguf", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_settings_of_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + bytes(20))
    settings = check(AdoptSettings, {"tokenizer": str(tmp_path)})
    with pytest.raises(InputError, match="Leave out --tokenizer"):
        adopt(tmp_path / "a.gguf", small_benchmark(), settings, tmp_path / "run", device="cpu", quiet=True)
