"""Fields of a request that one server takes: what it refuses is left out from then on, and remembered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from medunlearn.llm.faults import AttemptError
from medunlearn.llm.requests import Request

STREAM, STREAM_OPTIONS = "stream", "stream_options"
_REFUSING = frozenset({400, 404, 422, 500, 501})
"""Statuses of servers for a field that they do not take."""


class FieldSupport:
    """Fields that one server takes, learned from its refusals.

    Attributes:
        refused: field of a request -> number of its values that the server refused.
    """

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._streams = self._counts = True
        self._blameless = False  # requests fail without these fields too

    def stream_fields(self, request: Request) -> dict[str, Any]:
        """Fields that ask for a streamed answer; none for log-probabilities, which some servers leave out there."""
        if not self._streams or request.log_probs is not None or request.echo:
            return {}
        return {STREAM: True, **({STREAM_OPTIONS: {"include_usage": True}} if self._counts else {})}

    def stop_streams(self) -> None:
        """Ask for whole answers from now on."""
        self._streams = False

    def left_out(self, request: Request) -> tuple[str, ...]:
        """Fields of a request of which the server refused every value."""
        return tuple(sorted(name for name, values in request.fields.items() if self.refused[name] >= len(values)))

    def adapt(self, fault: AttemptError, request: Request, body: Mapping[str, Any]) -> bool:
        """Leave out what a refusal names; True if another request without it is worth sending."""
        if fault.status not in _REFUSING:
            return False
        named = False
        for name, values in request.fields.items():
            if name in body and _names(fault.message, name):
                named = True
                at = self.refused[name]
                # Others in flight were refused the same value.
                if at < len(values) and values[at] == body[name]:
                    self.refused[name] += 1
        if STREAM in body and _names(fault.message, STREAM_OPTIONS, "include_usage"):
            named, self._counts = True, False
        elif STREAM in body and _names(fault.message, STREAM, "streaming"):
            named, self._streams = True, False
        return named

    def without(self, fault: AttemptError, request: Request, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The body without any of these fields, for a refusal that names none; None if that did not help before."""
        optional = {STREAM, STREAM_OPTIONS, *request.fields} & body.keys()
        other_cause = fault.status not in (400, 422) or fault.ends_run or fault.this_alone
        if self._blameless or other_cause or not optional:
            return None
        return {name: value for name, value in body.items() if name not in optional}

    def acquit(self) -> None:
        """Blame these fields no more for a refusal that names none."""
        self._blameless = True

    def refuse_all(self, request: Request) -> None:
        """Leave out all of these fields from now on."""
        self._streams = False
        self.refused |= Counter({name: len(values) for name, values in request.fields.items()})


def _names(message: str, *fields: str) -> bool:
    return any(re.search(rf"(?<![A-Za-z_]){field}(?![A-Za-z_])", message) for field in fields)
