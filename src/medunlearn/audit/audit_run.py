"""Audit a model: draw probes, let it continue them, and measure what it repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medunlearn.audit.audit_result import Audit
from medunlearn.audit.audit_tables import BASELINES, BASELINES_FILE, PROBES, VERB, shared_probes
from medunlearn.audit.audited_models import (
    AuditedModel,
    audit_use,
    audited_model,
    relabel,
)
from medunlearn.audit.extraction import LEAK, refuse_unknown
from medunlearn.audit.identifiers.declared import with_declared
from medunlearn.audit.identifiers.same_person import People, joined_ids, read_same_person, told_doubles
from medunlearn.audit.measures import GIVEN, measure_problems, short_measures
from medunlearn.audit.optional_stages import check_stages, options_respondent, run_stages
from medunlearn.audit.single_audit import audit_model, audit_stored
from medunlearn.audit.unanswered import refuse_unmeasured
from medunlearn.config import check
from medunlearn.config.audit import AuditParts, AuditSettings
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import read_whole
from medunlearn.data.storage import read_frame, read_json, write_json
from medunlearn.errors import ConfigError, InputError
from medunlearn.generation.decodings import parse_decodings
from medunlearn.metrics import distinct_metrics
from medunlearn.metrics.unscored import refuse_unscored
from medunlearn.models.health import refuse_broken
from medunlearn.probes.respondents import lacking_needs
from medunlearn.probes.stored_responses import is_table
from medunlearn.progress import remark
from medunlearn.results.runs import FILE, Run
from medunlearn.results.scores import read_outcomes
from medunlearn.sources.column_prompts import columns_of
from medunlearn.sources.corpus import Corpus, read_corpora
from medunlearn.sources.note_fields import NoteFields

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
        MedunlearnError: no subject could be scored; says why.
    """
    of_stages = {key: value for key, value in settings.items() if key.split(".")[0] in AuditParts.model_fields}
    parts = check_stages(of_stages, model=model is not None)
    checked = check(AuditSettings, {key: value for key, value in settings.items() if key not in of_stages})
    sources, baselines = _words(corpus), _words(baseline)
    _refuse(model, sources, responses, checked, parts)
    folder, audited, corpora = Path(out), None, []
    reference_file = _reference_file(references)
    if responses is not None:
        audit_stored(Path(responses), checked, folder, label, reference_file, quiet)
    else:
        if (model_name or llm) and "http" not in str(model):
            raise InputError(
                f"{model} is not a server address: --model-name and llm.KEY=VALUE are for http://HOST:PORT/v1."
            )
        how = {"llm": llm, "permitted": allow_remote_llm, "label": label, "device": device}
        audited = audited_model(str(model), checked, name=model_name, **how)  # type: ignore[arg-type]
        corpora = _corpora(sources, checked, parts.infer, quiet)
        refuse_unknown(parts.unseen, [corpus.name for corpus in corpora])
        if parts.options is not None:
            # What it refuses is refused before anything is sent.
            use = audit_use(audited, corpora, checked, folder)
            whole: Any = {f"audit {folder}": use} if use == "credentialed" else {}
            options_respondent(parts.options, audited, device, **whole)
        audit_model(audited, corpora, checked, folder, quiet)
    _refuse_broken(folder, checked)
    refuse_unmeasured(folder)
    labels, others = [Run.open(folder).label], []
    run_baseline = _Baselines(folder, corpora, checked, llm, allow_remote_llm, device, quiet, reference_file)
    stages: dict[str, Any] = {"corpora": corpora, "device": device, "quiet": quiet}
    stages |= {"allow_broken": checked.allow_broken, "measures": checked.measures}
    for word in baselines:
        path, other = run_baseline(word, labels)
        _refuse_broken(path, checked)
        refuse_unmeasured(path)
        labels.append(Run.open(path).label)
        if path.is_relative_to(folder):
            # What the model never saw is said of the model; a baseline may not know the corpus by name.
            others.append(run_stages(path, parts.model_copy(update={"unseen": ()}), model=other, **stages))
    results = run_stages(folder, parts, model=audited, **stages)
    gives, requested = GIVEN if audited is None else GIVEN | audited.gives, distinct_metrics(checked.measures)
    foreseen = {name for name, word in requested.items() if lacking_needs([word], gives)}
    refuse_unscored({labels[0]: read_outcomes(folder)}, requested, foreseen)
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
    if responses is not None and (
        settings.prompt or settings.template != "plain" or settings.ways or settings.probes
    ):
        problems.append("--responses were given already: leave out --prompt, --template, --ways and --probes")
    local = responses is None and "http" not in str(model)
    problems += measure_problems(settings.measures, parts, local=local)
    if short := not problems and short_measures(settings.measures or (LEAK,), settings.max_new_tokens):
        problems.append(
            f"max_new_tokens: {settings.max_new_tokens} are fewer tokens than {', '.join(short)} can be scored on. "
            "Raise it, or name other measures"
        )
    try:
        parse_decodings(settings.decodings)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)


def _corpora(words: Sequence[str], settings: AuditSettings, further: Sequence[str], quiet: bool) -> list[Corpus]:
    required = [("--prompt", name) for name in columns_of(settings.prompt)]
    required += [("--infer", name) for name in further]
    required += [("--identifier-columns", name) for name in settings.identifier_columns]
    persons = read_same_person(settings.same_person)
    corpora = read_corpora(words, NoteFields.of_settings(settings), required, joined_ids(persons))
    for corpus in corpora:
        doubles = People.of_corpus(corpus).open_doubles(persons)
        remark(f"{corpus.name}: {told_doubles(doubles)}", quiet=quiet or not doubles)
    return [with_declared(corpus, settings.identifier_columns) for corpus in corpora]


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
            audit_stored(path, self.settings, folder, None, self.references, self.quiet)
        elif not self.corpora:
            raise InputError(
                f"{word} is neither a table of responses nor an audit: stored responses are compared with one of "
                "these."
            )
        else:
            how: dict[str, Any] = {"llm": self.llm, "permitted": self.permitted, "device": self.device}
            model = relabel(audited_model(word, self.settings, **how), labels)
            folder = self._folder_of(model.label)
            audit_model(model, self.corpora, self.settings, folder, self.quiet)
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
