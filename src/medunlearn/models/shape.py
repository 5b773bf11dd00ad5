"""Shape of a decoder from ``config.json`` and the headers of its weights, without loading a model.

Parameter counts are arithmetic by family, and those of the weight files where they are there.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from medunlearn.data.storage import read_json
from medunlearn.errors import InputError, ModelError
from medunlearn.models.folders import adapter_base, chain, is_adapter, local_folder

DEFAULT_BILLIONS = 8.0
LETTERS_A_TOKEN = 4
STAND_INS: Mapping[float, tuple[int, int, int, int, int]] = {
    0.5: (24, 1024, 4096, 16, 16),
    1.0: (16, 2048, 8192, 32, 8),
    3.0: (28, 3072, 8192, 24, 8),
    8.0: (32, 4096, 14336, 32, 8),
    14.0: (40, 5120, 17408, 40, 8),
    32.0: (64, 5120, 25600, 64, 8),
    70.0: (80, 8192, 28672, 64, 8),
}
"""Billions of parameters -> layers, hidden, ffn, heads, kv_heads of common decoders of that size."""
_FIELDS = (
    (32, ("num_hidden_layers", "n_layer")),
    (4096, ("hidden_size", "n_embd")),
    (32, ("num_attention_heads", "n_head")),
    (32000, ("vocab_size",)),
)
"""Names in ``config.json``, after LLaMA's value, which a vision-language model's text part may leave out."""
_ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function")
_TOWER = re.compile(r"vision|visual|multi_modal_projector|connector|image_newline|merger")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out)\.")
_BUFFER = re.compile(r"inv_freq$|masked_bias$|(attn|attention)\.bias$")


class _FamilyShape(NamedTuple):
    """Differences of a model family from LLaMA.

    ``norms`` are those of a layer, each with a bias if ``biases``; ``positions`` rows are added to a learned
    position table.
    """

    gated: bool = True
    biases: bool = False
    qkv_bias: bool = False
    norms: int = 2
    head_norms: bool = False
    fused: bool = False
    tied: bool = False
    head_bias: bool = False
    positions: int | None = None
    activation: str = "silu"


_FAMILIES = {
    "gemma": _FamilyShape(tied=True, activation="gelu_pytorch_tanh"),
    "gemma2": _FamilyShape(tied=True, norms=4, activation="gelu_pytorch_tanh"),
    "gemma3_text": _FamilyShape(tied=True, norms=4, head_norms=True, activation="gelu_pytorch_tanh"),
    "gpt2": _FamilyShape(gated=False, biases=True, fused=True, tied=True, positions=0, activation="gelu_new"),
    "gpt_neox": _FamilyShape(gated=False, biases=True, fused=True, activation="gelu"),
    "opt": _FamilyShape(gated=False, biases=True, tied=True, positions=2, activation="relu"),
    "phi": _FamilyShape(gated=False, biases=True, norms=1, head_bias=True, activation="gelu_new"),
    "qwen2": _FamilyShape(qkv_bias=True),
    "qwen2_vl_text": _FamilyShape(qkv_bias=True),
    "qwen2_5_vl_text": _FamilyShape(qkv_bias=True),
    "qwen3": _FamilyShape(head_norms=True),
    "smollm3": _FamilyShape(tied=True),
}


@dataclass(frozen=True)
class Tower:
    """Image tower with its projector.

    Attributes:
        patches: patches behind one picture token.
        tokens: picture tokens of an image of the configured size; 0 if they depend on the image.
        side: width in pixels of a picture token.
    """

    parameters: int
    layers: int
    hidden: int
    patches: int
    tokens: int
    side: int


@dataclass(frozen=True)
class Shape:
    """Shape of a decoder.

    Attributes:
        activation: name of the MLP's activation function.
        layer_norm: norms subtract the mean.
        fused: query, key and value are one product.
        dropout, attention_dropout: dropout in training, of layer outputs and of attention weights.
        layer_vectors: parameters of the norms and biases of a layer.
        outside: parameters outside the layers, the embedding and the head.
        experts: MLPs per layer, of which each token passes ``experts_used``.
        doubt: reason why the numbers are estimates; empty if they are exact.
    """

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool = True
    gated: bool = True
    activation: str = "silu"
    layer_norm: bool = False
    fused: bool = False
    dropout: bool = False
    attention_dropout: bool = False
    layer_vectors: int = 0
    outside: int = 0
    experts: int = 1
    experts_used: int = 1
    tower: Tower | None = None
    doubt: str = field(default="", compare=False)

    @property
    def attention(self) -> int:
        """Width of all heads."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of all key heads."""
        return self.kv_heads * self.head_dim

    @property
    def attention_matrices(self) -> int:
        """Parameters of a layer's attention projections."""
        return 2 * self.hidden * (self.attention + self.keys)

    @property
    def mlp_matrices(self) -> int:
        """Parameters of one MLP."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def layer_parameters(self) -> int:
        router = self.hidden * self.experts if self.experts > 1 else 0
        return self.attention_matrices + self.experts * self.mlp_matrices + router + self.layer_vectors

    @property
    def embedding(self) -> int:
        """Parameters of the embedding, and of the head."""
        return self.vocabulary * self.hidden

    @property
    def text_parameters(self) -> int:
        """Parameters of the language model."""
        return self.layers * self.layer_parameters + self.embedding * (1 if self.tied else 2) + self.outside

    @property
    def parameters(self) -> int:
        """Parameters, with those of the image tower."""
        return self.text_parameters + (self.tower.parameters if self.tower else 0)


def shape_of(source: str | Path | Mapping[str, Any]) -> Shape:
    """The shape of a run, model folder or hub id, or of the content of a ``config.json``.

    A hub id that is not on this machine has the shape of a stand-in.

    Raises:
        ModelError: no model in the folder, or neither a folder nor a hub id.
    """
    if isinstance(source, Mapping):
        return _shape(source)
    folder = local_folder(source)
    if folder is None:
        return stand_in(str(source))
    root = folder if is_adapter(folder) else Path(chain(folder, check=False)[0])
    if is_adapter(root):
        return shape_of(adapter_base(root))
    try:
        config = read_json(root / "config.json")
    except InputError as error:
        raise ModelError(f"Model {source} cannot be read: {error}") from error
    try:
        shape = _shape(config)
    except (TypeError, ValueError, AttributeError, KeyError, ZeroDivisionError) as error:
        raise ModelError(
            f"{root / 'config.json'} is no decoder's ({error}). Give a causal language model."
        ) from error
    stored = {} if config.get("quantization_config") else _stored(root)
    return _counted(shape, stored) if stored else shape


def stand_in(source: str) -> Shape:
    """A common decoder of the size in a model's name.

    Raises:
        ModelError: the name is not a hub id.
    """
    if not re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        raise ModelError(f"There is no model folder {source}. Give a folder, a hub id (org/name), or tiny.")
    size = re.search(r"(\d+(?:\.\d+)?)\s*[bB](?![a-zA-Z])", source)
    billions = float(size.group(1)) if size else DEFAULT_BILLIONS
    nearest = min(STAND_INS, key=lambda known: abs(known - billions) / known)
    layers, hidden, ffn, heads, kv_heads = STAND_INS[nearest]
    doubt = (
        f"{source} is not on this machine: taken as a usual decoder of {nearest:g} billion parameters, with "
        f"{LETTERS_A_TOKEN} letters to a token."
    )
    sizes = (layers, hidden, ffn, heads, kv_heads, hidden // heads, 128_256)
    return Shape(*sizes, tied=False, layer_vectors=2 * hidden, outside=hidden, doubt=doubt)


def tiny_shape(width: int, layers: int, vocabulary: int, *, pixels: int = 0, patch: int = 16) -> Shape:
    """The tiny model, for ``pixels`` the tiny vision-language model; a small benchmark's vocabulary is smaller."""
    sizes = (layers, width, width * 8 // 3, 4, 4, width // 4, vocabulary)
    shape = Shape(*sizes, layer_vectors=2 * width, outside=width)
    if not pixels:
        return shape
    vision = {"hidden_size": width // 2, "intermediate_size": width, "num_hidden_layers": 2, "image_size": pixels}
    return replace(shape, tower=_tower({"vision_config": {**vision, "patch_size": patch}}, width))


def _shape(config: Mapping[str, Any]) -> Shape:
    text: Mapping[str, Any] = config.get("text_config") or config
    family = _FAMILIES.get(str(text.get("model_type")), _FamilyShape())
    nested = text is not config
    layers, hidden, heads, vocabulary = (
        next((int(text[name]) for name in names if text.get(name)), usual if nested else 0)
        for usual, names in _FIELDS
    )
    if not (layers and hidden and heads and vocabulary):
        raise ValueError(f"layers, width, heads, vocabulary: {layers}, {hidden}, {heads}, {vocabulary}")
    ffn = text.get("intermediate_size") or text.get("ffn_dim") or text.get("n_inner")
    ffn = int(ffn or (11008 if nested else 4 * hidden))
    kv_heads = int(text.get("num_key_value_heads") or heads)
    head_dim = int(text.get("head_dim") or hidden // heads)
    bias = bool(family.biases or text.get("attention_bias"))
    norm = hidden * (2 if family.biases else 1)
    vectors = family.norms * norm + 2 * head_dim * family.head_norms
    vectors += (heads + 2 * kv_heads) * head_dim * (bias or family.qkv_bias)
    vectors += hidden * (bias and not family.qkv_bias)
    if family.biases or text.get("mlp_bias"):
        vectors += hidden + ffn * (2 if family.gated else 1)
    rows = int(text.get("n_positions") or text.get("max_position_embeddings") or 0) + (family.positions or 0)
    experts = int(text.get("num_local_experts") or text.get("num_experts") or 1)
    usual = 0.1 if family.positions is not None else 0.0
    return Shape(
        *(layers, hidden, ffn, heads, kv_heads, head_dim, vocabulary),
        tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", family.tied))),
        gated=family.gated,
        activation=next((str(text[name]) for name in _ACTIVATIONS if text.get(name)), family.activation),
        layer_norm=family.biases,
        fused=family.fused,
        dropout=bool(text.get("resid_pdrop", text.get("dropout", text.get("hidden_dropout", usual)))),
        attention_dropout=bool(text.get("attn_pdrop", text.get("attention_dropout", usual * family.fused))),
        layer_vectors=vectors,
        outside=norm + (family.positions is not None) * hidden * rows + vocabulary * family.head_bias,
        experts=experts,
        experts_used=int(text.get("num_experts_per_tok") or 1) if experts > 1 else 1,
        tower=_tower(config, hidden) if config.get("vision_config") else None,
    )


def _tower(config: Mapping[str, Any], text_hidden: int) -> Tower:
    """Tower of a configuration; parameters are those of CLIP with a projector of two layers (LLaVA)."""
    vision = config["vision_config"]
    hidden = int(vision.get("hidden_size") or vision.get("embed_dim") or 1024)
    ffn = int(vision.get("intermediate_size") or 4 * hidden)
    layers = int(vision.get("num_hidden_layers") or vision.get("depth") or 24)
    patch, pixels = int(vision.get("patch_size") or 14), int(vision.get("image_size") or 0)
    merged = int(vision.get("spatial_merge_size") or config.get("scale_factor") or 1)
    squares = (pixels // patch) ** 2
    layer = 4 * hidden * (hidden + 1) + 2 * hidden * ffn + ffn + 5 * hidden
    embedded = hidden * (3 * patch**2 + 1 + squares + 1) + 4 * hidden
    projector = (hidden + 1) * text_hidden + (text_hidden + 1) * text_hidden
    parameters = layers * layer + embedded + projector
    return Tower(parameters, layers, hidden, merged**2, squares // merged**2, patch * merged)


def _stored(folder: Path) -> dict[str, tuple[int, ...]]:
    """Tensor name -> shape, from the headers of a folder's safetensors files."""
    shapes: dict[str, tuple[int, ...]] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        try:
            with file.open("rb") as opened:
                (size,) = struct.unpack("<Q", opened.read(8))
                header = json.loads(opened.read(size))
            shapes |= {name: tuple(facts["shape"]) for name, facts in header.items() if name != "__metadata__"}
        except (OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError, struct.error) as error:
            raise ModelError(f"{file} is broken ({error}). Copy it again.") from error
    return shapes


def _counted(shape: Shape, stored: Mapping[str, tuple[int, ...]]) -> Shape:
    """The shape with the parameters that its weight files have."""
    text, tower = 0, 0
    for name, size in stored.items():
        if (shape.tied and _HEAD.search(name)) or (_BUFFER.search(name) and len(size) != 1):
            continue
        if shape.tower and _TOWER.search(name):
            tower += math.prod(size)
        else:
            text += math.prod(size)
    counted = replace(shape, outside=shape.outside + text - shape.text_parameters)
    return counted if shape.tower is None else replace(counted, tower=replace(shape.tower, parameters=tower))
