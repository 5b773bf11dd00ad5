"""Load a causal language model and its tokenizer from a folder or a hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
)
from transformers.utils import logging as transformers_logging

from medunlearn.data.records import Question, Record
from medunlearn.data.storage import as_storage_error, close_folder, make_folder
from medunlearn.errors import ModelError, first_line
from medunlearn.hub_offline import go_offline_if_unreachable
from medunlearn.models.adapters import merge_adapter
from medunlearn.models.decoder import base_model
from medunlearn.models.delta import LARGEST_SHARE, apply_delta, save_delta
from medunlearn.models.dequantized import dequantizing, forget_quantization
from medunlearn.models.folders import (
    MANIFEST,
    TENSORS,
    Weights,
    adapter_base,
    chain,
    check_weights,
    is_adapter,
    refuse_irregular,
)
from medunlearn.models.health import refuse_broken, refuse_small_embedding, weight_problems
from medunlearn.models.load_probe import check_tokens, settle_ties
from medunlearn.models.loading import from_pretrained, is_hub_id
from medunlearn.models.low_rank import read_low_rank
from medunlearn.models.memo import TextMemo, tokens_of
from medunlearn.models.pretrained import (
    LOADING_ERRORS,
    check_model_folder,
    pick_device,
    refuse_missing,
)
from medunlearn.models.rope import make_independent_of_batches
from medunlearn.models.sequences import (
    Rendering,
    TokenSequence,
    each_rendered_together,
    image_tokens,
    question_sequence,
    record_sequences,
)
from medunlearn.models.shared_base import SharedBase
from medunlearn.models.stored_layers import StoredLayers, converted, load_without_layers
from medunlearn.models.threads import settle_threads
from medunlearn.models.vision import family_of
from medunlearn.models.vision.family import Family
from medunlearn.models.vision.pictures import Pictures
from medunlearn.models.vision.seeing import give_sight

OTHER_SHAPES = "its weights have other shapes than its config.json asks for. Copy the whole model again."
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class LanguageModel:
    """A Hugging Face causal model and its tokenizer, which has an EOS and a pad token (maybe the same).

    ``source`` is its folder or hub id, or a description of how it was built; ``pictures`` is None for a text model;
    ``problems`` lists reasons why it is broken (:mod:`medunlearn.models.health`); ``layers`` are the layers on disk
    of a model loaded without them; ``engine`` is an external engine with the weights
    (:mod:`medunlearn.generation.vllm_backend`), and ``model`` then has only the configuration. ``memo`` is shared
    by models that one process loads in turn; None without sharing.
    """

    model: Any
    tokenizer: Any
    source: str
    pictures: Pictures | None = None
    problems: tuple[str, ...] = ()
    layers: StoredLayers | None = None
    engine: Any = None
    memo: TextMemo | None = None

    def question_sequence(self, question: Question, record: Record, rendering: Rendering) -> TokenSequence:
        """Prompt, answer and EOS of one question (:func:`medunlearn.models.sequences.question_sequence`)."""
        how = (question, record, self.tokenizer, rendering, self.pictures)
        if self.memo is None:
            return question_sequence(*how)
        key = (question, record.text, record.images, rendering)
        return self.memo.sequences.get(key, lambda: question_sequence(*how), lambda sequence: len(sequence.ids))

    def question_sequences(
        self, questions: Sequence[Question], records: Mapping[str, Record], rendering: Rendering
    ) -> list[TokenSequence]:
        """Sequences of many questions, their chat prompts rendered in batches."""

        def make(question: Question) -> TokenSequence:
            return self.question_sequence(question, records[question.record_id], rendering)

        return [*each_rendered_together(questions, records, self.tokenizer, rendering, make)]

    def record_sequences(self, record: Record, rendering: Rendering) -> list[TokenSequence]:
        """A record as plain text (:func:`medunlearn.models.sequences.record_sequences`)."""

        def make() -> list[TokenSequence]:
            image = image_tokens(record, rendering, self.pictures)
            return record_sequences(record, self.tokenizer, rendering.max_length, image)

        if self.memo is None:
            return make()
        key = (record.record_id, record.text, record.images, rendering)
        return self.memo.sequences.get(key, make, tokens_of)

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    def save(self, folder: Path) -> Path:
        """Write a Hugging Face folder: weights as safetensors, configuration, tokenizer.

        Raises:
            StorageError: the disk refused.
        """
        return self._save(folder, self.model, None)

    def save_around_weights(self, folder: Path) -> Path:
        """:meth:`save` without the weights, whose file is empty; a LoRA adapter is omitted."""
        return self._save(folder, base_model(self.model), {})

    def _save(self, folder: Path, model: Any, state: dict[str, torch.Tensor] | None) -> Path:
        transformers_logging.disable_progress_bar()
        try:
            make_folder(folder)
            for name in (MANIFEST, TENSORS):  # a full folder is not a delta
                (folder / name).unlink(missing_ok=True)
            model.save_pretrained(folder, state_dict=state)
            self.tokenizer.save_pretrained(folder)
            if self.pictures is not None:
                self.pictures.processor.save_pretrained(folder)
            close_folder(folder)
        except Exception as error:
            refused = as_storage_error(error, folder)
            if refused is None:
                raise
            raise refused from error
        return folder

    def save_smaller(self, base: Path, folder: Path) -> dict[str, Any]:
        """Write a delta of ``base`` if it is smaller than half of the model, else the full folder.

        Returns the form of saving, for ``run.json``.

        Raises:
            StorageError: the disk refused.
        """
        manifest = save_delta(self.model, base, folder, largest_share=LARGEST_SHARE)
        if manifest is None:
            self.save(folder)
        weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        changed = {} if manifest is None else {"changed_tensors": len(manifest.changed)}
        return {"form": "full" if manifest is None else "delta", "bytes": weights, **changed}


def load_model(
    source: str | Path,
    *,
    device: str = "auto",
    weights: Weights = "fp32",
    trust_remote_code: bool = False,
    images: Path | None = None,
    allow_broken: bool = False,
    without_layers: bool = False,
    shared: SharedBase | None = None,
) -> LanguageModel:
    """Load a causal model from a folder or a hub; a delta or a LoRA adapter together with its base.

    A vision-language model of a family in :data:`medunlearn.models.vision.FAMILIES` comes with its image processor.

    Args:
        source: a folder that holds a Hugging Face model, a delta or an adapter, or a hub id such as ``org/name``.
        device: ``auto`` uses a GPU if there is one.
        images: folder to which images of records are relative: that of their benchmark.
        allow_broken: load it even if weights or logits are not finite; :attr:`LanguageModel.problems` lists this.
        without_layers: leave the decoder layers on disk, for :func:`medunlearn.training.sharding.shard` to read;
            health is checked there. PEFT adapters, and architectures whose stored tensors are merged in loading,
            are loaded whole anyway.
        shared: a model in memory that takes the folder's weights if it has the same shape.

    Raises:
        ModelError: no such model, no tokenizer, missing weights or none as safetensors; a delta whose base is
            missing or changed; weights that differ from their run's record; non-finite weights or logits; a
            tokenizer larger than the embedding.
    """
    transformers_logging.disable_progress_bar()
    loader = _ModelLoader(device, weights, trust_remote_code, images)
    if is_adapter(Path(source)):
        if shared is not None:
            shared.drop()
        loaded = loader.adapted(Path(source), allow_broken)
    else:
        loaded = loader.plain(source, without_layers, shared)
    settle_threads(loaded.model)
    if loaded.layers is not None:
        return loaded
    loaded.problems = weight_problems(loaded.model, loaded.tokenizer)
    refuse_broken({loaded.source: loaded.problems}, allowed=allow_broken)
    return loaded


@dataclass(frozen=True)
class _ModelLoader:
    """Settings of :func:`load_model`."""

    device: str
    weights: Weights
    trust_remote_code: bool
    images: Path | None

    def adapted(self, folder: Path, allow_broken: bool) -> LanguageModel:
        """A LoRA adapter merged into its base; with the adapter's own tokenizer if it has one."""
        refuse_irregular(folder)
        base = load_model(adapter_base(folder), **vars(self), allow_broken=allow_broken)
        own = from_pretrained(AutoTokenizer, folder) if (folder / "tokenizer.json").exists() else None
        model, tokenizer = merge_adapter(base.model, folder, own), own or base.tokenizer
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        refuse_small_embedding(model, tokenizer, str(folder))
        return LanguageModel(model, tokenizer, str(folder), base.pictures)

    def plain(self, source: str | Path, without_layers: bool, shared: SharedBase | None) -> LanguageModel:
        """A full model, or a delta on its base."""
        folder, root, deltas = Path(source), source, list[Path]()
        if folder.is_dir():
            root, *deltas = chain(folder)
            for part in (root, *deltas):
                check_weights(part)
            check_model_folder(root)
        elif not is_hub_id(str(source)):
            raise ModelError(f"There is no model folder {source}. Give a folder, a hub id (org/name), or tiny.")
        else:
            go_offline_if_unreachable()
        # An adapter is added to weights of the type in which it was trained.
        kinds = {low_rank.weights for low_rank in map(read_low_rank, deltas) if low_rank is not None}
        wide: Weights = "fp32" if "fp32" in kinds else self.weights
        where = pick_device(self.device)

        def base(kind: Weights) -> LanguageModel:
            return self._base(source, root, kind, deltas if without_layers else None)

        if shared is not None and wide == self.weights and folder.is_dir() and not without_layers:
            key = (self.weights, str(where), self.trust_remote_code, self.images)
            loaded: LanguageModel = shared.with_deltas(
                Path(root), key, lambda: _move(base(self.weights), where), deltas
            )
            loaded = replace(loaded, source=str(source))
        else:
            if shared is not None:
                shared.drop()
            loaded = base(wide)
            on_disk = loaded.layers.names if loaded.layers else {}
            for delta in deltas:
                apply_delta(loaded.model, delta, skip=on_disk)
            if wide != self.weights:
                for parameter in loaded.model.parameters():  # its buffers stay, as where it is loaded so
                    parameter.data = converted(parameter.data, dtype=_DTYPES[self.weights])
            _move(loaded, where)
        if deltas or shared is not None:
            loaded.model.name_or_path = str(deltas[-1] if deltas else root)  # what PEFT notes as an adapter's base
        return loaded

    def _base(
        self, source: str | Path, root: str | Path, weights: Weights, without_layers: Sequence[Path] | None
    ) -> LanguageModel:
        """The full model in a folder or of a hub id, at the root of ``source``.

        Args:
            without_layers: deltas to apply when its layers are read from disk; None: the whole model is loaded.
        """
        try:
            tokenizer = from_pretrained(AutoTokenizer, root, trust_remote_code=self.trust_remote_code)
            config = from_pretrained(AutoConfig, root, trust_remote_code=self.trust_remote_code)
            family, kind = family_of(config), _DTYPES[weights]
            auto_class: Any = AutoModelForImageTextToText if family else AutoModelForCausalLM
            parts: tuple[Any, list[str], StoredLayers | None] | None = None
            quantized = dequantizing(config)
            if without_layers is not None and not quantized:
                parts = load_without_layers(auto_class, root, without_layers, config, kind, self.trust_remote_code)
            if parts is None:
                model, info = from_pretrained(
                    auto_class,
                    root,
                    dtype=kind,
                    use_safetensors=True,
                    trust_remote_code=self.trust_remote_code,
                    output_loading_info=True,
                    **quantized,
                )
                if quantized:
                    forget_quantization(model)
                parts = model, info["missing_keys"], None
            model, missing, layers = parts
        except LOADING_ERRORS as error:
            # Transformers logs the shapes, and its error names an option that nobody has here.
            reason = OTHER_SHAPES if "ignore_mismatched_sizes" in str(error) else first_line(error)
            raise ModelError(f"Model {source} cannot be loaded: {reason}") from error
        refuse_missing(root, missing)
        if tokenizer.eos_token_id is None:
            raise ModelError(f"The tokenizer of {source} has no EOS token; answers would never end.")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        refuse_small_embedding(model, tokenizer, str(source))
        check_tokens(tokenizer, str(source))
        if layers is None:
            settle_ties(model)
        make_independent_of_batches(model)
        pictures = None if family is None else _pictures(family, root, model, tokenizer, self.images)
        return LanguageModel(model, tokenizer, str(source), pictures, layers=layers)


def _move(loaded: LanguageModel, device: torch.device) -> LanguageModel:
    if loaded.layers is None:
        loaded.model = loaded.model.to(device)
        return loaded
    for tensor in (*loaded.model.parameters(), *loaded.model.buffers()):
        tensor.data = converted(tensor.data, device=device)
    return loaded


def _pictures(family: Family, root: str | Path, model: Any, tokenizer: Any, images: Path | None) -> Pictures:
    """Image input of a model; changes its embedding to look up images."""
    try:
        # Without torchvision, which not every installation of torch has beside it.
        processor = from_pretrained(AutoImageProcessor, root, backend="pil")
    except LOADING_ERRORS as error:
        raise ModelError(
            f"{root} is a {family.title} model without an image processor (preprocessor_config.json): "
            f"{first_line(error)} Copy the whole model, or save the processor there too."
        ) from error
    pictures = Pictures(family, processor, model.config, tokenizer, images)
    give_sight(model, pictures)
    return pictures
