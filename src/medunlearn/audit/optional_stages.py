"""Optional audit stages (identifiers, kinds, options, semantic similarity), which can be added to a complete audit.

A stage adds a table to the audit's folder and changes none of its numbers; a complete stage is not run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from medunlearn.audit.asking import is_prompt
from medunlearn.audit.audit_result import StageResults
from medunlearn.audit.audit_tables import ATTRIBUTES, PROBES, WAY, read_tables
from medunlearn.audit.audited_models import AuditedModel, recorded_audit
from medunlearn.audit.extraction import declare_unseen
from medunlearn.audit.measures import measures_with_models
from medunlearn.audit.recall_by_kind import ALL_KINDS, OURS, RECALL, YOURS
from medunlearn.audit.semantic import add_semantic
from medunlearn.config import check
from medunlearn.config.audit import AuditParts, IdentifierSettings, KindSettings
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.config.settings import Settings
from medunlearn.data.data_use import DataUse, recorded_use
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.records import Record
from medunlearn.data.storage import read_frame, write_frame
from medunlearn.errors import ConfigError, InputError
from medunlearn.probes.served_model import ServedModel
from medunlearn.results.record import RunRecord
from medunlearn.sources.corpus import Corpus

if TYPE_CHECKING:
    from medunlearn.audit.identifiers.search import IdentifierSearch
    from medunlearn.audit.options.option_audit import OptionsAudit
    from medunlearn.audit.options.option_respondents import OptionsRespondent

_PLAIN = ("encoder", "bart", "sentence_encoder", "nli", "semantic_variant", "unseen", "infer")
_SETTINGS: Mapping[str, tuple[type[Settings], tuple[str, ...]]] = {
    "identifiers": (IdentifierSettings, ()),
    "kinds": (KindSettings, ()),
    "options": (AuditOptionsSettings, ("file", "trained_on")),
}
"""Section -> its settings, and keys that are not among these."""


def check_stages(values: Mapping[str, Any], *, model: bool) -> AuditParts:
    """The requested stages with checked settings.

    Args:
        values: ``identifiers=true``, ``kinds.clinical=notes``, ``options=FILE``, ``encoder=FOLDER``, ...
        model: True if a model is audited, False for stored responses.

    Raises:
        ConfigError: every mistake.
    """
    sections: dict[str, Any] = {}
    for key, value in values.items():
        name, _, below = key.partition(".")
        if name in _PLAIN:
            sections[key] = value
        elif below:
            sections.setdefault(name, {})[below] = value
        elif value is not False and value is not None:
            sections.setdefault(name, {}).update(_section(name, value))
    parts = check(AuditParts, sections)
    problems = []
    for name, (settings, extra) in _SETTINGS.items():
        try:
            check(settings, {key: value for key, value in (getattr(parts, name) or {}).items() if key not in extra})
        except ConfigError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
    labelled = (parts.identifiers or {}).get("labelled")
    if (
        isinstance(labelled, str)
        and labelled not in ("fresh", "held-out", "development")
        and not Path(labelled).is_file()
    ):
        problems.append(f"identifiers.labelled: there is no file {labelled}. It has text and spans, one text a row")
    if parts.options is not None and "file" not in parts.options:
        problems.append("options: name the questions, --options.file FILE")
    if parts.semantic_variant == "released_code" and not parts.bart:
        problems.append("semantic_variant=released_code: name --bart, whose tokenizer cuts the texts")
    if parts.infer and not model:
        problems.append("infer: stored responses have no columns; audit a model on a table or a benchmark")
    if parts.options is not None and not model:
        problems.append("options: stored responses are no model to ask; mu.audit_options takes stored ones")
    if problems:
        raise ConfigError(problems)
    return parts


def _section(name: str, value: Any) -> Mapping[str, Any]:
    """The section that a single value is short for: true, a mapping, or, for options, the file."""
    if value is True:
        return {}
    if isinstance(value, Mapping):
        return value
    if name == "options":
        return {"file": value}
    raise ConfigError([f"{name}={value!r}: give true, or its settings: {name}.KEY=VALUE"])


def run_stages(
    folder: Path,
    parts: AuditParts,
    *,
    measures: Sequence[str] = (),
    corpora: Sequence[Corpus] = (),
    model: AuditedModel | None = None,
    device: str = "auto",
    quiet: bool = False,
    allow_broken: bool = False,
) -> StageResults:
    """Run the stages, each after the stages whose tables it reads.

    Args:
        folder: folder of a complete audit.
        measures: measures that were asked for by name; those with a model of their own are a stage.
        corpora: corpora of the audit; none: the texts of its probes.
        model: audited model; None with stored responses.
        allow_broken: of the audit.

    Raises:
        InputError: another process writes to the folder.
    """
    identifiers = kinds = options = None
    with lock_folder(folder, "audit"):
        if parts.unseen:
            declare_unseen(folder, parts.unseen)
        if parts.infer:
            write_attributes(folder, parts.infer, corpora)
        if measures_with_models(measures, parts):
            add_semantic(folder, parts, measures, device=device, quiet=quiet)
        if parts.identifiers is not None:
            identifiers = _search_identifiers(folder, check(IdentifierSettings, parts.identifiers), corpora, quiet)
        if parts.kinds is not None:
            from medunlearn.audit.kinds.memorized_spans import texts_of
            from medunlearn.audit.kinds.sorting import sort_spans

            kinds = sort_spans(read_tables(folder), check(KindSettings, parts.kinds), texts_of(corpora))
        if parts.options is not None and model is not None:
            section = {"allow_broken": allow_broken, **parts.options}
            options = _audit_options(folder, section, model, device, quiet)
        plain = {"semantic_variant", "unseen", "infer"}
        if parts.infer or any(value is not None for value in parts.model_dump(exclude=plain).values()):
            RunRecord.read(folder).with_tables(folder).write(folder)
    return StageResults(identifiers, kinds, options)


def write_attributes(folder: Path, columns: Sequence[str], corpora: Sequence[Corpus]) -> None:
    """Write ``attributes.parquet``: the values of sensitive columns, by record."""
    rows = [
        (document.note_id, column, document.values[column])
        for corpus in corpora
        for document in corpus.documents
        for column in columns
        if document.values.get(column)
    ]
    write_frame(folder / ATTRIBUTES, pd.DataFrame(rows, columns=["record_id", "column", "value"]), index=False)


def _search_identifiers(
    folder: Path, settings: IdentifierSettings, corpora: Sequence[Corpus], quiet: bool
) -> IdentifierSearch:
    from medunlearn.audit.identifiers.outputs import read_audit, response_tokens
    from medunlearn.audit.identifiers.search import IdentifierSearch

    documents = [document for corpus in corpora for document in corpus.documents]
    records = [Record(document.note_id, document.text, {}, document.identifiers or ()) for document in documents]
    subjects = {document.note_id: document.patient for document in documents}
    records, tokens = records or _probed_records(folder), response_tokens(folder)
    search = IdentifierSearch(
        read_audit(folder), records, subjects, settings, folder, tokens, recorded_use(folder), quiet=quiet
    )
    search.tables()
    _write_recall(folder, settings)
    return search


def _write_recall(folder: Path, settings: IdentifierSettings) -> None:
    """Write the detectors' recall on our notes or the user's, by kind and by style, for the first screen."""
    from medunlearn.audit.identifiers.detectors import make_detectors
    from medunlearn.audit.identifiers.labelled_notes import half_of, labelled_styles, labelled_texts
    from medunlearn.audit.identifiers.recall import detector_recall, recall_by_style

    detector = make_detectors(settings.detectors)
    if detector is None:
        (folder / RECALL).unlink(missing_ok=True)
        return
    texts = labelled_styles() if settings.labelled is None else labelled_texts(settings.labelled)
    whose = YOURS if settings.labelled is not None and half_of(settings.labelled) is None else OURS
    table = detector_recall(detector, texts).assign(style=ALL_KINDS)
    if half := half_of(settings.labelled or "fresh"):
        styles = recall_by_style(detector, half, (ALL_KINDS,)).rename(columns={"group": "kind"})
        table = pd.concat([table, styles[styles["style"] != ALL_KINDS]], ignore_index=True)
    write_frame(folder / RECALL, table.assign(detector=detector.name, notes=whose))


def review_audit(folder: Path, out: Path, **sampling: Any) -> Path:
    """Write a review sheet of the findings of an audit's stage ``identifiers``, without a new search.

    Args:
        sampling: as for :func:`~medunlearn.audit.identifiers.review.write_review`.

    Raises:
        InputError: the audit's responses were not searched, or ``out`` holds a sheet.
    """
    from medunlearn.audit.identifiers.finding_shares import FINDINGS
    from medunlearn.audit.identifiers.outputs import read_audit
    from medunlearn.audit.identifiers.review import write_review
    from medunlearn.audit.identifiers.sensitive import SENSITIVE

    tables = [read_frame(folder / name) for name in (FINDINGS, SENSITIVE) if (folder / name).exists()]
    if not tables:
        raise InputError(f"The responses of {folder} were not searched. Run its audit again with --identifiers.")
    findings = pd.concat(tables, ignore_index=True)
    return write_review(read_audit(folder), _probed_records(folder), findings, out, **sampling)


def _probed_records(folder: Path) -> list[Record]:
    """Records as far as the probes cover them: the longest prefix with its suffix, or the answer to a prompt."""
    probes = read_frame(folder / PROBES)
    longest = probes.sort_values("prefix_tokens").drop_duplicates("record_id", keep="last")
    return [
        Record(str(row["record_id"]), f"{'' if is_prompt(row.get(WAY)) else row['prefix']}{row['suffix']}", {})
        for row in longest.to_dict("records")
    ]


def _audit_options(
    folder: Path, section: Mapping[str, Any], model: AuditedModel, device: str, quiet: bool
) -> OptionsAudit:
    from medunlearn.audit.options.option_audit import CHOICES, OPTIONS, groups_of, run_options

    respondent, use, settings = options_respondent(section, model, device, **recorded_audit(folder))
    file, trained_on = Path(section["file"]), section.get("trained_on")
    results = run_options(respondent, file, settings, folder / "options", data_use=use, quiet=quiet)
    groups = groups_of(trained_on)
    for name, table in ((OPTIONS, results.options), (CHOICES, results.choices.drop(columns="log_probs"))):
        write_frame(folder / name, table.assign(group=table["question_id"].map(groups).astype("string")))
    return replace(results, label=model.label, groups=groups)


def options_respondent(
    section: Mapping[str, Any], model: AuditedModel, device: str, **sources: DataUse | None
) -> tuple[OptionsRespondent, DataUse | None, AuditOptionsSettings]:
    """The respondent of the stage ``options``, its data use, and its settings.

    Args:
        sources: further inputs of the stage -> their data use.

    Raises:
        ConfigError: the settings declare credentialed data open.
        RemoteRefusedError: the questions must stay on this machine.
    """
    from medunlearn.audit.options.option_audit import make_respondent, options_use

    values = dict(section)
    file, trained_on = Path(values.pop("file")), values.pop("trained_on", None)
    settings = check(AuditOptionsSettings, values)
    if isinstance(model, ServedModel):
        use = options_use(settings, file, trained_on, **sources)
        server = model.server.model_dump()
        return make_respondent(settings, file, use, llm=server, permitted=model.permitted), use, settings
    source = str(model.facts()["source"])
    use = options_use(settings, file, trained_on, source, **sources)
    return make_respondent(settings, file, use, source, device=device), use, settings
