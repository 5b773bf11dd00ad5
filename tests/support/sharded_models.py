"""Models on disk that two processes load in shares and save, compared with loading and saving them whole."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, MixtralConfig

from medunlearn.models.decoder import decoder_layers
from medunlearn.models.delta import save_delta
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.low_rank import low_rank_of
from medunlearn.models.stored_layers import StoredLayers
from medunlearn.models.tiny import build_tiny
from medunlearn.training.processes import Processes
from medunlearn.training.saving import save
from medunlearn.training.sharded_saving import save_sharded
from medunlearn.training.sharding import shard, whole
from medunlearn.training.trainable import choose_trainable, trained

# Name -> the folder that is loaded, what is trained of it, the type of its weights, and how it is saved.
MODELS: dict[str, tuple[str, str, Any, str]] = {
    "full": ("full", "all", "fp32", "full"),
    "tied": ("tied", "layers:1", "bf16", "delta"),
    "merged": ("adapter", "lora:2", "fp32", "full"),
    "adapted": ("delta", "lora:2", "fp32", "adapter"),
    "experts": ("experts", "all", "fp32", "full"),
}


def make_models(out: Path) -> None:
    """Folders to load: full ones, a delta of a whole layer and the embedding, and an adapter on the delta."""
    tiny = build_tiny(["a few words"], vocabulary=300, width=36, layers=3, heads=2)
    tiny.save(out / "full")
    vocabulary = len(tiny.tokenizer)
    tied = build_tiny(["a few words"], vocabulary=300, width=36, layers=4, heads=2)
    tied.model.config.tie_word_embeddings = True
    tied.model.tie_weights()
    tied.model.bfloat16()
    tied.save(out / "tied")
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_local_experts": 3}
    experts = AutoModelForCausalLM.from_config(MixtralConfig(vocab_size=vocabulary, **sizes, **heads))
    LanguageModel(experts, tiny.tokenizer, "experts").save(out / "experts")
    changed = load_model(out / "full", device="cpu")
    with torch.no_grad():
        for tensor in (
            *decoder_layers(changed.model)[1].parameters(),
            *changed.model.get_input_embeddings().parameters(),
        ):
            tensor.mul_(1.5)
    save_delta(changed.model, out / "full", out / "delta")
    adapted = moved(choose_trainable(load_model(out / "delta", device="cpu").model, "lora:2"))
    adapter = low_rank_of(adapted, out / "delta")
    assert adapter is not None
    adapter.save(out / "delta", out / "adapter")
    build_tiny(["a few words"], vocabulary=300, width=64, layers=8, heads=2).save(out / "large")


def moved(model: Any) -> Any:
    """The model after something like a step, the same in shares and whole."""
    with torch.no_grad():
        for tensor in trained(model).values():
            tensor.mul_(1.25).add_(0.01)
    return model


def load_and_save(out: Path, name: str, processes: Processes) -> dict[str, Any]:
    """Names of the tensors that differ from the whole model's, as loaded, and as saved after a step."""
    source, trainable, weights, form = MODELS[name]
    expected = load_model(out / source, device="cpu", weights=weights)
    expected.model = choose_trainable(expected.model, trainable, seed=3)
    ours = load_model(out / source, device="cpu", weights=weights, without_layers=True)
    stored = ours.layers is not None
    ours.model = choose_trainable(ours.model, trainable, seed=3)
    shard(ours, processes, "fp32")
    theirs = dict(expected.model.named_parameters()) | dict(expected.model.named_buffers())
    tensors = dict(ours.model.named_parameters()) | dict(ours.model.named_buffers())
    assert theirs.keys() == tensors.keys()
    loaded = [key for key in theirs if not torch.equal(whole(tensors[key]), theirs[key].detach())]
    moved(expected.model)
    moved(ours.model)
    how: dict[str, Any] = {"base": out / source, "stand": out / source if form == "adapter" else None}
    facts = save_sharded(ours, processes, out / f"{name}-sharded", **how)
    same_facts = processes.on_main(lambda: save(expected, out / f"{name}-whole", **how) == facts)
    files = processes.on_main(lambda: same_files(out / f"{name}-whole", out / f"{name}-sharded"))
    return {"stored": stored, "loaded": loaded, "facts": same_facts, "form": facts["form"], "files": files}


def same_files(first: Path, second: Path) -> list[str]:
    """Names of files that differ; of weights, those of tensors."""
    differing = sorted({path.name for path in first.iterdir()} ^ {path.name for path in second.iterdir()})
    for path in first.iterdir():
        if path.suffix != ".safetensors":
            differing += [path.name] if path.read_bytes() != (second / path.name).read_bytes() else []
            continue
        theirs, ours = load_file(path), load_file(second / path.name)
        differing += [key for key in theirs.keys() | ours.keys() if not torch.equal(theirs[key], ours[key])]
    return differing


READ = StoredLayers.read


def peaks_of_loading(out: Path, processes: Processes) -> dict[str, Any]:
    """The most bytes of tensors in this process while a model is loaded and tried, in its share and whole."""
    peaks: dict[str, Any] = {}
    # What is there by now is looked through no more.
    gc.collect()
    gc.freeze()
    for name, without_layers in (("share", True), ("whole", False)):
        gc.collect()
        before, sizes = tensor_bytes(), [0]

        def look(*_: Any, before: int = before, sizes: list[int] = sizes) -> None:
            sizes.append(tensor_bytes() - before)

        loaded = load_model(out / "large", device="cpu", without_layers=without_layers)
        look()
        assert (loaded.layers is not None) == without_layers
        layers = decoder_layers(loaded.model)
        for layer in (layers[0], layers[-1]):
            layer.mlp.register_forward_hook(look)
        with pytest.MonkeyPatch.context() as patch:

            def read_and_look(stored: StoredLayers, name: str, start: int, stop: int) -> Any:
                rows = READ(stored, name, start, stop)
                if name.endswith("down_proj.weight"):
                    look()
                return rows

            patch.setattr(StoredLayers, "read", read_and_look)
            shard(loaded, processes, "fp32")
        layer_bytes = [sum(tensor.numel() * 4 for tensor in layer.parameters()) for layer in layers]
        rest = sum(tensor.numel() * 4 for tensor in loaded.model.parameters()) - sum(layer_bytes)
        peaks |= {name: max(sizes), "layers": sum(layer_bytes), "layer": layer_bytes[0], "rest": rest}
        del loaded, layers
    return peaks


def tensor_bytes() -> int:
    """Bytes of all tensors in memory, each storage once."""
    storages = {}
    for item in gc.get_objects():
        if issubclass(type(item), torch.Tensor) and not hasattr(item, "_local_tensor") and not item.is_meta:
            storage = item.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())
