"""The audit of one model, or of stored responses: draw probes, ask them, score the responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medunlearn.audit.audit_tables import RESPONSES, VERB
from medunlearn.audit.audited_models import (
    AuditedModel,
    audit_use,
    counting_unit,
    material_of,
    model_facts,
    recorded_audit,
)
from medunlearn.audit.measures import plain_measures
from medunlearn.audit.probe_scoring import ProbeResponses, score_all
from medunlearn.audit.probes import Probe, draw_probes, probe_set, read_probe_table, write_probes
from medunlearn.audit.stored_probes import read_stored
from medunlearn.audit.unanswered import answer_facts, unanswered
from medunlearn.audit.units import Unit, WordsUnit, continuations, unit_without_model
from medunlearn.config.audit import AuditSettings
from medunlearn.config.probe_settings import read_probes
from medunlearn.data.data_use import resolve_use, use_of_file
from medunlearn.data.responses import ResponseStore, responses_digest
from medunlearn.errors import InputError
from medunlearn.generation.decodings import parse_decodings
from medunlearn.metrics import own_measures
from medunlearn.models.health import answer_problems
from medunlearn.probes.probe_set import refuse_other_material, refuse_other_probes
from medunlearn.probes.respondents import Asking, Key, Material
from medunlearn.probes.stored_responses import StoredResponses
from medunlearn.progress import progress
from medunlearn.results.runs import Recording, Run
from medunlearn.sources.corpus import Corpus


@dataclass(frozen=True)
class _Drawn:
    """The probes of an audit, and how they are asked.

    Attributes:
        facts: of the corpora, for ``run.json``.
        starts: text of each response's first tokens; empty: not computed yet.
        texts: subject and text of all documents; None without documents.
    """

    probes: Sequence[Probe]
    asking: Asking
    facts: Mapping[str, Any]
    starts: Mapping[Key, str] = field(default_factory=dict)
    texts: Sequence[tuple[str, str]] | None = None


def audit_model(
    model: AuditedModel, corpora: Sequence[Corpus], settings: AuditSettings, folder: Path, quiet: bool
) -> None:
    decodings, unit = parse_decodings(settings.decodings), counting_unit(model, settings)
    inputs = {
        "model": model.identity(),
        "unit": unit.fingerprint,
        "corpora": {corpus.name: corpus.fingerprint for corpus in corpora},
        "measures": plain_measures(settings),
        "decodings": [decoding.name for decoding in decodings],
    }
    fingerprints = {corpus.name: corpus.fingerprint for corpus in corpora}
    refuse_other_material(settings.probes, fingerprints)
    if settings.probes is not None:
        inputs["probes"] = read_probes(settings.probes)["fingerprint"]
    use = audit_use(model, corpora, settings, folder)
    recording = Recording(folder, VERB, model.label, settings, inputs, data_use=use)
    if recording.done:
        return
    if recording.info.data_use == "credentialed":  # so also where an audit that was cut off said it
        settings = settings.model_copy(update={"data_use": "credentialed"})
    material = material_of(corpora, settings)
    model.check(material)

    def draw() -> _Drawn:
        samples = _samples(corpora, unit, settings)
        if isinstance(unit, WordsUnit):
            unit.seal()
        if empty := [corpus.name for corpus, (sample, _) in zip(corpora, samples, strict=True) if not sample]:
            raise InputError(
                f"No text of {', '.join(empty)} is long enough: it needs a prefix of {settings.prefixes[0]} "
                f"{unit.noun} and {settings.shortest_suffix} more after it. Lower prefixes or shortest_suffix."
            )
        probes = [probe for sample, _ in samples for probe in sample]
        own_set = probe_set(settings, fingerprints, probes)
        refuse_other_probes(settings.probes, own_set)
        own_set.write(folder)
        before = {probe.probe_id: probe.before for probe in probes}

        def tokens(keys: Sequence[str], texts: Sequence[str]) -> list[tuple[int, ...]]:
            encoded = continuations(unit, [before[key] for key in keys], texts)
            return [tuple(encoding.ids.tolist()) for encoding in encoded]

        asking = Asking(
            [probe.prompt(settings) for probe in probes],
            material,
            settings.max_new_tokens,
            decodings,
            settings.samples_per_prompt,
            settings.seed,
            settings.batch_size,
            tokens=tokens,
        )
        facts = [{**c.facts(), **counts} for c, (_, counts) in zip(corpora, samples, strict=True)]
        texts = [(document.patient, document.text) for corpus in corpora for document in corpus.documents]
        return _Drawn(probes, asking, {"corpora": facts, "probe_set": own_set.facts()}, texts=texts)

    _ask(recording, model, draw, settings, unit, quiet)


def _samples(
    corpora: Sequence[Corpus], unit: Unit, settings: AuditSettings
) -> list[tuple[list[Probe], Mapping[str, Any]]]:
    """The probes of each corpus with their counts: drawn, or those of the probe set."""
    if settings.probes is None:
        return [draw_probes(corpus, unit, settings) for corpus in corpora]
    folder = settings.probes if settings.probes.is_dir() else settings.probes.parent
    counts = {entry["name"]: entry for entry in Run.open(folder).info.results["corpora"]}
    probes = read_probe_table(folder, unit)
    return [
        ([probe for probe in probes if probe.corpus == corpus.name], counts.get(corpus.name, {}))
        for corpus in corpora
    ]


def audit_stored(
    file: Path, settings: AuditSettings, folder: Path, label: str | None, references: Path | None, quiet: bool
) -> None:
    unit = unit_without_model(settings.tokenizer)
    model = StoredResponses(file, label or file.name.split(".")[0], references=references)
    inputs = {"model": model.identity(), "unit": unit.fingerprint, "measures": plain_measures(settings)}
    uses = {f"table {table}": use_of_file(table) for table in (file, references) if table is not None}
    use = resolve_use(settings.data_use, {**uses, **recorded_audit(folder)})
    recording = Recording(folder, VERB, model.label, settings, inputs, data_use=use)
    if recording.done:
        return

    def draw() -> _Drawn:
        stored = read_stored(file, unit, settings.max_new_tokens, references)
        model.responses, model.reasons = stored.responses, stored.reasons
        records: dict[str, set[str]] = {}
        for probe in stored.probes.values():
            records.setdefault(probe.corpus, set()).add(probe.record_id)
        kind = model.facts()["kind"]
        corpora = [{"name": name, "kind": kind, "used": len(ids)} for name, ids in records.items()]
        asking = Asking((), Material((), {}, use), settings.max_new_tokens, expected=stored.keys)
        facts = {"corpora": corpora, "rows_without_suffix": stored.empty}
        return _Drawn(list(stored.probes.values()), asking, facts, stored.starts)

    _ask(recording, model, draw, settings, unit, quiet)


def _ask(
    recording: Recording,
    model: AuditedModel,
    draw: Callable[[], _Drawn],
    settings: AuditSettings,
    unit: Unit,
    quiet: bool,
) -> None:
    """Draw the probes, ask them, and score the responses."""
    with recording.running():
        with recording.stage("probes"):
            drawn = draw()
            write_probes(recording.folder, drawn.probes)
        store = ResponseStore(
            recording.folder / RESPONSES,
            {"key": recording.key, "unit": unit.name},
            data_use=recording.info.data_use,
        )
        keys = drawn.asking.keys()
        title = f"{model.label}: continuations"
        with recording.stage("respond"), progress(title, len(keys), quiet=quiet) as advance:
            reasons = model.answer(drawn.asking, store, advance)
            store.join()
        probes = {probe.probe_id: probe for probe in drawn.probes}
        answers = ProbeResponses(probes, store.read(), dict(drawn.starts), reasons, keys)
        _score(recording, answers, settings, unit, model.problems, drawn.texts)
        recording.info.results |= {"model": model_facts(model, settings), **drawn.facts}


def _score(
    recording: Recording,
    answers: ProbeResponses,
    settings: AuditSettings,
    unit: Unit,
    problems: Sequence[str],
    texts: Sequence[tuple[str, str]] | None,
) -> None:
    """Write the score tables and the part of ``run.json`` that models and stored responses have in common."""
    missing = len(answers.reasons)
    answers.reasons |= unanswered(answers.responses, answers.probes)
    with recording.stage("score"):
        score_all(recording.folder, answers, names := plain_measures(settings), unit, texts)
    answered = (
        (answers.probes[key[0]].suffix, response.response, response.finished)
        for key, response in answers.responses.items()
        if key not in answers.reasons
    )
    facts = answer_facts(answers.responses.values(), answers.reasons, settings.max_new_tokens)
    recording.info.results = {
        "health": {"problems": [*problems, *answer_problems(answered)]},
        "unit": {"name": unit.name, "noun": unit.noun},
        "probes": len(answers.probes),
        "responses_sha256": responses_digest(answers.responses.values()),
        "responses": len(answers.responses),
        "without_response": missing,
        "answers": facts,
        "own_measures": own_measures(names),
    }
