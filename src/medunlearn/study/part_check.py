"""Checks of the layers and parameters named in settings, on a model without weights before training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from medunlearn.config import TINIES, TrainSettings, UnlearnSettings
from medunlearn.data.storage import read_json
from medunlearn.errors import ConfigError, InputError, ModelError, first_line
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import default_trainable
from medunlearn.models.folders import adapter_base, chain, is_adapter, model_folder
from medunlearn.models.limits import refuse_oversized
from medunlearn.models.loading import cached_file, from_pretrained
from medunlearn.models.pretrained import LOADING_ERRORS, check_model_folder
from medunlearn.models.tiny import build_tiny
from medunlearn.study.presets import unlearning_method

LAYERS = re.compile(r"(?:layers|through):(\d{1,6}(?:[-,]\d{1,6})*)")
"""Choices of parameters by layer."""
_MATRICES = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)
"""Of a layer of the tiny model."""


@dataclass(frozen=True)
class Outline:
    """A model without weights.

    Attributes:
        make: makes it, for its modules and names; loads the model's library.
        depth: number of decoder layers, if its configuration says so.
        names: names of parameters that it certainly has.
    """

    make: Callable[[], Any]
    depth: int | None = None
    names: Callable[[], Iterable[str]] = tuple

    def build(self) -> Any:
        """The model on the meta device."""
        import torch

        with torch.device("meta"):
            return self.make()

    def has_part(self, trainable: str) -> bool:
        """True if a choice of parameters certainly matches some; False if only the model's modules tell."""
        if form := LAYERS.fullmatch(trainable):
            return self._is_within(max(map(int, re.split("[-,]", form.group(1)))))
        try:
            pattern = re.compile(trainable.removeprefix("pattern:"))
        except re.error:
            return False
        return trainable.startswith("pattern:") and any(map(pattern.search, self.names()))

    def _is_within(self, layer: int) -> bool:
        return self.depth is not None and layer < self.depth

    def lacks_layer(self, layer: int) -> int | None:
        """The number of layers, if ``layer`` is not among them."""
        if self._is_within(layer):
            return None
        from medunlearn.models.decoder import decoder_layers

        depth = len(decoder_layers(self.build()))
        return depth if layer >= depth else None


def trained_outline(settings: TrainSettings) -> Outline | None:
    """The outline of a training run's initial model; None for a hub model that is not on this machine.

    Raises:
        ModelError: there is no such folder, or no model in it.
    """
    if settings.model not in TINIES:
        return outline_of(model_folder(settings.model), trust_remote_code=settings.trust_remote_code)
    if settings.model != "tiny":
        return None
    depth = settings.tiny_layers
    names = [f"model.layers.{layer}.{matrix}.weight" for layer in range(depth) for matrix in _MATRICES]
    return Outline(lambda: build_tiny([""], width=16, layers=depth).model, depth, lambda: names)


def outline_of(source: str, *, trust_remote_code: bool = False) -> Outline | None:
    """The outline of the model in a folder, or behind a hub id; None if that is not on this machine.

    Raises:
        ModelError: the folder has no model.
    """
    folder = Path(source)
    if is_adapter(folder):
        return outline_of(adapter_base(folder), trust_remote_code=trust_remote_code)
    if not folder.is_dir() and (source.count("/") != 1 or source.startswith((".", "~", "/"))):
        raise ModelError(f"There is no model folder {source}. Give a folder, a hub id (org/name), or tiny.")
    if not folder.is_dir():
        return _outline(source, trust_remote_code)
    root = chain(folder, check=False)[0]
    check_model_folder(root)
    return _outline(str(root), trust_remote_code)


def _outline(root: str, trust_remote_code: bool) -> Outline | None:
    file = Path(root) / "config.json" if Path(root).is_dir() else cached_file(root, "config.json")
    if file is None:
        return None
    refuse_oversized(file.parent)
    try:
        config = read_json(file)
        if not isinstance(config, dict):
            raise ModelError(f"{file} is not a table of keys and values")
    except (InputError, OSError, ValueError) as error:
        raise ModelError(f"Model {root} cannot be read: {first_line(error)}") from error
    depth = (config.get("text_config") or config).get("num_hidden_layers")
    names = partial(_stored_names, Path(root)) if "text_config" not in config else tuple
    return Outline(lambda: _built(root, trust_remote_code), depth if isinstance(depth, int) else None, names)


def _stored_names(folder: Path) -> Iterator[str]:
    """Names of the tensors in a folder's weight files."""
    for file in sorted(folder.glob("*.safetensors")):
        with suppress(SafetensorError, OSError), safe_open(file, "numpy") as tensors:
            yield from tensors.keys()


def _built(root: str, trust_remote_code: bool) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    from medunlearn.models.vision import family_of

    try:
        config = from_pretrained(AutoConfig, root, trust_remote_code=trust_remote_code, local_files_only=True)
        kind = AutoModelForImageTextToText if family_of(config) else AutoModelForCausalLM
    except LOADING_ERRORS as error:
        raise ModelError(f"Model {root} cannot be read: {first_line(error)}") from error
    return kind.from_config(config, trust_remote_code=trust_remote_code)


def outline_with(problems: list[str], settings: TrainSettings | None) -> Outline | None:
    """The outline of a plan's model; problems of it, or of its trained parameters, are added to the list."""
    outline: Outline | None = None
    if settings is not None:
        try:
            outline = trained_outline(settings)
            check_training(settings, outline)
        except InputError as error:
            mistakes = error.problems if isinstance(error, ConfigError) else [str(error)]
            problems += [f"train: {problem}" for problem in mistakes]
    return outline


def check_training(settings: TrainSettings, outline: Outline | None) -> None:
    """Refuse a choice of parameters that the model lacks.

    Raises:
        ConfigError: names the choice and the model's layers.
    """
    if settings.trainable == "all" or (outline is not None and outline.has_part(settings.trainable)):
        return
    from medunlearn.training.trainable import choose_trainable, lora_numbers

    if settings.trainable.partition(":")[0] == "lora":
        lora_numbers(settings.trainable)
    elif outline is not None:
        choose_trainable(outline.build(), settings.trainable)


def check_unlearning(settings: UnlearnSettings, outline: Outline | None) -> None:
    """Refuse layers of a method, and a choice of parameters, that the model lacks.

    Raises:
        ConfigError: names the setting and the model's layers.
    """
    if outline is None:
        unlearning_method(settings)
        return
    if problems := list(_unlearning_problems(settings, outline)):
        raise ConfigError(problems)


def _unlearning_problems(settings: UnlearnSettings, outline: Outline) -> Iterator[str]:
    method = unlearning_method(settings)
    if isinstance(method, EditMethod):
        from medunlearn.models.mlps import mlps

        try:
            mlps(outline.build(), method.layers)
        except InputError as error:
            yield f"{settings.method}.{error}"
        return
    layer, trainable = getattr(method, "layer", None), settings.trainable
    if isinstance(layer, int) and (depth := outline.lacks_layer(layer)) is not None:
        yield f"{settings.method}.layer={layer}: the model has layers 0 to {depth - 1}. Set it to one of them."
        if trainable == "default":  # which follows from the layer
            return
    trainable = default_trainable(method) if trainable == "default" else trainable
    if trainable != "all" and not outline.has_part(trainable):
        from medunlearn.training.trainable import lora_numbers

        try:
            if trainable.partition(":")[0] == "lora":
                lora_numbers(trainable)
                return
            choose_parts(outline.build(), trainable, settings)
        except ConfigError as error:
            yield from error.problems


def choose_parts(model: Any, trainable: str, settings: UnlearnSettings) -> Any:
    """The model with the parameters marked that the settings or the method train.

    Raises:
        ConfigError: the model has no such part; names alternatives.
    """
    from medunlearn.training.trainable import choose_trainable

    try:
        return choose_trainable(model, trainable, seed=settings.seed)
    except ConfigError as error:
        if settings.trainable != "default":
            raise
        layers = getattr(model.config, "num_hidden_layers", "an unknown number of")
        raise ConfigError(
            [
                f"{problem} Method {settings.method} uses it by default; the model has {layers} layers, the "
                f"first is 0. Set {settings.method}.layer, or trainable."
                for problem in error.problems
            ]
        ) from None
