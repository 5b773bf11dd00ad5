"""A model on this machine as a respondent, in our engine or in vLLM. Loads torch with the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from medunlearn.data.data_use import DataUse
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import read_json
from medunlearn.metrics.measure import Need
from medunlearn.models.ancestry import model_use
from medunlearn.probes.respondents import EVERYTHING, TOO_LONG, Asking, Choices, Key, Material, Ratings

_ROLES = ("target", "retrained")
"""Labels that every training run has alike."""


class LocalModel:
    """A run, a folder (full, delta, or adapter) or a hub id. It gives everything, and is loaded once.

    Args:
        label: None: the run's own, or the name of its folder.
        backend: our engine, or vLLM.
    """

    gives: frozenset[Need] = EVERYTHING

    def __init__(
        self,
        source: str | Path,
        device: str = "auto",
        label: str | None = None,
        *,
        weights: Literal["fp32", "bf16"] = "fp32",
        backend: Literal["own", "vllm"] = "own",
        allow_broken: bool = False,
    ) -> None:
        self.source, self.device, self.weights = str(source), device, weights
        self.backend, self.allow_broken = backend, allow_broken
        self.label = label or _label_of(Path(source))
        self._model: Any = None
        self._tokenizer: Any = None

    @property
    def data_use(self) -> DataUse | None:
        return model_use(self.source)

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the model's weights; empty if the model was not loaded."""
        return self._model.problems if self._model is not None else ()

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer; the model is loaded only where no folder has one."""
        if self._tokenizer is None:
            from medunlearn.models.folders import model_folder
            from medunlearn.models.pretrained import load_tokenizer

            folder = Path(model_folder(self.source))
            self._tokenizer = load_tokenizer(folder) if folder.is_dir() else self.load().tokenizer
        return self._tokenizer

    def identity(self) -> Any:
        from medunlearn.models.folders import model_identity

        return model_identity(self.source)

    def facts(self) -> dict[str, Any]:
        return {"kind": "local", "source": self.source, **_training_facts(Path(self.source) / "run.json")}

    def check(self, material: Material) -> None:
        return

    def load(self, **shared: Any) -> Any:
        """The model in memory.

        Args:
            shared: ``images`` and ``shared`` of :func:`~medunlearn.models.load.load_model`.
        """
        if self._model is None:
            from medunlearn.models.folders import model_folder

            folder = model_folder(self.source)
            if self.backend == "vllm":
                from medunlearn.generation.vllm_backend import load_vllm

                self._model = load_vllm(folder, weights=self.weights)
            else:
                from medunlearn.models.load import load_model

                how: dict[str, Any] = {"weights": self.weights, "allow_broken": self.allow_broken, **shared}
                self._model = load_model(folder, device=self.device, **how)
        return self._model

    def answer(self, asking: Asking, store: ResponseStore, advance: Callable[[int], None]) -> dict[Key, str]:
        """Store the responses, greedy ones with likelihoods of the reference; of long prompts none."""
        stored, keys = store.read(), asking.keys()
        if all(key in stored for key in keys):
            advance(len(keys))
            return {}
        from medunlearn.generation.continuations import continue_openings, positions, refuse_too_long

        model = self.load()
        openings = [prompt.opening(model.tokenizer) for prompt in asking.prompts if prompt.opening is not None]
        long = set[str]()
        if asking.leave_long:
            room = positions(model) - asking.max_new_tokens
            long = {entry.key for entry in openings if len(entry.prefix) > room}
            openings = [entry for entry in openings if entry.key not in long]
        else:
            refuse_too_long(model, max(len(entry.prefix) for entry in openings), asking.max_new_tokens)
        how: dict[str, Any] = {"samples": asking.samples, "seed": asking.seed, "batch_size": asking.batch_size}
        for decoding in asking.decodings:
            most = asking.max_new_tokens
            continue_openings(model, openings, decoding, store, max_new_tokens=most, advance=advance, **how)
        return {key: TOO_LONG for key in keys if key[0] in long}

    def rate(self, choices: Choices, store: ResponseStore, advance: Callable[[int], None]) -> Ratings:
        """Teacher-forced likelihoods of the options, with the token that ends an answer."""
        from medunlearn.generation.continuations import positions
        from medunlearn.generation.option_scoring import rate_options

        model, records, rendering = self.load(), choices.records, choices.rendering
        options = [f" {option}" for question in choices.questions for option in question.options]
        room = positions(model) - 1 - max(len(ids) for ids in model.tokenizer(options)["input_ids"])
        long = [
            question.question_id
            for question in choices.questions
            if len(model.question_sequence(question, records[question.record_id], rendering).prompt) > room
        ]
        short = [question for question in choices.questions if question.question_id not in long]
        how: dict[str, Any] = {"batch_size": choices.batch_size, "variant": choices.variant, "advance": advance}
        rated = rate_options(model, short, records, store, rendering, **how)
        return Ratings(rated, dict.fromkeys(long, TOO_LONG), end=True)

    def tries_again(self, facts: Mapping[str, Any]) -> bool:
        return False


def _label_of(source: Path) -> str:
    """A run's own label, or the folder's name for a training run, whose label is a role shared with other runs."""
    run = source / "run.json"
    label = str(read_json(run).get("label", source)) if run.exists() else source.name
    return source.resolve().name if label in _ROLES else label


def _training_facts(run: Path) -> dict[str, Any]:
    """For a tiny model, facts of its training on whether it knows its texts by heart; empty for other models."""
    results = read_json(run).get("results", {}) if run.exists() else {}
    return {name: results[name] for name in ("memorized", "last_epoch_loss") if name in results}
