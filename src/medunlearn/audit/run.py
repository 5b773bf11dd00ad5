"""Audit a model: draw probes, let it continue them, and measure what it repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medunlearn.audit import stored
from medunlearn.audit.audit import Audit
from medunlearn.audit.measures import MEASURES, default_measures, get_measure
from medunlearn.audit.probes import PROBES_SCHEMA, Probe, ProbeSample, draw_probes
from medunlearn.audit.respondents import (
    AuditedModel,
    AuditJob,
    audited_model,
    data_use_of,
    refuse_unused,
    relabel,
    unit_without_model,
)
from medunlearn.audit.scoring import score_all
from medunlearn.audit.stages import check_stages, run_stages
from medunlearn.audit.tables import BASELINES, BASELINES_FILE, PROBES, RESPONSES, VERB
from medunlearn.audit.units import Unit, WordsUnit
from medunlearn.config import check
from medunlearn.config.audit import AuditParts, AuditSettings
from medunlearn.data.responses import ResponseStore
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
        llm: settings of the server (docs/servers.md).
        allow_remote_llm: protected texts may go to a server off this machine.
        label: model name in tables.
        settings: as `medunlearn audit --help` lists them, those of optional stages among them
            (``identifiers=True``, ``kinds=True``, ``options=FILE``, ``encoder=``, ``bart=``).

    Raises:
        ConfigError: wrong settings, all at once.
        InputError: a corpus, file or model that cannot be used.
    """
    of_stages = {key: value for key, value in settings.items() if key.split(".")[0] in AuditParts.model_fields}
    parts = check_stages(of_stages, model=model is not None)
    checked = check(AuditSettings, {key: value for key, value in settings.items() if key not in of_stages})
    corpus_words = [str(one) for one in ([corpus] if isinstance(corpus, str | Path) else corpus)]
    baseline_words = [str(one) for one in ([baseline] if isinstance(baseline, str | Path) else baseline)]
    _refuse(model, corpus_words, responses, checked)
    folder, own, corpora = Path(out), None, []
    if responses is not None:
        _audit_stored(Path(responses), checked, folder, label)
    else:
        refuse_unused(str(model), model_name, llm)
        own = audited_model(
            str(model), name=model_name, llm=llm, permitted=allow_remote_llm, label=label, device=device
        )
        corpora = _corpora(corpus_words, checked)
        _audit_model(own, corpora, checked, folder, quiet)
    taken, others = [Run.open(folder).label], []
    baselines = _Baselines(folder, corpora, checked, llm, allow_remote_llm, device, quiet)
    for word in baseline_words:
        path, other = baselines.audit(word, taken)
        taken.append(Run.open(path).label)
        baselines.record(path)
        if path.is_relative_to(folder):
            others.append(run_stages(path, parts, corpora=corpora, model=other, device=device, quiet=quiet))
    results = run_stages(folder, parts, corpora=corpora, model=own, device=device, quiet=quiet)
    return replace(Audit.open(folder), stages=results.against(others))


def measures_of(settings: AuditSettings) -> tuple[str, ...]:
    """The requested measures, or all that need no further model, plug-ins included."""
    plugins = [name for name in known_names("measures", MEASURES) if name not in MEASURES]
    return settings.measures or (*default_measures(), *plugins)


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


def _audit_model(
    model: AuditedModel, corpora: Sequence[Corpus], settings: AuditSettings, folder: Path, quiet: bool
) -> None:
    measures, decodings = measures_of(settings), parse_decodings(settings.decodings)
    unit = model.unit(settings)
    inputs = {
        "model": model.identity(),
        "unit": unit.fingerprint,
        "corpora": {corpus.name: corpus.fingerprint for corpus in corpora},
        "measures": list(measures),
        "decodings": [decoding.name for decoding in decodings],
    }
    recording = Recording(folder, VERB, model.label, settings, inputs)
    if recording.done:
        return
    model.check(corpora, settings)
    with recording.running():
        with recording.stage("probes"):
            samples = _draw(corpora, unit, settings)
            probes = [probe for sample in samples for probe in sample.probes]
            _write_probes(folder, probes)
        job = AuditJob(probes, corpora, decodings, settings, folder)
        keys = job.keys()
        with recording.stage("respond"):
            store = ResponseStore(folder / RESPONSES, {"key": recording.key, "unit": unit.name})
            with progress(f"{model.label}: continuations", len(keys), quiet=quiet) as advance:
                reasons = model.answer(job, store, unit, advance)
        with recording.stage("score"):
            responses = store.read()
            score_all(folder, probes, keys, responses, reasons, measures, unit)
        recording.info["results"] = {
            "unit": {"name": unit.name, "noun": unit.noun},
            "model": model.facts(),
            "corpora": [{**c.facts(), **sample.facts()} for c, sample in zip(corpora, samples, strict=True)],
            "data_use": data_use_of(corpora, settings),
            "probes": len(probes),
            "responses": len(responses),
            "without_response": len(reasons),
        }


def _draw(corpora: Sequence[Corpus], unit: Unit, settings: AuditSettings) -> list[ProbeSample]:
    samples = [
        draw_probes(
            corpus,
            unit,
            prefixes=settings.prefixes,
            longest=settings.max_new_tokens,
            shortest=min(settings.shortest_suffix, settings.max_new_tokens),
            sample=settings.limit,
            seed=settings.seed,
        )
        for corpus in corpora
    ]
    if isinstance(unit, WordsUnit):
        unit.seal()
    empty = [sample.corpus for sample in samples if not sample.probes]
    if empty:
        raise InputError(
            f"No text of {', '.join(empty)} is long enough: the shortest prefix has {settings.prefixes[0]} "
            f"{unit.noun}, and {settings.shortest_suffix} must follow. Lower prefixes or shortest_suffix."
        )
    return samples


def _audit_stored(file: Path, settings: AuditSettings, folder: Path, label: str | None) -> None:
    measures, unit = measures_of(settings), unit_without_model(settings)
    inputs = {"model": stored.identity(file), "unit": unit.fingerprint, "measures": list(measures)}
    recording = Recording(folder, VERB, label or file.name.split(".")[0], settings, inputs)
    if recording.done:
        return
    with recording.running():
        with recording.stage("read"):
            given = stored.read_stored(file, unit, settings)
            _write_probes(folder, given.probes)
            store = ResponseStore(folder / RESPONSES, {"key": recording.key, "unit": unit.name})
            known = store.read()
            if missing := [response for key, response in given.responses.items() if key not in known]:
                store.add(missing)
        with recording.stage("score"):
            score_all(folder, given.probes, given.keys, given.responses, {}, measures, unit, starts=given.starts)
        recording.info["results"] = {
            "unit": {"name": unit.name, "noun": unit.noun},
            "model": {"kind": "stored responses", "source": str(file)},
            "corpora": _stored_corpora(given.probes),
            "data_use": settings.data_use or "credentialed",
            "probes": len(given.probes),
            "responses": len(given.responses),
            "without_response": 0,
            "rows_without_suffix": given.empty,
        }


def _stored_corpora(probes: Sequence[Probe]) -> list[dict[str, Any]]:
    records: dict[str, set[str]] = {}
    for probe in probes:
        records.setdefault(probe.corpus, set()).add(probe.record_id)
    return [{"name": name, "kind": "stored responses", "used": len(own)} for name, own in records.items()]


def _write_probes(folder: Path, probes: Sequence[Probe]) -> None:
    write_table(folder / PROBES, [probe.row() for probe in probes], PROBES_SCHEMA)


@dataclass(frozen=True)
class _Baselines:
    """Audits of baselines with the settings of the audit in ``folder``."""

    folder: Path
    corpora: Sequence[Corpus]
    settings: AuditSettings
    llm: Mapping[str, Any] | None
    permitted: bool
    device: str
    quiet: bool

    def audit(self, word: str, taken: Sequence[str]) -> tuple[Path, AuditedModel | None]:
        """The folder of a baseline's audit, which is made if the word names a model; and that model."""
        path = Path(word)
        if (path / FILE).exists() and read_json(path / FILE).get("verb") == VERB:
            return Run.open(path).folder, None
        if stored.is_table(path):
            folder = self._folder_of(path.name.split(".")[0])
            _audit_stored(path, self.settings, folder, None)
            return folder, None
        if not self.corpora:
            raise InputError(
                f"{word} is neither a table of responses nor an audit: stored responses are compared with one of "
                "these."
            )
        model = relabel(audited_model(word, llm=self.llm, permitted=self.permitted, device=self.device), taken)
        folder = self._folder_of(model.label)
        _audit_model(model, self.corpora, self.settings, folder, self.quiet)
        return folder, model

    def record(self, path: Path) -> None:
        """Add a baseline's folder to the audit's list."""
        file = self.folder / BASELINES_FILE
        known = read_json(file)["folders"] if file.exists() else []
        name = str(path.relative_to(self.folder) if path.is_relative_to(self.folder) else path.resolve())
        write_json(file, {"folders": list(dict.fromkeys([*known, name]))})

    def _folder_of(self, label: str) -> Path:
        name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in label)[:60]
        return self.folder / BASELINES / name
