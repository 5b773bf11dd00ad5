"""What models said, from an audit's folder or from any table that pairs records with responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.findings import Output
from medunlearn.audit.identifiers.places import Tokens
from medunlearn.audit.units import WordsUnit, tokenizer_in
from medunlearn.data.records import Identifier, Record
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError, ModelError, SourceError
from medunlearn.sources.tables import read_rows

PROBES, RESPONSES = "probes.parquet", "responses"
_SHOWN = 5


@dataclass(frozen=True)
class Frames:
    """The two tables of an audit that are read here.

    Attributes:
        probes: one row a probe: probe_id, record_id, subject, prefix; further columns are passed over.
        responses: one row a response: probe_id (or question_id), variant, sample, response.
    """

    probes: pd.DataFrame
    responses: pd.DataFrame


def frames(folder: Path) -> Frames:
    """The tables in an audit's folder.

    Raises:
        InputError: the folder has no probes or no responses.
    """
    if not (folder / PROBES).exists() or not (folder / RESPONSES).is_dir():
        raise InputError(
            f"{folder} is no audit: it has no {PROBES} with {RESPONSES}/. `medunlearn audit` makes one."
        )
    stored = ResponseStore(folder / RESPONSES, ResponseStore.settings_of(folder / RESPONSES)).read()
    said = [(one.question_id, one.variant, one.sample, one.response) for one in stored.values()]
    return Frames(
        pd.read_parquet(folder / PROBES),
        pd.DataFrame(said, columns=["probe_id", "variant", "sample", "response"]),
    )


def outputs_of(audit: Frames) -> list[Output]:
    """Every response with its probe, in order of probe, variant and sample.

    Raises:
        InputError: a column is missing, or a response belongs to no probe.
    """
    responses = audit.responses.rename(columns={"question_id": "probe_id"})
    _need(audit.probes, ("probe_id", "record_id", "subject", "prefix"), "probes")
    _need(responses, ("probe_id", "variant", "sample", "response"), "responses")
    probes = {row["probe_id"]: row for row in audit.probes.to_dict("records")}
    strangers = sorted(set(responses["probe_id"]) - set(probes))
    if strangers:
        raise InputError(
            f"{len(strangers)} responses belong to no probe ({', '.join(map(str, strangers[:_SHOWN]))}). Are the "
            "two tables of one audit?"
        )
    columns = ("probe_id", "variant", "sample", "response")
    rows = zip(*(responses[name] for name in columns), strict=True)
    found = [_output(probes[probe], str(variant), int(sample), said) for probe, variant, sample, said in rows]
    return sorted(found, key=lambda one: (one.probe_id, one.variant, one.sample))


def tokens_of(folder: Path) -> Tokens | None:
    """What is known of the tokens of an audit's responses; None where its tokenizer is not on this machine."""
    info = read_json(folder / "run.json") if (folder / "run.json").exists() else {}
    results, config = info.get("results", {}), info.get("config", {})
    if results.get("unit", {}).get("noun") == "words":
        return Tokens(WordsUnit())
    where = config.get("tokenizer") or results.get("model", {}).get("source")
    try:
        unit = tokenizer_in(where) if where and Path(where).exists() else None
    except ModelError:
        return None
    if unit is None:
        return None
    stored = ResponseStore(folder / RESPONSES, ResponseStore.settings_of(folder / RESPONSES)).read()
    return Tokens(unit, {key: one.response_tokens for key, one in stored.items() if one.response_tokens})


def read_outputs(
    path: Path | str, records: Mapping[str, Record] | None = None
) -> tuple[list[Output], list[Record]]:
    """Responses of any table, and records for those that it brings itself.

    Columns: ``record_id`` and ``response``; where there are some, ``prefix`` (what the model was given), ``text``
    (of the record), ``subject``, ``probe_id``, ``variant``, ``sample``, ``identifiers`` (a list of type and value).

    Args:
        records: known already, by id; a table then needs no text.

    Raises:
        SourceError: rows that cannot be read, the first few with their places.
    """
    path, known = Path(path), dict(records or {})
    outputs: list[Output] = []
    own: dict[str, Record] = {}
    problems: list[str] = []
    for place, row in read_rows(path):
        problem = row if isinstance(row, str) else _lacks(row)
        if problem or isinstance(row, str):
            problems.append(f"{place}: {problem}")
            continue
        record_id = str(row["record_id"])
        if record_id not in known and record_id not in own:
            own[record_id] = _record(record_id, row)
        outputs.append(_of_row(record_id, row, len(outputs)))
    if problems:
        more = f"; {len(problems)} such in all" if len(problems) > _SHOWN else ""
        raise SourceError("; ".join(problems[:_SHOWN]) + more + ".")
    if not outputs:
        raise SourceError(f"{path} has no row. It needs record_id and response, one response a row.")
    return outputs, list(own.values())


def _lacks(row: Mapping[str, Any]) -> str:
    missing = [name for name in ("record_id", "response") if row.get(name) in (None, "") and name != "response"]
    missing += ["response"] if row.get("response") is None else []
    return f"has no {' and no '.join(missing)}" if missing else ""


def _record(record_id: str, row: Mapping[str, Any]) -> Record:
    declared = row.get("identifiers") or ()
    found = [one for one in declared if isinstance(one, Mapping) and one.get("type") and one.get("value")]
    identifiers = tuple(Identifier(str(one["type"]), str(one["value"])) for one in found)
    return Record(record_id, str(row.get("text") or ""), {}, identifiers)


def _of_row(record_id: str, row: Mapping[str, Any], number: int) -> Output:
    return Output(
        record_id=record_id,
        probe_id=str(row.get("probe_id") or f"{record_id}@{number}"),
        subject=str(row.get("subject") or record_id),
        variant=str(row.get("variant") or "greedy"),
        sample=int(row.get("sample") or 0),
        prefix=str(row.get("prefix") or ""),
        response=str(row["response"]),
    )


def _output(probe: Mapping[Any, Any], variant: str, sample: int, said: str) -> Output:
    record, subject = str(probe["record_id"]), str(probe["subject"])
    return Output(record, str(probe["probe_id"]), subject, variant, sample, str(probe["prefix"] or ""), said)


def _need(table: pd.DataFrame, columns: tuple[str, ...], name: str) -> None:
    missing = [column for column in columns if column not in table]
    if missing:
        raise InputError(f"The table of {name} lacks {', '.join(missing)}; it has {', '.join(map(str, table))}.")
