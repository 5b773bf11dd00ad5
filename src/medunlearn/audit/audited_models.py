"""Audited models: who is audited, what counts its text, and the data use of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn.audit.units import Unit, unit_of, unit_without_model
from medunlearn.config.audit import AuditSettings
from medunlearn.data.data_use import DataUse, recorded_use, resolve_use
from medunlearn.data.records import Record
from medunlearn.errors import ConfigError
from medunlearn.probes.local_model import LocalModel
from medunlearn.probes.respondent_runs import served_model
from medunlearn.probes.respondents import Material, Respondent
from medunlearn.sources.corpus import Corpus

AuditedModel = Respondent


def audited_model(
    model: str,
    settings: AuditSettings,
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
    how: dict[str, Any] = {"label": label, "permitted": permitted, "allow_missing": settings.allow_missing}
    engine: dict[str, Any] = {key: getattr(settings, key) for key in ("weights", "backend", "allow_broken")}
    return served_model(model, name, llm, **how) or LocalModel(model, device, label, **engine)


def counting_unit(model: AuditedModel, settings: AuditSettings) -> Unit:
    """The tokens of the model, or, where it gives text alone, those of the settings' tokenizer, or words.

    Raises:
        ConfigError: a tokenizer for a model that has its own; a chat template that the model's lacks.
    """
    if model.tokenizer is None:
        return unit_without_model(settings.tokenizer)
    if settings.tokenizer is not None:
        raise ConfigError(["tokenizer: a model on this machine has its own; leave it out"])
    if settings.template == "chat" and not getattr(model.tokenizer, "chat_template", None):
        raise ConfigError(
            [
                f"template: the tokenizer of {model.label} has no chat template. Leave --template out, or save "
                "the tokenizer with one"
            ]
        )
    return unit_of(model.tokenizer, model.label)


def model_facts(model: AuditedModel, settings: AuditSettings) -> dict[str, Any]:
    """For ``run.json``: who was audited, and whether the tokenizer's chat template was used."""
    if model.tokenizer is None:
        return model.facts()
    # Beginnings are given as they are, whatever the tokenizer has.
    has_chat = bool(getattr(model.tokenizer, "chat_template", None))
    use = "used" if settings.template == "chat" else "not used" if has_chat else "none"
    return model.facts() | {"chat_template": use}


def material_of(corpora: Sequence[Corpus], settings: AuditSettings) -> Material:
    """The texts of corpora, for the guard of a server."""
    use = prompts_use(corpora, settings)
    # Where nobody looked for identifiers, open texts are taken to have none.
    unknown = () if use == "open" else None
    documents = [document for corpus in corpora for document in corpus.documents]
    records = [Record(d.record_id, d.text, {}, d.identifiers or ()) for d in documents]
    identifiers = {
        d.record_id: unknown if d.identifiers is None else tuple(found.value for found in d.identifiers)
        for d in documents
    }
    return Material(records, identifiers, use)


def relabel(model: AuditedModel, labels: Sequence[str]) -> AuditedModel:
    """Give a model an unused label: first its folder's name is added, then a number."""
    if model.label in labels and (source := model.facts().get("source")):
        model.label = f"{model.label} ({Path(source).name})"
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
    sources[f"model {model.facts().get('source', model.label)}"] = model.data_use
    return resolve_use(settings.data_use, sources | recorded_audit(folder))


def recorded_audit(folder: Path) -> dict[str, DataUse | None]:
    """The record of an existing audit as a source for :func:`resolve_use`, if it is credentialed."""
    use = recorded_use(folder)
    return {f"audit {folder}": use} if use == "credentialed" else {}
