"""Checks of the layers and parameters named in settings, on a model without weights before training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from medunlearn.config import TINIES, TrainSettings, UnlearnSettings
from medunlearn.errors import ConfigError, InputError, ModelError, first_line
from medunlearn.methods.editing import EditMethod
from medunlearn.methods.protocol import default_trainable
from medunlearn.models.decoder import decoder_layers
from medunlearn.models.folders import adapter_base, chain, is_adapter, model_folder
from medunlearn.models.mlps import mlps
from medunlearn.models.pretrained import LOADING_ERRORS, check_model_folder
from medunlearn.models.tiny import build_tiny
from medunlearn.models.vision import family_of
from medunlearn.study.presets import unlearning_method
from medunlearn.training.trainable import choose_trainable, lora_numbers

Shape = Callable[[], Any]
"""Makes a model on the meta device: its modules and names, no weights."""


def trained_shape(settings: TrainSettings) -> Shape | None:
    """The shape of a training run's initial model; None for a hub model that is not on this machine.

    Raises:
        ModelError: there is no such folder, or no model in it.
    """
    if settings.model not in TINIES:
        return shape_of(model_folder(settings.model), trust_remote_code=settings.trust_remote_code)
    if settings.model != "tiny":
        return None
    return lambda: build_tiny([""], width=16, layers=settings.tiny_layers).model


def shape_of(source: str, *, trust_remote_code: bool = False) -> Shape | None:
    """The shape of the model in a folder, or behind a hub id; None if that is not on this machine.

    Raises:
        ModelError: the folder has no model.
    """
    folder = Path(source)
    if is_adapter(folder):
        return shape_of(adapter_base(folder), trust_remote_code=trust_remote_code)
    if not folder.is_dir() and (source.count("/") != 1 or source.startswith((".", "~", "/"))):
        raise ModelError(f"There is no model folder {source}. Give a folder, a hub id (org/name), or tiny.")
    if not folder.is_dir():
        return _shape(source, trust_remote_code)
    root = chain(folder, check=False)[0]
    check_model_folder(root)
    return _shape(str(root), trust_remote_code)


def _shape(root: str, trust_remote_code: bool) -> Shape | None:
    options = {"trust_remote_code": trust_remote_code, "local_files_only": True}
    try:
        config = AutoConfig.from_pretrained(root, **options)
        kind = AutoModelForImageTextToText if family_of(config) else AutoModelForCausalLM
    except LOADING_ERRORS as error:
        if not Path(root).is_dir():
            return None
        raise ModelError(f"Model {root} cannot be read: {first_line(error)}") from error
    return lambda: kind.from_config(config, trust_remote_code=trust_remote_code)


def shape_with(problems: list[str], settings: TrainSettings | None) -> Shape | None:
    """The shape of a plan's model; problems of it, or of its trained parameters, are added to the list."""
    shape: Shape | None = None
    if settings is not None:
        try:
            shape = trained_shape(settings)
            check_training(settings, shape)
        except InputError as error:
            mistakes = error.problems if isinstance(error, ConfigError) else [str(error)]
            problems += [f"train: {problem}" for problem in mistakes]
    return shape


def check_training(settings: TrainSettings, shape: Shape | None) -> None:
    """Refuse a choice of parameters that the model lacks.

    Raises:
        ConfigError: names the choice and the model's layers.
    """
    if settings.trainable.partition(":")[0] == "lora":
        lora_numbers(settings.trainable)
    elif shape is not None and settings.trainable != "all":
        choose_trainable(_build_shape(shape), settings.trainable)


def check_unlearning(settings: UnlearnSettings, shape: Shape | None) -> None:
    """Refuse layers of a method, and a choice of parameters, that the model lacks.

    Raises:
        ConfigError: names the setting and the model's layers.
    """
    if shape is None:
        unlearning_method(settings)
        return
    if problems := list(_unlearning_problems(settings, shape)):
        raise ConfigError(problems)


def _unlearning_problems(settings: UnlearnSettings, shape: Shape) -> Iterator[str]:
    method = unlearning_method(settings)
    if isinstance(method, EditMethod):
        try:
            mlps(_build_shape(shape), method.layers)
        except InputError as error:
            yield f"{settings.method}.{error}"
        return
    layer, trainable = getattr(method, "layer", None), settings.trainable
    if isinstance(layer, int) and layer >= (depth := len(decoder_layers(_build_shape(shape)))):
        yield f"{settings.method}.layer={layer}: the model has layers 0 to {depth - 1}. Set it to one of them."
        if trainable == "default":  # which follows from the layer
            return
    trainable = default_trainable(method) if trainable == "default" else trainable
    if trainable != "all":
        try:
            if trainable.partition(":")[0] == "lora":
                lora_numbers(trainable)
                return
            choose_parts(_build_shape(shape), trainable, settings)
        except ConfigError as error:
            yield from error.problems


def _build_shape(shape: Shape) -> Any:
    with torch.device("meta"):
        return shape()


def choose_parts(model: Any, trainable: str, settings: UnlearnSettings) -> Any:
    """The model with the parameters marked that the settings or the method train.

    Raises:
        ConfigError: the model has no such part; names alternatives.
    """
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
