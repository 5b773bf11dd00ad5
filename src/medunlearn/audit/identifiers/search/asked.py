"""Sensitive content as a language model sees it, in the columns of what term lists find."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from medunlearn.audit.identifiers.findings import Output, as_frame, place_of
from medunlearn.audit.identifiers.text import Text, words_of
from medunlearn.data.records import Record
from medunlearn.judging.writing import Source, task_class, write
from medunlearn.judging.writing.writing import Reject
from medunlearn.llm.client import Client

TASK = "sensitive_content"


def ask_sensitive(
    outputs: Sequence[Output], records: Iterable[Record], client: Client, *, quiet: bool = False
) -> tuple[pd.DataFrame, tuple[Reject, ...]]:
    """What a model names as sensitive in a response and its record; code has checked that it stands in both.

    Records go to the model's server, so the client's guard decides first: off this machine only with permission.

    Returns:
        Columns of findings, ``kind`` being a row of Table 10 or a group of identifiers and ``detector`` the model;
        and the responses that have no answer, with the reason. Those were not searched: they are no responses
        without sensitive content.
    """
    sources = sensitive_sources(outputs, records)
    written = write(task_class(TASK)(), [source for _, source in sources.values()], client, quiet=quiet)
    rows = [
        row
        for name, value in written.results.items()
        for row in _rows(sources[name][0], value["pieces"], client.settings.name)
    ]
    return as_frame(rows), written.rejects


def sensitive_sources(outputs: Sequence[Output], records: Iterable[Record]) -> dict[str, tuple[Output, Source]]:
    """What is asked: ``response-N``, of the n-th response, with the response."""
    by_id = {one.record_id: one for one in records}
    sources = {}
    for number, output in enumerate(outputs):
        record = by_id[output.record_id]
        known = tuple(one.value for one in record.identifiers) or None
        fields = {"record": record.text, "response": output.response}
        sources[f"response-{number}"] = (output, Source(f"response-{number}", fields, known))
    return sources


def _rows(output: Output, pieces: Sequence[dict[str, str]], model: str) -> Iterator[dict[str, Any]]:
    said, given = Text.of(output.response), f" {' '.join(words_of(output.prefix))} "
    for piece in pieces:
        words = words_of(piece["quote"])
        between = r"[\W_]+".join(map(re.escape, words))
        match = re.search(rf"(?<![^\W_]){between}(?![^\W_])", output.response, re.IGNORECASE)
        if match is not None:
            yield {
                **place_of(output, said, match.start(), match.end()),
                "kind": piece["category"],
                "key": " ".join(words),
                "match": "detected",
                "similarity": 1.0,
                "detector": model,
                "owner": "record",
                "owner_record": output.record_id,
                "owners": 1,
                "in_record": True,
                "in_prefix": f" {' '.join(words)} " in given,
            }
