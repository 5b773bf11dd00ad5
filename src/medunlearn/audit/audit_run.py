"""Audit a model: draw probes, let it continue them, and measure what it repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_tables import BASELINES, BASELINES_FILE, PROBES, RESPONSES, VERB, shared_probes
from medunlearn.audit.audited_models import (
    AuditedModel,
    audit_use,
    audited_model,
    counting_unit,
    material_of,
    model_facts,
    recorded_audit,
    relabel,
)
from medunlearn.audit.extraction import refuse_unknown
from medunlearn.audit.measures import measure_problems, plain_measures
from medunlearn.audit.optional_stages import check_stages, options_respondent, run_stages
from medunlearn.audit.probe_scoring import ProbeResponses, score_all
from medunlearn.audit.probes import Probe, draw_probes, write_probes
from medunlearn.audit.stored_probes import read_stored
from medunlearn.audit.units import Unit, WordsUnit, continuations, unit_without_model
from medunlearn.config import check
from medunlearn.config.audit import AuditParts, AuditSettings
from medunlearn.data.data_use import resolve_use, use_of_file
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import read_whole
from medunlearn.data.responses import ResponseStore, responses_digest
from medunlearn.data.storage import read_frame, read_json, write_json
from medunlearn.errors import ConfigError, InputError
from medunlearn.generation.decodings import parse_decodings
from medunlearn.metrics import own_measures
from medunlearn.models.health import answer_problems, refuse_broken
from medunlearn.probes.respondents import Asking, Key, Material
from medunlearn.probes.stored_responses import StoredResponses, is_table
from medunlearn.progress import progress
from medunlearn.results.runs import FILE, Recording, Run
from medunlearn.sources.column_prompts import columns_of
from medunlearn.sources.corpus import Corpus, read_corpora
from medunlearn.sources.notes import NoteColumns

Paths = str | Path | Sequence[str | Path]


def audit(
    model: str | Path | None = None,
    corpus: Paths = (),
    *,
    out: Path | str,
    responses: Path | str | None = None,
    references: Path | str | None = None,
    baseline: Paths = (),
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
        responses: stored responses instead of model and corpus: a table, an Inspect log, ``lm_eval --log_samples``,
            an OpenAI batch output; needs no torch.
        references: table of prefixes and true texts by ``custom_id`` or ``record_id``, for responses without them.
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
        ModelError: a broken model, unless ``allow_broken``; what it answered is kept.
    """
    of_stages = {key: value for key, value in settings.items() if key.split(".")[0] in AuditParts.model_fields}
    parts = check_stages(of_stages, model=model is not None)
    checked = check(AuditSettings, {key: value for key, value in settings.items() if key not in of_stages})
    sources, baselines = _words(corpus), _words(baseline)
    _refuse(model, sources, responses, checked, parts)
    folder, audited, corpora = Path(out), None, []
    reference_file = _reference_file(references)
    if responses is not None:
        _audit_stored(Path(responses), checked, folder, label, reference_file, quiet)
    else:
        if (model_name or llm) and "http" not in str(model):
            raise InputError(
                f"{model} is not a server address: --model-name and llm.KEY=VALUE are for http://HOST:PORT/v1."
            )
        how = {"llm": llm, "permitted": allow_remote_llm, "label": label, "device": device}
        audited = audited_model(str(model), checked, name=model_name, **how)  # type: ignore[arg-type]
        corpora = _corpora(sources, checked)
        refuse_unknown(parts.unseen, [corpus.name for corpus in corpora])
        if parts.options is not None:
            # What it refuses is refused before anything is sent.
            use = audit_use(audited, corpora, checked, folder)
            whole: Any = {f"audit {folder}": use} if use == "credentialed" else {}
            options_respondent(parts.options, audited, device, **whole)
        _audit_model(audited, corpora, checked, folder, quiet)
    _refuse_broken(folder, checked)
    labels, others = [Run.open(folder).label], []
    run_baseline = _Baselines(folder, corpora, checked, llm, allow_remote_llm, device, quiet, reference_file)
    stages: dict[str, Any] = {"corpora": corpora, "device": device, "quiet": quiet}
    stages |= {"allow_broken": checked.allow_broken, "measures": checked.measures}
    for word in baselines:
        path, other = run_baseline(word, labels)
        _refuse_broken(path, checked)
        labels.append(Run.open(path).label)
        if path.is_relative_to(folder):
            # What the model never saw is said of the model; a baseline may not know the corpus by name.
            others.append(run_stages(path, parts.model_copy(update={"unseen": ()}), model=other, **stages))
    results = run_stages(folder, parts, model=audited, **stages)
    return replace(Audit.open(folder), stages=results.against(others))


def _reference_file(references: Path | str | None) -> Path | None:
    if references is None:
        return None
    if not Path(references).is_file():
        raise InputError(
            f"There is no file {references}. --references names a table with custom_id, prefix and suffix."
        )
    return Path(references)


def _words(paths: Paths) -> list[str]:
    return [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]


def _refuse(
    model: object, words: Sequence[str], responses: object, settings: AuditSettings, parts: AuditParts
) -> None:
    problems = []
    if responses is None and model is None:
        problems.append("name a MODEL and a CORPUS, or --responses with a table of stored responses")
    if responses is None and model is not None and not words:
        stored = isinstance(model, str | Path) and Path(model).is_file()
        hint = f"; stored responses are named with --responses {model}" if stored else ""
        problems.append(f"name a CORPUS: text files, a table, or a benchmark's folder{hint}")
    if responses is not None and (model is not None or words):
        problems.append("--responses stands for MODEL and CORPUS: leave these out")
    if responses is not None and (settings.prompt or settings.template != "plain" or settings.ways):
        problems.append("--responses were given already: leave out --prompt, --template and --ways")
    local = responses is None and "http" not in str(model)
    problems += measure_problems(settings.measures, parts, local=local)
    try:
        parse_decodings(settings.decodings)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)


def _corpora(words: Sequence[str], settings: AuditSettings) -> list[Corpus]:
    columns = {name: getattr(settings, f"{name}_column") for name in ("id", "text", "subject", "copies")}
    return read_corpora(words, NoteColumns(**columns), columns_of(settings.prompt))


@dataclass(frozen=True)
class _Drawn:
    """The probes of an audit, and how they are asked.

    Attributes:
        facts: of the corpora, for ``run.json``.
        starts: text of each response's first tokens; empty: not computed yet.
        texts: subject and text of all documents; None: those of the probes.
    """

    probes: Sequence[Probe]
    asking: Asking
    facts: Mapping[str, Any]
    starts: Mapping[Key, str] = field(default_factory=dict)
    texts: Sequence[tuple[str, str]] | None = None


def _audit_model(
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
    use = audit_use(model, corpora, settings, folder)
    recording = Recording(folder, VERB, model.label, settings, inputs, data_use=use)
    if recording.done:
        return
    if recording.info.data_use == "credentialed":  # so also where an audit that was cut off said it
        settings = settings.model_copy(update={"data_use": "credentialed"})
    material = material_of(corpora, settings)
    model.check(material)

    def draw() -> _Drawn:
        samples = [draw_probes(corpus, unit, settings) for corpus in corpora]
        if isinstance(unit, WordsUnit):
            unit.seal()
        if empty := [corpus.name for corpus, (sample, _) in zip(corpora, samples, strict=True) if not sample]:
            raise InputError(
                f"No text of {', '.join(empty)} is long enough: it needs a prefix of {settings.prefixes[0]} "
                f"{unit.noun} and {settings.shortest_suffix} more after it. Lower prefixes or shortest_suffix."
            )
        probes = [probe for sample, _ in samples for probe in sample]
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
        texts = [(document.subject, document.text) for corpus in corpora for document in corpus.documents]
        return _Drawn(probes, asking, {"corpora": facts}, texts=texts)

    _ask(recording, model, draw, settings, unit, quiet)


def _audit_stored(
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
        probes = {probe.probe_id: probe for probe in drawn.probes}
        answers = ProbeResponses(probes, store.read(), dict(drawn.starts), reasons, keys)
        _score(recording, answers, settings, unit, model.problems, drawn.texts)
        recording.info.results |= {"model": model_facts(model, settings), **drawn.facts}


def _score(
    recording: Recording,
    answers: ProbeResponses,
    settings: AuditSettings,
    unit: Unit,
    problems: Sequence[str] = (),
    texts: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Write the score tables and the part of ``run.json`` that models and stored responses have in common."""
    with recording.stage("score"):
        score_all(recording.folder, answers, names := plain_measures(settings), unit, texts)
    answered = (
        (answers.probes[key[0]].suffix, response.response, response.finished)
        for key, response in answers.responses.items()
    )
    recording.info.results = {
        "health": {"problems": [*problems, *answer_problems(answered)]},
        "unit": {"name": unit.name, "noun": unit.noun},
        "probes": len(answers.probes),
        "responses_sha256": responses_digest(answers.responses.values()),
        "responses": len(answers.responses),
        "without_response": len(answers.reasons),
        "own_measures": own_measures(names),
    }


def _refuse_unpaired(folder: Path, baseline: Path, word: str) -> None:
    """Refuse a baseline that shares no probe with the audit."""
    ours, theirs = (read_frame(path / PROBES, columns=["probe_id", "corpus"]) for path in (folder, baseline))
    if not shared_probes(ours, theirs):
        raise InputError(
            f"The baseline {word} shares none of the {len(ours):,} probes of {folder}: nothing can be compared. A "
            "probe is a record and its prefix: name records (record_id) and corpora alike, and give both the same "
            "prefixes."
        )


def _refuse_broken(folder: Path, settings: AuditSettings) -> None:
    audited = Run.open(folder)
    refuse_broken({audited.label: audited.info.problems}, allowed=settings.allow_broken)


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
    references: Path | None = None

    def __call__(self, word: str, labels: Sequence[str]) -> tuple[Path, AuditedModel | None]:
        """The folder of a baseline's audit, and its model; the audit is run first if ``word`` names a model."""
        path, model = Path(word), None
        if (path / FILE).exists() and read_json(path / FILE).get("verb") == VERB:
            folder = Run.open(path).folder
        elif is_table(path):
            folder = self._folder_of(path.name.split(".")[0])
            _audit_stored(path, self.settings, folder, None, self.references, self.quiet)
        elif not self.corpora:
            raise InputError(
                f"{word} is neither a table of responses nor an audit: stored responses are compared with one of "
                "these."
            )
        else:
            how: dict[str, Any] = {"llm": self.llm, "permitted": self.permitted, "device": self.device}
            model = relabel(audited_model(word, self.settings, **how), labels)
            folder = self._folder_of(model.label)
            _audit_model(model, self.corpora, self.settings, folder, self.quiet)
        _refuse_unpaired(self.folder, folder, word)
        name = str(folder.relative_to(self.folder) if folder.is_relative_to(self.folder) else folder.resolve())
        with lock_folder(self.folder, "audit"):
            file = self.folder / BASELINES_FILE
            folders = (read_whole(file, read_json) or {"folders": []})["folders"]
            write_json(file, {"folders": list(dict.fromkeys([*folders, name]))})
        return folder, model

    def _folder_of(self, label: str) -> Path:
        name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in label)[:60]
        return self.folder / BASELINES / name
