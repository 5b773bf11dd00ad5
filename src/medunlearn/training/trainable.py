"""Trainable parameters: selection, LoRA adapters, checksums, noise initialisation, gradient checkpointing."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from medunlearn.errors import ConfigError, FrozenParametersError, first_few
from medunlearn.models.decoder import decoder_body, decoder_layers, parameters_above
from medunlearn.models.four_bit import is_four_bit
from medunlearn.models.vision.seeing import sight_of
from medunlearn.seeds import stable_seed
from medunlearn.training.processes import ALONE, Processes

_PIECE = 1 << 20
MOST_RANK = 8192
"""Rank of a LoRA adapter: above the width of a layer it is larger than what it adapts."""

BY_NAMES = ":names"
_NUMBER = "[0-9]{1,6}"
_LAYERS = rf"{_NUMBER}(-{_NUMBER})?"
FORMS = (
    "all, lora, lora:RANK, lora:RANK:ALPHA, lora:RANK:ALPHA:names, layers:7, layers:5-7, layers:0,3, through:7, "
    "or pattern:REGEX"
)


def choose_trainable(model: Any, choice: str, *, seed: int = 0, lora_dropout: float = 0.0) -> Any:
    """Freeze all parameters except the selected ones.

    Args:
        choice: ``all``; ``layers:7`` (also ``layers:5-7`` or ``layers:0,3``; 0 is the first decoder layer);
            ``through:7`` (everything up to layer 7, embeddings included); ``pattern:REGEX``
            searched in parameter names; ``lora``, ``lora:RANK``, ``lora:RANK:ALPHA`` (an adapter on every linear
            layer of the decoder; alpha is twice the rank by default); ``lora:RANK:ALPHA:names`` (also on vision
            tower layers with the same names, as PEFT does with a list of names). In a vision tower only ``all``,
            ``through``, ``pattern`` and ``names`` train something, and never layers that its features do not pass
            through.
        seed: seed of a LoRA adapter's initial weights.
        lora_dropout: dropout rate of a LoRA adapter's inputs.

    Returns:
        The model to train: the same object, or for LoRA a PEFT model around it.

    Raises:
        ConfigError: the choice has another form, or matches no parameter.
    """
    if choice == "lora" or choice.startswith("lora:"):
        return _with_lora(model, choice, seed, lora_dropout)
    matches, sight = _matcher(model, choice), sight_of(model)
    left_out = sight.left_out(whole=choice.startswith("layers:")) if sight else _unused_by_text(model)
    count = 0
    for name, tensor in model.named_parameters():
        tensor.requires_grad_(bool(matches(name)) and name not in left_out)
        count += tensor.requires_grad
    if not count:
        raise ConfigError([f"trainable={choice!r} matches no parameter of this {type(model).__name__}."])
    return model


def _matcher(model: Any, choice: str) -> Any:
    form, _, value = choice.partition(":")
    if choice == "all":
        return lambda name: True
    if form == "layers" and re.fullmatch(rf"{_LAYERS}(,{_LAYERS})*", value):
        _check_depth(model, choice, max(map(int, re.split("[,-]", value))))
        layers = {layer for part in value.split(",") for layer in _span(part)}
        return lambda name: any(re.search(rf"\.(layers|h|blocks)\.{layer}\.", name) for layer in layers)
    if form == "through" and re.fullmatch(_NUMBER, value):
        _check_depth(model, choice, int(value))
        above, tensors = parameters_above(model, int(value)), dict(model.named_parameters())
        return lambda name: id(tensors[name]) not in above
    if form == "pattern" and value:
        try:
            return re.compile(value).search
        except re.error as error:
            raise ConfigError([f"trainable={choice!r} is not a regular expression: {error}"]) from error
    raise ConfigError([f"trainable={choice!r} is not understood. Use {FORMS}."])


def _check_depth(model: Any, choice: str, last: int) -> None:
    depth = len(decoder_layers(model))
    if last >= depth:
        raise ConfigError([f"trainable={choice!r}: a {type(model).__name__} with layers 0 to {depth - 1}."])


def _span(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def lora_numbers(choice: str) -> tuple[int, int]:
    """Rank and alpha of ``lora:RANK:ALPHA``; both are optional. Raises ConfigError if they are not numbers."""
    _, *numbers = choice.removesuffix(BY_NAMES).split(":")
    rank, *scale = numbers or ["16"]
    if len(scale) > 1 or not all(
        re.fullmatch(_NUMBER, number) and 1 <= int(number) <= MOST_RANK for number in (rank, *scale)
    ):
        raise ConfigError([f"trainable={choice!r}: rank and alpha must be whole numbers from 1 to {MOST_RANK}."])
    return int(rank), int(scale[0]) if scale else 2 * int(rank)


def _with_lora(model: Any, choice: str, seed: int, dropout: float) -> Any:
    rank, alpha = lora_numbers(choice)
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=_adapted_maps(model, choice) if is_nested(model) else "all-linear",
        exclude_modules=_without_adapter(model) or None,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # PEFT asks a property of the model that transformers renamed in 5.20.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        torch.manual_seed(stable_seed("lora", seed))
        try:
            return get_peft_model(model, config)
        except ValueError as error:
            raise ConfigError(
                [f"trainable={choice!r} does not suit this {type(model).__name__}: {error}"]
            ) from error


def is_nested(model: Any) -> bool:
    """True if a model has parts besides a language model, such as a vision tower."""
    return model.config.get_text_config() is not model.config


def _unused_by_text(model: Any) -> frozenset[str]:
    """Names of parameters that no text passes through: those of a tower without a family of ours."""
    if not is_nested(model):
        return frozenset()
    used = (decoder_body(model), model.get_input_embeddings(), model.get_output_embeddings())
    ids = {id(tensor) for module in used for tensor in module.parameters()}
    return frozenset(name for name, tensor in model.named_parameters() if id(tensor) not in ids)


def _without_adapter(model: Any) -> list[str]:
    """Names of linear layers that take no adapter.

    A layer with a pass of its own (Llama 4's router gives two tensors), and projections of Mamba whose weight is
    read past the adapter.
    """
    linear = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    own = [
        name for name, module in linear if type(module).forward is not nn.Linear.forward and not is_four_bit(module)
    ]
    mixers = [name for name, module in model.named_modules() if hasattr(module, "ssm_state_size")]
    read = {f"{name}.{projection}" for name in mixers for projection in ("out_proj", "dt_proj")}
    return [*own, *(name for name, _ in linear if name in read)]


def _adapted_maps(model: Any, choice: str) -> list[str]:
    """Names of the linear layers with an adapter."""
    inside, sight = decoder_maps(model), sight_of(model)
    if not choice.endswith(BY_NAMES) or sight is None:
        return inside
    called = {name.rpartition(".")[2] for name in inside}
    unreached = {name.rpartition(".")[0] for name in sight.left_out(whole=False)}
    linear_names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return [name for name in linear_names if name.rpartition(".")[2] in called and name not in unreached]


def decoder_maps(model: Any) -> list[str]:
    """Names of the linear layers in a model's decoder layers."""
    inside = {id(module) for module in decoder_layers(model).modules()}
    return [
        name for name, module in model.named_modules() if isinstance(module, nn.Linear) and id(module) in inside
    ]


def trained(model: Any) -> dict[str, Tensor]:
    """The trainable parameters, by name."""
    return {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}


def checksums(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """One number per tensor that changes with any bit: a weighted sum of its bits.

    A plain sum would not suffice: if half of a tensor moves one step up and half one step down, as Adam does with
    the ones of a normalisation, it does not change.
    """
    return {name: _checksum(tensor.detach()) for name, tensor in tensors.items()}


def _checksum(tensor: Tensor) -> int:
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = tensor.contiguous().view(-1).view(kinds[tensor.element_size()])
    source = torch.Generator().manual_seed(0)
    weights = torch.randint(2**62, (min(len(bits), _PIECE),), generator=source).to(bits.device)
    total = 0
    for start in range(0, len(bits), _PIECE):
        piece = bits[start : start + _PIECE]
        total = (31 * total + int((piece * weights[: len(piece)]).sum())) % 2**64
    return total


def check_moved(before: dict[str, int], tensors: dict[str, Tensor], processes: Processes = ALONE) -> None:
    """Raise an error if training changed nothing. A tensor has changed if any process's shard has.

    Raises:
        FrozenParametersError: some of the tensors did not change.
    """
    after = checksums(tensors)
    moved = set().union(*processes.gather({name for name in before if before[name] != after[name]}))
    still = [name for name in before if name not in moved]
    if still:
        raise FrozenParametersError(
            f"{len(still)} of {len(before)} tensors that were to be trained did not change: {first_few(still, 5)}. "
            "Either no gradient reaches them, or the learning rate is too small for the type of the weights."
        )


@torch.no_grad()
def mix_with_noise(model: Any, share: float, seed: int) -> None:
    """Mix each trained matrix with a random one: ``(1 - share) W + share N``.

    Vectors (norms, biases) are unchanged. N is Gaussian with the standard deviation in the model's configuration.

    Args:
        share: weight of the random matrix, 0-1.
    """
    config = model.config.get_text_config()
    deviation = float(getattr(config, "initializer_range", 0.02))
    for name, tensor in trained(model).items():
        if tensor.dim() > 1:
            source = torch.Generator().manual_seed(stable_seed("noise", seed, name))
            random = deviation * torch.randn(tensor.shape, generator=source)
            tensor.mul_(1 - share).add_(random.to(tensor), alpha=share)


@contextmanager
def gradient_checkpointing(model: Any, enabled: bool) -> Iterator[None]:
    """Context with gradient checkpointing of each decoder layer: only its input is stored, and it is recomputed in
    the backward pass.

    It is the non-reentrant form, set on the layers themselves: transformers' own switch also asks for a gradient at
    the input, which would carry the backward pass down to the frozen layers below the first trained one; the
    reentrant form without that would silently give a LoRA adapter no gradient.

    Raises:
        ConfigError: the model's layers cannot be recomputed.
    """
    if not enabled:
        yield
        return
    layers: list[Any] = list(decoder_layers(model))
    if not all(hasattr(layer, "gradient_checkpointing") for layer in layers):
        raise ConfigError(
            [
                f"gradient_checkpointing=true: the layers of a {type(model).__name__} cannot be run again. Set it "
                "to false."
            ]
        )
    for layer in layers:
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.gradient_checkpointing = True
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = False
