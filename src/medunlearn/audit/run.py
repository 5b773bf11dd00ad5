"""Audit a model: draw probes, let it go on from them, and measure what it repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medunlearn.audit import stored
from medunlearn.audit.asked import (
    Asked,
    Job,
    asked,
    data_use_of,
    keys_of,
    refuse_unused,
    renamed,
    unit_without_model,
)
from medunlearn.audit.audit import BASELINES, BASELINES_FILE, PROBES, RESPONSES, VERB, Audit
from medunlearn.audit.measures import MEASURES, default_measures, get_measure
from medunlearn.audit.parts import add_parts, checked_parts
from medunlearn.audit.probes import PROBES as PROBES_SCHEMA
from medunlearn.audit.probes import Drawn, Probe, draw_probes
from medunlearn.audit.scoring import Key, score_all
from medunlearn.audit.units import Unit, WordsUnit
from medunlearn.config import check
from medunlearn.config.audit import AuditParts, AuditSettings
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.storage import read_json, write_json, write_table
from medunlearn.errors import ConfigError, InputError
from medunlearn.generation.decodings import parse_decodings
from medunlearn.progress import progress
from medunlearn.registry import names as known_names
from medunlearn.results.runs import FILE, Recording, Run
from medunlearn.sources.corpus import Corpus, read_corpora
from medunlearn.sources.notes import Columns


def audit(
    model: str | Path | None = None,
    corpus: str | Path | Sequence[str | Path] = (),
    *,
    out: Path | str,
    responses: Path | str | None = None,
    baseline: str | Path | Sequence[str | Path] = (),
    model_name: str | None = None,
    llm: Mapping[str, Any] | None = None,
    allow_remote_llm: bool = False,
    label: str | None = None,
    device: str = "auto",
    quiet: bool = False,
    **settings: Any,
) -> Audit:
    """Measure what a model repeats of texts that it may have been trained on; ``.table()`` is a DataFrame. Resumes.

    Args:
        model: a run, a model folder, a hub id, or a server's address ``http://HOST:PORT/v1``; None with
        ``responses``.
        corpus: texts, by ``PATH`` or ``NAME=PATH``: text files, tables, a benchmark.
        out: folder of the audit.
        responses: a table of stored responses instead of model and corpus; needs no torch.
        baseline: models, servers as ``NAME@http://...``, tables of responses or complete audits to compare with.
        model_name: the model as the server calls it.
        llm: settings of the server, as docs/llm.md lists them.
        allow_remote_llm: protected texts may go to a server off this machine.
        label: what tables call the model.
        settings: as `medunlearn audit --help` lists them, those of further steps among them (``identifiers=True``,
            ``kinds=True``, ``options=FILE``, ``encoder=``, ``bart=``; :mod:`medunlearn.audit.parts`).

    Raises:
        ConfigError: wrong settings, all at once.
        InputError: a corpus, file or model that cannot be used.
    """
    of_parts = {key: value for key, value in settings.items() if key.split(".")[0] in AuditParts.model_fields}
    parts = checked_parts(of_parts, model=model is not None)
    checked = check(AuditSettings, {key: value for key, value in settings.items() if key not in of_parts})
    folder = Path(out)
    words = [str(one) for one in ([corpus] if isinstance(corpus, str | Path) else corpus)]
    against = [str(one) for one in ([baseline] if isinstance(baseline, str | Path) else baseline)]
    _refuse(model, words, responses, checked)
    who: Asked | None = None
    corpora: list[Corpus] = []
    if responses is not None:
        _audit_stored(Path(responses), checked, folder, label)
    else:
        refuse_unused(str(model), model_name, llm)
        who = asked(str(model), name=model_name, llm=llm, permitted=allow_remote_llm, label=label, device=device)
        corpora = _corpora(words, checked)
        _audit_model(who, corpora, checked, folder, quiet)
    taken, others = [Run.open(folder).label], []
    for word in against:
        one, other = _baseline(word, taken, corpora, checked, folder, llm, allow_remote_llm, device, quiet)
        taken.append(Run.open(one).label)
        _remember(folder, one)
        if one.is_relative_to(folder):
            besides = add_parts(one, parts, corpora=corpora, who=other, device=device, quiet=quiet)
            others.append(besides)
    found = add_parts(folder, parts, corpora=corpora, who=who, device=device, quiet=quiet)
    return replace(Audit.open(folder), besides=found.against(others))


def _refuse(model: object, words: Sequence[str], responses: object, settings: AuditSettings) -> None:
    problems = []
    if responses is None and model is None:
        problems.append("name a MODEL and a CORPUS, or --responses with a table of stored responses")
    if responses is None and model is not None and not words:
        problems.append("name a CORPUS: text files, a table, or a benchmark's folder")
    if responses is not None and (model is not None or words):
        problems.append("--responses stands for MODEL and CORPUS: leave these out")
    for name in settings.measures:
        try:
            if get_measure(name).score is None:
                problems.append(f"measures: {name} has a model of its own: leave it out and name encoder= or bart=")
        except InputError as error:
            problems.append(f"measures: {error}")
    try:
        parse_decodings(settings.decodings)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)


def _corpora(words: Sequence[str], settings: AuditSettings) -> list[Corpus]:
    columns = Columns(
        id=settings.id_column,
        text=settings.text_column,
        subject=settings.subject_column,
        copies=settings.copies_column,
    )
    return read_corpora(words, columns)


def measures_of(settings: AuditSettings) -> tuple[str, ...]:
    """The measures asked for, or all that need no further model, plug-ins included."""
    plugins = [name for name in known_names("measures", MEASURES) if name not in MEASURES]
    return settings.measures or (*default_measures(), *plugins)


def _audit_model(who: Asked, corpora: Sequence[Corpus], settings: AuditSettings, folder: Path, quiet: bool) -> None:
    measures, decodings = measures_of(settings), parse_decodings(settings.decodings)
    unit = who.unit(settings)
    inputs = {
        "model": who.identity(),
        "unit": unit.fingerprint,
        "corpora": {corpus.name: corpus.fingerprint for corpus in corpora},
        "measures": list(measures),
        "decodings": [decoding.name for decoding in decodings],
    }
    recording = Recording(folder, VERB, who.label, settings, inputs)
    if recording.done:
        return
    who.check(corpora, settings)
    with recording.running():
        with recording.stage("probes"):
            drawn = _draw(corpora, unit, settings)
            probes = [probe for one in drawn for probe in one.probes]
            _write_probes(folder, probes)
        job = Job(probes, corpora, decodings, settings, folder)
        with recording.stage("respond"):
            store = ResponseStore(folder / RESPONSES, {"key": recording.key, "unit": unit.name})
            with progress(f"{who.label}: continuations", job.many, quiet=quiet) as advance:
                reasons = who.answer(job, store, unit, advance)
        with recording.stage("score"):
            found = store.read()
            score_all(folder, probes, keys_of(job), found, reasons, measures, unit)
        recording.info["results"] = {
            "unit": _unit_facts(unit),
            "model": who.facts(),
            "corpora": [{**corpus.facts(), **one.facts()} for corpus, one in zip(corpora, drawn, strict=True)],
            "data_use": data_use_of(corpora, settings),
            "probes": len(probes),
            "responses": len(found),
            "without_response": len(reasons),
        }


def _draw(corpora: Sequence[Corpus], unit: Unit, settings: AuditSettings) -> list[Drawn]:
    drawn = [
        draw_probes(
            corpus,
            unit,
            prefixes=settings.prefixes,
            longest=settings.max_new_tokens,
            shortest=min(settings.shortest_suffix, settings.max_new_tokens),
            sample=settings.sample,
            seed=settings.seed,
        )
        for corpus in corpora
    ]
    if isinstance(unit, WordsUnit):
        unit.seal()
    empty = [one.corpus for one in drawn if not one.probes]
    if empty:
        raise InputError(
            f"No text of {', '.join(empty)} is long enough: the shortest prefix has {settings.prefixes[0]} "
            f"{unit.noun}, and {settings.shortest_suffix} must follow. Lower prefixes or shortest_suffix."
        )
    return drawn


def _audit_stored(file: Path, settings: AuditSettings, folder: Path, label: str | None) -> None:
    measures, unit = measures_of(settings), unit_without_model(settings)
    inputs = {"model": stored.identity(file), "unit": unit.fingerprint, "measures": list(measures)}
    recording = Recording(folder, VERB, label or file.name.split(".")[0], settings, inputs)
    if recording.done:
        return
    with recording.running():
        with recording.stage("read"):
            found = stored.read_stored(file, unit, settings)
            _write_probes(folder, found.probes)
            _keep(folder, recording.key, unit, found.responses)
        with recording.stage("score"):
            score_all(folder, found.probes, found.keys, found.responses, {}, measures, unit, starts=found.starts)
        recording.info["results"] = {
            "unit": _unit_facts(unit),
            "model": {"kind": "stored responses", "source": str(file)},
            "corpora": _stored_corpora(found),
            "data_use": settings.data_use or "credentialed",
            "probes": len(found.probes),
            "responses": len(found.responses),
            "without_response": 0,
            "rows_without_suffix": found.empty,
        }


def _keep(folder: Path, key: str, unit: Unit, responses: Mapping[Key, Response]) -> None:
    store = ResponseStore(folder / RESPONSES, {"key": key, "unit": unit.name})
    known = store.read()
    missing = [response for one, response in responses.items() if one not in known]
    if missing:
        store.add(missing)


def _stored_corpora(found: stored.Stored) -> list[dict[str, Any]]:
    names = dict.fromkeys(probe.corpus for probe in found.probes)
    used = {name: {probe.record_id for probe in found.probes if probe.corpus == name} for name in names}
    return [{"name": name, "kind": "stored responses", "used": len(records)} for name, records in used.items()]


def _unit_facts(unit: Unit) -> dict[str, str]:
    return {"name": unit.name, "noun": unit.noun}


def _write_probes(folder: Path, probes: Sequence[Probe]) -> None:
    write_table(folder / PROBES, [probe.row() for probe in probes], PROBES_SCHEMA)


def _baseline(
    word: str,
    taken: Sequence[str],
    corpora: Sequence[Corpus],
    settings: AuditSettings,
    folder: Path,
    llm: Mapping[str, Any] | None,
    permitted: bool,
    device: str,
    quiet: bool,
) -> tuple[Path, Asked | None]:
    """The folder of a baseline's audit, which is made where the word names a model; and that model."""
    path = Path(word)
    if (path / FILE).exists() and read_json(path / FILE).get("verb") == VERB:
        return Run.open(path).folder, None
    for file in stored.files_of_responses(word):
        where = folder / BASELINES / _file_name(file.name.split(".")[0])
        _audit_stored(file, settings, where, None)
        return where, None
    if not corpora:
        raise InputError(
            f"{word} is neither a table of responses nor an audit: stored responses are compared with one of these."
        )
    who = renamed(asked(word, llm=llm, permitted=permitted, device=device), taken)
    where = folder / BASELINES / _file_name(who.label)
    _audit_model(who, corpora, settings, where, quiet)
    return where, who


def _file_name(label: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in label)[:60]


def _remember(folder: Path, baseline: Path) -> None:
    path = folder / BASELINES_FILE
    known = read_json(path)["folders"] if path.exists() else []
    inside = baseline.is_relative_to(folder)
    name = str(baseline.relative_to(folder)) if inside else str(baseline.resolve())
    write_json(path, {"folders": list(dict.fromkeys([*known, name]))})
