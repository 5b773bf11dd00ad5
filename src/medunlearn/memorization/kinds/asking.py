"""A language model sorts spans into kinds (:mod:`medunlearn.llm.tasks.memorized_kind`)."""

from __future__ import annotations

from collections.abc import Mapping

from medunlearn.llm.client import Client
from medunlearn.llm.tasks import Source, write
from medunlearn.llm.tasks.memorized_kind import MemorizedKind
from medunlearn.memorization.kinds.rules import Sorted, Span


def ask_kinds(spans: Mapping[str, Span], client: Client, *, quiet: bool = False) -> dict[str, Sorted]:
    """The kind of each span by its id; without one where the model had no right answer, and why.

    Spans are records' text: what identifiers they hold nobody has looked for, so the client's guard lets them go
    to a server off this machine only with the user's permission.
    """
    sources = [Source(name, {"span": span.text}) for name, span in spans.items()]
    written = write(MemorizedKind(), sources, client, quiet=quiet)
    refused = {reject.id: Sorted(None, reject.reason) for reject in written.rejects}
    return {
        name: Sorted(str(written.results[name]["kind"])) if name in written.results else refused[name]
        for name in spans
    }
