"""What an audit finds out besides, each in a step of its own: it can also be asked of an audit that is done.

A step adds a table to the audit's folder and changes none of its numbers; a step that was done of the same is not
done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from medunlearn.audit.asked import Asked, Local, OnServer
from medunlearn.audit.audit import PROBES, SCORES, SCORES_SCHEMA, Audit
from medunlearn.config import check
from medunlearn.config.audit import AuditParts
from medunlearn.config.audit_report import KindSettings
from medunlearn.config.base import Settings
from medunlearn.config.identifiers import IdentifierSettings
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.records import Record
from medunlearn.data.storage import read_json, write_atomically, write_json
from medunlearn.errors import ConfigError
from medunlearn.sources.corpus import Corpus

if TYPE_CHECKING:
    from medunlearn.audit.identifiers.search.search import Found
    from medunlearn.audit.options.run.audit import OptionsAudit
    from medunlearn.audit.options.run.respondents import Respondent

SEMANTIC_FILE = "semantic.json"
KEYS = ["probe_id", "variant", "sample"]
PLAIN = ("encoder", "bart")
SETTINGS: Mapping[str, type[Settings]] = {
    "identifiers": IdentifierSettings,
    "kinds": KindSettings,
    "options": AuditOptionsSettings,
}
OURS: Mapping[str, tuple[str, ...]] = {"options": ("file", "trained_on")}
"""Keys of a section that are none of its settings."""


@dataclass(frozen=True)
class Besides:
    """What the steps found; None where one was not asked for.

    Attributes:
        identifiers: with :attr:`~medunlearn.audit.identifiers.search.search.Found.table9` and the like.
        kinds: a row a shared run: kind, group (beneficial, uninformative, harmful), by.
        options: regenerated answer options, with ``table()``.
    """

    identifiers: Found | None = None
    kinds: pd.DataFrame | None = None
    options: OptionsAudit | None = None

    def against(self, others: Sequence[Besides]) -> Besides:
        """The same, its options beside those of the first baseline that was asked for them."""
        other = next((one.options for one in others if one.options is not None), None)
        if self.options is None or other is None:
            return self
        return replace(self, options=replace(self.options, baseline=other))


def checked_parts(values: Mapping[str, Any], *, model: bool) -> AuditParts:
    """The steps that are asked for, with their settings in order.

    Args:
        values: ``identifiers=true``, ``kinds.clinical=notes``, ``options=FILE``, ``encoder=FOLDER``, ...
        model: there is a model to ask, not stored responses alone.

    Raises:
        ConfigError: every mistake.
    """
    sections: dict[str, Any] = {}
    for key, value in values.items():
        name, _, below = key.partition(".")
        if name in PLAIN:
            sections[key] = value
        elif below:
            sections.setdefault(name, {})[below] = value
        elif value is not False and value is not None:
            sections.setdefault(name, {}).update(_section(name, value))
    parts = check(AuditParts, sections)
    problems = []
    for name, settings in SETTINGS.items():
        own = getattr(parts, name)
        if own is not None:
            try:
                check(settings, {key: value for key, value in own.items() if key not in OURS.get(name, ())})
            except ConfigError as error:
                problems += [f"{name}: {problem}" for problem in error.problems]
    if parts.options is not None and "file" not in parts.options:
        problems.append("options: name the questions, options=FILE or options.file=FILE")
    if parts.options is not None and not model:
        problems.append("options: stored responses are no model to ask; mu.audit_options takes stored ones")
    if problems:
        raise ConfigError(problems)
    return parts


def _section(name: str, value: Any) -> Mapping[str, Any]:
    """What stands for a whole section: true, its settings, or of options the file alone."""
    if value is True:
        return {}
    if isinstance(value, Mapping):
        return value
    if name == "options":
        return {"file": value}
    raise ConfigError([f"{name}={value!r}: give true, or its settings: {name}.KEY=VALUE"])


def add_parts(
    folder: Path,
    parts: AuditParts,
    *,
    corpora: Sequence[Corpus] = (),
    who: Asked | None = None,
    device: str = "auto",
    quiet: bool = False,
) -> Besides:
    """Take the steps, in the order in which one may read another's table.

    Args:
        folder: of a complete audit.
        corpora: that it is of; none: the texts of its probes.
        who: its model; None where responses alone are there.
    """
    if parts.encoder or parts.bart:
        add_semantic(folder, parts, device=device, quiet=quiet)
    found = _identifiers(folder, parts, corpora, quiet)
    kinds = _kinds(folder, parts, corpora)
    options = _options(folder, parts, who, device, quiet)
    return Besides(found, kinds, options)


def add_semantic(folder: Path, parts: AuditParts, *, device: str = "auto", quiet: bool = False) -> None:
    """Add ``bert_score`` and ``bart_score`` to ``scores.parquet``, each under the model that is named for it."""
    from medunlearn.audit.semantic import semantic_scores
    from medunlearn.pipeline.material import identity

    path = folder / SEMANTIC_FILE
    made = read_json(path) if path.exists() else {}
    named = {"bert_score": parts.encoder, "bart_score": parts.bart}
    wanted = {name: model for name, model in named.items() if model and made.get(name) != identity(model)}
    if not wanted:
        return
    audit = Audit.open(folder)
    scores, starts = audit.scores(), audit.starts().rename(columns={"suffix": "reference"})
    pairs = scores[KEYS].drop_duplicates(ignore_index=True).merge(starts, on=KEYS, how="left")
    models = {"encoder": wanted.get("bert_score"), "bart": wanted.get("bart_score")}
    found = semantic_scores(pairs, **models, device=device, quiet=quiet)
    kept = scores[~scores["measure"].isin(wanted)]
    table = pd.concat([kept, found[found["measure"].isin(wanted)]], ignore_index=True)
    columns = pa.Table.from_pandas(table, schema=SCORES_SCHEMA, preserve_index=False)
    write_atomically(folder / SCORES, lambda scratch: pq.write_table(columns, scratch, compression="zstd"))
    write_json(path, {**made, **{name: identity(model) for name, model in wanted.items()}})


def _identifiers(folder: Path, parts: AuditParts, corpora: Sequence[Corpus], quiet: bool) -> Found | None:
    if parts.identifiers is None:
        return None
    from medunlearn.audit.identifiers.search.outputs import frames, outputs_of, tokens_of
    from medunlearn.audit.identifiers.search.search import found_in

    documents = [document for corpus in corpora for document in corpus.documents]
    records = [Record(one.record_id, one.text, {}, one.identifiers or ()) for one in documents]
    subjects = {one.record_id: one.subject for one in documents}
    settings = check(IdentifierSettings, parts.identifiers)
    outputs = outputs_of(frames(folder))
    known, tokens = records or _probed(folder), tokens_of(folder)
    return found_in(outputs, known, subjects, settings, folder, tokens=tokens, quiet=quiet)


def _probed(folder: Path) -> list[Record]:
    """The records as far as the probes show them: the longest prefix with its suffix."""
    probes = pd.read_parquet(folder / PROBES, columns=["record_id", "prefix_tokens", "prefix", "suffix"])
    longest = probes.sort_values("prefix_tokens").drop_duplicates("record_id", keep="last")
    rows = longest.to_dict("records")
    return [Record(str(row["record_id"]), f"{row['prefix']}{row['suffix']}", {}) for row in rows]


def _kinds(folder: Path, parts: AuditParts, corpora: Sequence[Corpus]) -> pd.DataFrame | None:
    if parts.kinds is None:
        return None
    from medunlearn.papers.memorization.compare.frames import frames
    from medunlearn.papers.memorization.compare.sorting import sort_spans

    texts = {corpus.name: {one.record_id: one.text for one in corpus.documents} for corpus in corpora}
    return sort_spans(frames(folder), check(KindSettings, parts.kinds), texts or None)


def _options(folder: Path, parts: AuditParts, who: Asked | None, device: str, quiet: bool) -> OptionsAudit | None:
    if parts.options is None or who is None:
        return None
    from medunlearn.audit.options.run.audit import OptionsAudit, add_options, groups_of

    own = dict(parts.options)
    file, trained_on = Path(own.pop("file")), own.pop("trained_on", None)
    settings = check(AuditOptionsSettings, own)
    add_options(folder, _respondent(who, settings, device), file, settings, quiet=quiet)
    return OptionsAudit(folder / "options", who.label, settings, groups=groups_of(trained_on))


def _respondent(who: Asked, settings: AuditOptionsSettings, device: str) -> Respondent:
    if isinstance(who, OnServer):
        from medunlearn.audit.options.run.server import ServerModel

        return ServerModel(who.server.model_dump(), settings, permitted=who.permitted)
    from medunlearn.audit.options.run.local import LocalModel

    assert isinstance(who, Local)
    return LocalModel(who.source, device)
