"""Audited models: local, or behind an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medunlearn.audit.asking import message_of, prompt_text, prompt_tokens
from medunlearn.audit.audit_tables import Key
from medunlearn.audit.probes import Probe
from medunlearn.audit.units import Unit, continuations, unit_of, unit_without_model
from medunlearn.config import check
from medunlearn.config.audit import PREFIX, AuditSettings
from medunlearn.data.data_use import DataUse, recorded_use, resolve_use
from medunlearn.data.records import Record
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import read_json
from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.generation.decodings import Decoding
from medunlearn.llm import Message, ServerSettings, decide
from medunlearn.llm.faults import next_step
from medunlearn.models.ancestry import model_use
from medunlearn.sources.corpus import Corpus


@dataclass(frozen=True)
class AuditJob:
    """The prompts of one audit, and where their responses are stored."""

    probes: Sequence[Probe]
    corpora: Sequence[Corpus]
    decodings: Sequence[Decoding]
    settings: AuditSettings
    unit: Unit
    store: ResponseStore

    def keys(self) -> list[Key]:
        """Keys of all expected responses, sorted by decoding, then probe."""
        return [
            (probe.probe_id, decoding.name, sample)
            for decoding in self.decodings
            for probe in self.probes
            for sample in range(self.settings.samples_per_prompt if decoding.draws else 1)
        ]

    def sampling(self) -> dict[str, int]:
        """Settings of generation."""
        settings = self.settings
        return {
            "samples": settings.samples_per_prompt,
            "seed": settings.seed,
            "max_new_tokens": settings.max_new_tokens,
        }


_ROLES = ("target", "retrained")
"""Labels that every training run has alike."""


def _label_of(source: Path) -> str:
    """A run's own label, or the folder's name for a training run, whose label is a role shared with other runs."""
    run = source / "run.json"
    label = str(read_json(run).get("label", source)) if run.exists() else source.name
    return source.resolve().name if label in _ROLES else label


def _training_facts(run: Path) -> dict[str, Any]:
    """For a tiny model, facts of its training on whether it knows its texts by heart; empty for other models."""
    results = read_json(run).get("results", {}) if run.exists() else {}
    return {name: results[name] for name in ("memorized", "last_epoch_loss") if name in results}


class LocalModel:
    """A model on this machine: a run, a folder (full, delta, or adapter merged by export) or a hub id."""

    def __init__(self, source: str, device: str = "auto", label: str | None = None) -> None:
        self.source, self._device = source, device
        self.label = label or _label_of(Path(source))
        self._model: Any = None
        self._chat_template: str | None = None

    def identity(self) -> Any:
        """Part of the run's key: equal identities mean equal models."""
        from medunlearn.models.folders import model_identity

        return model_identity(self.source)

    def unit(self, settings: AuditSettings) -> Unit:
        if settings.tokenizer is not None:
            raise ConfigError(["tokenizer: a model on this machine has its own; leave it out"])
        from medunlearn.models.folders import model_folder
        from medunlearn.models.pretrained import load_tokenizer

        folder = Path(model_folder(self.source))
        tokenizer = load_tokenizer(folder) if folder.is_dir() else self._loaded(settings).tokenizer
        chat = bool(getattr(tokenizer, "chat_template", None))
        if settings.template == "chat" and not chat:
            raise ConfigError(
                [
                    f"template: the tokenizer of {self.label} has no chat template. Leave --template out, or save "
                    "the tokenizer with one"
                ]
            )
        # Beginnings are given as they are, whatever the tokenizer has.
        self._chat_template = "used" if settings.template == "chat" else "not used" if chat else "none"
        return unit_of(tokenizer, self.label)

    def check(self, corpora: Sequence[Corpus], settings: AuditSettings) -> None:
        return

    def answer(self, job: AuditJob, advance: Callable[[int], None]) -> dict[Key, str]:
        """Store the responses; returns the reason of each missing one."""
        stored, keys = job.store.read(), job.keys()
        if all(key in stored for key in keys):
            advance(len(keys))
            return {}
        from medunlearn.generation.continuations import Opening, continue_openings, refuse_too_long

        settings, model = job.settings, self._loaded(job.settings)

        def opening(probe: Probe) -> Opening:
            suffix = tuple(probe.encoded.ids.tolist())
            if probe.way == PREFIX and probe.prefix_ids is not None:
                return Opening(probe.probe_id, probe.record_id, tuple(probe.prefix_ids.tolist()), suffix)
            prompt = prompt_tokens(model.tokenizer, probe.way, probe.prefix, settings)
            return Opening(probe.probe_id, probe.probe_id, prompt, suffix, begins=True)

        openings = [opening(probe) for probe in job.probes]
        refuse_too_long(model, max(len(entry.prefix) for entry in openings), settings.max_new_tokens)
        how = {**job.sampling(), "batch_size": settings.batch_size}
        for decoding in job.decodings:
            continue_openings(model, openings, decoding, job.store, advance=advance, **how)
        return {}

    def facts(self) -> dict[str, Any]:
        facts = {"kind": "local", "source": self.source, "chat_template": self._chat_template}
        return facts | _training_facts(Path(self.source) / "run.json")

    def _loaded(self, settings: AuditSettings) -> Any:
        if self._model is None:
            from medunlearn.generation.vllm_backend import load_vllm
            from medunlearn.models.folders import model_folder
            from medunlearn.models.load import load_model

            if settings.backend == "vllm":
                self._model = load_vllm(model_folder(self.source), weights=settings.weights)
                return self._model
            self._model = load_model(
                model_folder(self.source),
                device=self._device,
                weights=settings.weights,
                allow_broken=settings.allow_broken,
            )
        return self._model

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the model's weights; empty if the model was not loaded."""
        return self._model.problems if self._model is not None else ()


@dataclass
class ServedModel:
    """A model behind an OpenAI-compatible server: its completions for beginnings, its chat for ``template=chat``.

    Attributes:
        permitted: the user allows protected texts to leave this machine.
        problems: always empty, since its weights cannot be inspected.
    """

    label: str
    server: ServerSettings
    permitted: bool
    problems: tuple[str, ...] = ()
    _facts: dict[str, Any] = field(default_factory=dict)

    def identity(self) -> Any:
        return ["server", self.server.name, self.server.extra]

    def unit(self, settings: AuditSettings) -> Unit:
        return unit_without_model(settings.tokenizer)

    def check(self, corpora: Sequence[Corpus], settings: AuditSettings) -> None:
        """Refuse texts that may not leave this machine, before any work starts."""
        self._decision(corpora, settings).enforce()

    def answer(self, job: AuditJob, advance: Callable[[int], None]) -> dict[Key, str]:
        """Store the responses; returns the reason of each missing one."""
        from medunlearn.generation.server import ServerPrompt, continue_on_server

        # Where nobody looked for identifiers, open texts are taken to have none.
        unknown = () if prompts_use(job.corpora, job.settings) == "open" else None
        identifiers = {
            document.note_id: unknown
            if document.identifiers is None
            else tuple(identifier.value for identifier in document.identifiers)
            for corpus in job.corpora
            for document in corpus.documents
        }
        prefixes = {probe.probe_id: probe.before for probe in job.probes}

        def text(probe: Probe) -> str | tuple[Message, ...]:
            if probe.way == PREFIX:
                return probe.prefix
            if job.settings.template == "chat":
                return (Message("user", message_of(probe.way, probe.prefix)),)
            return prompt_text(probe.way, probe.prefix, job.settings)

        def tokens(keys: Sequence[str], texts: Sequence[str]) -> list[tuple[int, ...]]:
            encoded = continuations(job.unit, [prefixes[key] for key in keys], texts)
            return [tuple(encoding.ids.tolist()) for encoding in encoded]

        decision = self._decision(job.corpora, job.settings)
        prompts = [ServerPrompt(p.probe_id, text(p), identifiers.get(p.record_id, unknown)) for p in job.probes]
        lacking = continue_on_server(
            self.server,
            decision,
            prompts,
            job.decodings,
            job.store,
            tokens,
            folder=job.store.folder.parent / "llm",
            advance=advance,
            **job.sampling(),
        )
        self._facts = {"guard": decision.to_json(), "unanswered": len(lacking.reasons)}
        if lacking.may_come and not job.settings.allow_missing:
            first = next(iter(lacking.reasons.values()))
            raise MedunlearnError(
                f"{len(lacking.reasons)} of {len(job.keys())} responses are missing: {first} Received responses "
                f"are stored. {next_step(lacking.permanent)}, or finish without them: --allow-missing."
            )
        return lacking.reasons

    def facts(self) -> dict[str, Any]:
        return {"kind": "server", "server": self.server.model_dump(mode="json"), **self._facts}

    def _decision(self, corpora: Sequence[Corpus], settings: AuditSettings) -> Any:
        records = (Record(d.note_id, d.text, {}, d.identifiers or ()) for c in corpora for d in c.documents)
        use = prompts_use(corpora, settings)
        return decide(self.server.base_url, data_use=use, records=records, permitted=self.permitted)


AuditedModel = LocalModel | ServedModel


def audited_model(
    model: str,
    *,
    name: str | None = None,
    llm: Mapping[str, Any] | None = None,
    permitted: bool = False,
    label: str | None = None,
    device: str = "auto",
) -> AuditedModel:
    """The model that an argument names: a run, a folder or a hub id; or ``http://...`` with ``name``, or
    ``NAME@http://...``.

    Raises:
        ConfigError: a server without a model's name, or wrong settings of it.
    """
    before, at, url = model.partition("@http")
    if model.startswith(("http://", "https://")) or at:
        served, address = (before, "http" + url) if at else (name, model)
        if not served:
            raise ConfigError(["--model-name is missing: the model, as the server calls it"])
        server = check(ServerSettings, {**(llm or {}), "base_url": address, "model": served})
        return ServedModel(label or server.name, server, permitted)
    return LocalModel(model, device, label)


def relabel(model: AuditedModel, labels: Sequence[str]) -> AuditedModel:
    """Give a model an unused label: first its folder's name is added, then a number."""
    if model.label in labels and isinstance(model, LocalModel):
        model.label = f"{model.label} ({Path(model.source).name})"
    number, label = 2, model.label
    while model.label in labels:
        model.label, number = f"{label} {number}", number + 1
    return model


def prompts_use(corpora: Sequence[Corpus], settings: AuditSettings) -> DataUse | None:
    """Data use of the texts that a model is given.

    Raises:
        ConfigError: the settings declare a credentialed corpus open.
    """
    return resolve_use(settings.data_use, {f"corpus {corpus.name}": corpus.data_use for corpus in corpora})


def audit_use(
    model: AuditedModel, corpora: Sequence[Corpus], settings: AuditSettings, folder: Path
) -> DataUse | None:
    """Data use of an audit: that of its texts and of all training data of its model, which may be reproduced.

    Raises:
        ConfigError: the settings declare credentialed data open.
    """
    sources = {f"corpus {corpus.name}": corpus.data_use for corpus in corpora}
    if isinstance(model, LocalModel):
        sources[f"model {model.source}"] = model_use(model.source)
    else:
        sources[f"model {model.label}"] = None
    return resolve_use(settings.data_use, sources | recorded_audit(folder))


def recorded_audit(folder: Path) -> dict[str, DataUse | None]:
    """The record of an existing audit as a source for :func:`resolve_use`, if it is credentialed."""
    use = recorded_use(folder)
    return {f"audit {folder}": use} if use == "credentialed" else {}
