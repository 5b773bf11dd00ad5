"""Responses to search: of an audit's folder, or of any table that pairs records with responses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.findings import Output, ResponseTokens
from medunlearn.audit.tables import PROBES, RESPONSES, stored_responses
from medunlearn.audit.units import WordsUnit, tokenizer_in
from medunlearn.data.records import Identifier, Record
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError, ModelError, SourceError
from medunlearn.sources.tables import read_rows

_SHOWN = 5
_PROBE_COLUMNS = ("probe_id", "record_id", "subject", "prefix")
_RESPONSE_COLUMNS = ("probe_id", "variant", "sample", "response")


def read_audit(folder: Path) -> list[Output]:
    """The responses in an audit's folder.

    Raises:
        InputError: the folder has no probes or no responses, or they do not fit.
    """
    if not (folder / PROBES).exists() or not (folder / RESPONSES).is_dir():
        raise InputError(
            f"{folder} is no audit: it has no {PROBES} with {RESPONSES}/. `medunlearn audit` makes one."
        )
    rows = [(one.question_id, one.variant, one.sample, one.response) for one in stored_responses(folder).values()]
    return join_probes(pd.read_parquet(folder / PROBES), pd.DataFrame(rows, columns=list(_RESPONSE_COLUMNS)))


def join_probes(probes: pd.DataFrame, responses: pd.DataFrame) -> list[Output]:
    """Every response with its probe, in order of probe, variant and sample.

    Args:
        probes: one row per probe: probe_id, record_id, subject, prefix.
        responses: one row per response: probe_id (or question_id), variant, sample, response.

    Raises:
        InputError: a column is missing, or a response belongs to no probe.
    """
    responses = responses.rename(columns={"question_id": "probe_id"})
    _require(probes, _PROBE_COLUMNS, "probes")
    _require(responses, _RESPONSE_COLUMNS, "responses")
    by_id = {row["probe_id"]: row for row in probes.to_dict("records")}
    unknown = sorted(set(responses["probe_id"]) - set(by_id))
    if unknown:
        raise InputError(
            f"{len(unknown)} responses belong to no probe ({', '.join(map(str, unknown[:_SHOWN]))}). Are the two "
            "tables of one audit?"
        )
    rows = zip(*(responses[name] for name in _RESPONSE_COLUMNS), strict=True)
    outputs = [_output(by_id[probe], str(variant), int(sample), text) for probe, variant, sample, text in rows]
    return sorted(outputs, key=lambda output: output.key)


def response_tokens(folder: Path) -> ResponseTokens | None:
    """Tokens of an audit's responses; None if its tokenizer is not on this machine."""
    info = read_json(folder / "run.json") if (folder / "run.json").exists() else {}
    results, config = info.get("results", {}), info.get("config", {})
    if results.get("unit", {}).get("noun") == "words":
        return ResponseTokens(WordsUnit())
    source = config.get("tokenizer") or results.get("model", {}).get("source")
    try:
        unit = tokenizer_in(source) if source and Path(source).exists() else None
    except ModelError:
        return None
    if unit is None:
        return None
    stored = stored_responses(folder).items()
    return ResponseTokens(unit, {key: one.response_tokens for key, one in stored if one.response_tokens})


def read_outputs(
    path: Path | str, records: Mapping[str, Record] | None = None
) -> tuple[list[Output], list[Record]]:
    """Responses of any table, and the records that it brings itself.

    Columns: ``record_id`` and ``response``; optionally ``prefix``, ``text`` (of the record), ``subject``,
    ``probe_id``, ``variant``, ``sample``, ``identifiers`` (a list of type and value).

    Args:
        records: known already, by id; their text is not needed in the table.

    Raises:
        SourceError: rows that cannot be read, the first few with their places.
    """
    path, known = Path(path), records or {}
    outputs: list[Output] = []
    own: dict[str, Record] = {}
    problems: list[str] = []
    for place, row in read_rows(path):
        if isinstance(row, str) or _missing(row):
            problems.append(f"{place}: {row if isinstance(row, str) else _missing(row)}")
            continue
        record_id = str(row["record_id"])
        if record_id not in known and record_id not in own:
            own[record_id] = _record(record_id, row)
        outputs.append(_output_of_row(record_id, row, len(outputs)))
    if problems:
        more = f"; {len(problems)} such in all" if len(problems) > _SHOWN else ""
        raise SourceError("; ".join(problems[:_SHOWN]) + more + ".")
    if not outputs:
        raise SourceError(f"{path} has no row. It needs record_id and response, one response a row.")
    return outputs, list(own.values())


def _missing(row: Mapping[str, Any]) -> str:
    missing = ["record_id"] if row.get("record_id") in (None, "") else []
    missing += ["response"] if row.get("response") is None else []
    return f"has no {' and no '.join(missing)}" if missing else ""


def _record(record_id: str, row: Mapping[str, Any]) -> Record:
    declared = row.get("identifiers") or ()
    complete = [one for one in declared if isinstance(one, Mapping) and one.get("type") and one.get("value")]
    identifiers = tuple(Identifier(str(one["type"]), str(one["value"])) for one in complete)
    return Record(record_id, str(row.get("text") or ""), {}, identifiers)


def _output_of_row(record_id: str, row: Mapping[str, Any], number: int) -> Output:
    return Output(
        record_id=record_id,
        probe_id=str(row.get("probe_id") or f"{record_id}@{number}"),
        subject=str(row.get("subject") or record_id),
        variant=str(row.get("variant") or "greedy"),
        sample=int(row.get("sample") or 0),
        prefix=str(row.get("prefix") or ""),
        response=str(row["response"]),
    )


def _output(probe: Mapping[Any, Any], variant: str, sample: int, text: str) -> Output:
    record, subject = str(probe["record_id"]), str(probe["subject"])
    return Output(record, str(probe["probe_id"]), subject, variant, sample, str(probe["prefix"] or ""), text)


def _require(table: pd.DataFrame, columns: tuple[str, ...], name: str) -> None:
    missing = [column for column in columns if column not in table]
    if missing:
        raise InputError(f"The table of {name} lacks {', '.join(missing)}; it has {', '.join(map(str, table))}.")
