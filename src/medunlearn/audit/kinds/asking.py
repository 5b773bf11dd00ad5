"""A language model sorts spans into kinds (:mod:`medunlearn.audit.kinds.memorized_kind`)."""

from __future__ import annotations

from collections.abc import Mapping

from medunlearn.audit.kinds.memorized_kind import MemorizedKind
from medunlearn.audit.kinds.rules import Sorted, Span
from medunlearn.judging.writing import Reject, Source, write
from medunlearn.llm.client import Client


def sources_of(spans: Mapping[str, Span]) -> list[Source]:
    """What is asked. What identifiers a span holds nobody has looked for, and the guard is told so."""
    return [Source(name, {"span": span.text}) for name, span in spans.items()]


def ask_kinds(
    spans: Mapping[str, Span], client: Client, *, quiet: bool = False
) -> tuple[dict[str, Sorted], tuple[Reject, ...]]:
    """The kind of each span by its id; without one where the model had no right answer, and why.

    Spans are records' text: the client's guard lets them go to a server off this machine only with the user's
    permission.

    Returns:
        Also those whose answer another run may get (server, network or budget are to blame).
    """
    written = write(MemorizedKind(), sources_of(spans), client, quiet=quiet)
    refused = {reject.id: Sorted(None, reject.reason) for reject in written.rejects}
    found = {
        name: Sorted(str(written.results[name]["kind"])) if name in written.results else refused[name]
        for name in spans
    }
    return found, written.to_ask_again
