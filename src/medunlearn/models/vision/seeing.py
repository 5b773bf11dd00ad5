"""The embedding of a vision-language model: vision tower features at picture tokens.

An image is encoded once per pass, however many sequences use it. If tower and projector are frozen, an image's
features are cached for all passes and epochs, of the model and of its reference.

Notation: W width of the decoder's hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from medunlearn.models.decoder import base_model
from medunlearn.models.vision.pictures import FIRST, PLACES, Pictures

AT_ONCE = 16
"""Images in one pass of the tower."""
_FEATURE_BYTES = 2 << 30
"""Bytes of features that are kept in memory."""


class Sight:
    """Image features of a model; ``encoded`` counts images that went through the tower."""

    def __init__(self, model: Any, pictures: Pictures) -> None:
        self.pictures, self.encoded = pictures, 0
        self._model = model
        self._features: dict[tuple[int, bool], Tensor] = {}
        self._bytes = 0
        self._state: tuple[tuple[int, int], ...] = ()

    def parts(self) -> dict[str, nn.Parameter]:
        """Parameters that images pass through before the decoder: tower and projector."""
        others = (self._model.get_decoder(), self._model.get_output_embeddings())
        rest = {id(tensor) for module in others for tensor in module.parameters()}
        return {name: tensor for name, tensor in self._model.named_parameters() if id(tensor) not in rest}

    @property
    def frozen(self) -> bool:
        return not any(tensor.requires_grad for tensor in self.parts().values())

    def features(self, numbers: Sequence[int]) -> list[Tensor]:
        """Features at the tokens of each image, [count, W] each."""
        if not self.frozen:
            return self._encode(numbers)
        self._forget_other_weights()
        device = next(self._model.parameters()).device
        cast = torch.is_autocast_enabled(device.type)
        missing = [number for number in numbers if (number, cast) not in self._features]
        encoded: dict[int, Tensor] = {}
        # Not under inference mode, whose tensors no later training step could use.
        with torch.inference_mode(False), torch.no_grad():
            for number, states in zip(missing, self._encode(missing), strict=True):
                encoded[number] = states
                if self._bytes + states.nbytes <= _FEATURE_BYTES:
                    self._features[number, cast] = states
                    self._bytes += states.nbytes
        return [encoded[number] if number in encoded else self._features[number, cast] for number in numbers]

    def _forget_other_weights(self) -> None:
        """Clear the cached features if the tower's weights have changed."""
        state = tuple((tensor.data_ptr(), tensor._version) for tensor in self.parts().values())
        if state != self._state:
            self._features, self._bytes, self._state = {}, 0, state

    def _encode(self, numbers: Sequence[int]) -> list[Tensor]:
        features: list[Tensor] = []
        for start in range(0, len(numbers), AT_ONCE):
            prepared = [self.pictures.of(number) for number in numbers[start : start + AT_ONCE]]
            features += self.pictures.family.features(self._model, prepared)
            self.encoded += len(prepared)
        return features

    def left_out(self, *, whole: bool) -> frozenset[str]:
        """Names of parameters to exclude from training.

        Args:
            whole: the whole tower; otherwise only layers that its features do not pass through (LLaVA takes them
                from below the last layers).
        """
        return frozenset(self.parts()) if whole else self._unreached()

    def _unreached(self) -> frozenset[str]:
        parts = self.parts()
        before = {name: tensor.requires_grad for name, tensor in parts.items()}
        try:
            for tensor in parts.values():
                tensor.requires_grad_(True)
            with torch.enable_grad():
                states = self.pictures.family.features(self._model, [self.pictures.blank()])[0]
                slopes = torch.autograd.grad(states.float().square().sum(), list(parts.values()), allow_unused=True)
        finally:
            for name, tensor in parts.items():
                tensor.requires_grad_(before[name])
        return frozenset(name for name, slope in zip(parts, slopes, strict=True) if slope is None)


def give_sight(model: Any, pictures: Pictures) -> Sight:
    """Make a model's embedding look up picture tokens. Its tower is frozen until it is set to be trained."""
    sight, embedding = Sight(model, pictures), model.get_input_embeddings()
    for tensor in sight.parts().values():
        tensor.requires_grad_(False)
    embedding.forward = _LookUp(embedding.forward, sight)
    return sight


def sight_of(model: Any) -> Sight | None:
    """Vision part of a model, or of the model inside a LoRA adapter; None for a text model."""
    base = base_model(model)
    if not hasattr(base, "get_input_embeddings"):
        return None
    look_up = getattr(base.get_input_embeddings(), "forward", None)
    return look_up.sight if isinstance(look_up, _LookUp) else None


def images_described(model: Any) -> dict[str, str]:
    """Image encoding of a model, for a run's record; empty for a text-only model."""
    sight = sight_of(model)
    if sight is None:
        return {}
    how = "kept, since nothing before the decoder is trained" if sight.frozen else "again in each pass"
    return {"images": f"{sight.pictures.family.title}: an image is encoded once a pass; what is seen is {how}"}


class _LookUp:
    """Forward function of an embedding with picture tokens: token ids [...] -> states [..., W]."""

    def __init__(self, plain: Callable[[Tensor], Tensor], sight: Sight) -> None:
        self.plain, self.sight = plain, sight

    def __call__(self, ids: Tensor) -> Tensor:
        pictured = ids >= FIRST
        if not bool(pictured.any()):
            return self.plain(ids)
        states = self.plain(ids.masked_fill(pictured, 0))
        offsets = ids[pictured] - FIRST
        numbers, which = torch.unique(offsets // PLACES, return_inverse=True)
        features = self.sight.features(numbers.tolist())
        starts = torch.tensor([0, *(len(part) for part in features)]).cumsum(0)[:-1].to(ids.device)
        rows = torch.cat([part.to(states) for part in features])[starts[which] + offsets % PLACES]
        return states.masked_scatter(pictured[..., None], rows)
