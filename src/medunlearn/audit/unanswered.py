"""Responses that measure no memory: refusals, empty answers, calls of tools, reasoning that was cut.

Such a response is unscored with its reason, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medunlearn.audit.audit_tables import Key
from medunlearn.audit.extraction import LEAK, NO_RESPONSE
from medunlearn.data.refusals import REFUSED, is_refusal
from medunlearn.data.responses import EMPTY, REASONING, Response
from medunlearn.data.storage import read_json
from medunlearn.errors import MedunlearnError
from medunlearn.metrics.verbatim import longest_run
from medunlearn.reports.formatting import count
from medunlearn.results.scores import read_scores

if TYPE_CHECKING:
    from medunlearn.audit.probes import Probe

_LEAK = 10
"""A response that opens with a refusal and shares a run of so many tokens with the true text is none."""


def unanswered(responses: Mapping[Key, Response], probes: Mapping[str, Probe]) -> dict[Key, str]:
    """The reason of each response that measures no memory."""
    reasons = ((key, _why(response, probes[key[0]])) for key, response in responses.items())
    return {key: reason for key, reason in reasons if reason}


def _why(response: Response, probe: Probe) -> str:
    text = response.response
    if reason := response.unanswered:
        return reason
    if not text.strip():
        return EMPTY if response.content == "empty" else ""
    opening = text.lstrip()
    if response.cut and opening.startswith(("<think>", "<thinking>")) and "</think" not in opening:
        return REASONING
    if not is_refusal(text) or is_refusal(probe.suffix):
        return ""
    ids = np.array(response.response_tokens, dtype=np.uint32)
    return "" if longest_run(ids, probe.encoded.ids).length >= _LEAK else REFUSED


def answer_facts(responses: Iterable[Response], reasons: Mapping[Key, str], max_new_tokens: int) -> dict[str, Any]:
    """Counts of an audit's responses for ``run.json``; nothing of their text.

    Returns:
        ``unanswered`` (reason -> number of responses); of servers: ``cut`` (ended by the server before
        ``max_new_tokens``), ``shortest_cut`` (tokens of the shortest of these), ``asked_tokens``, ``reasoning``
        (with reasoning apart from the answer), ``uncounted`` (without a count of the prompt's tokens),
        ``served_models`` (name in the reply -> number), and ``refused_fields`` (sampling fields that the server
        refused).
    """
    stored = list(responses)
    cut = [length for response in stored if (length := _cut_at(response, max_new_tokens)) is not None]
    served = Counter(response.served_model for response in stored if response.served_model)
    fields = {name for response in stored for name in response.refused_fields or ()}
    facts: dict[str, Any] = {
        "unanswered": dict(Counter(reasons.values())),
        "cut": len(cut),
        "shortest_cut": min(cut, default=None),
        "asked_tokens": max_new_tokens,
        "reasoning": sum(response.reasoning is not None for response in stored),
        "uncounted": sum(r.content is not None and r.prompt_tokens is None for r in stored),
        "served_models": dict(served),
        "refused_fields": sorted(fields),
    }
    return facts


def _cut_at(response: Response, asked: int) -> int | None:
    """The server's tokens of a response that it ended before the length asked for; None for every other one."""
    tokens = response.completion_tokens
    return tokens if response.cut and tokens is not None and tokens < asked else None


def answer_notes(results: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on what limits an audit's responses, from its ``run.json``; none for older audits.

    Args:
        results: of ``run.json``, with those of :func:`answer_facts` under ``answers``.
    """
    facts, total = results.get("answers") or {}, results.get("responses", 0)
    if unread := facts.get("unanswered"):
        reasons = "; ".join(f"{reason}: {number:,}" for reason, number in unread.items())
        prompts = total + results.get("without_response", 0)
        yield f"{sum(unread.values()):,} of {prompts:,} prompts have no response that was scored ({reasons})."
    asked = results.get("model", {}).get("server", {}).get("model")
    if facts.get("cut"):
        yield (
            f"{facts['cut']:,} of {total:,} responses were cut by the server, the shortest after "
            f"{facts['shortest_cut']:,} of {facts['asked_tokens']:,} tokens: what would have followed is unknown. "
            "Look at its context and its limit on answers."
        )
    others = [name for name in facts.get("served_models", {}) if asked and name.casefold() != asked.casefold()]
    if others:
        yield f"The model asked for is {asked}; the server answered as {', '.join(others)}. Is that the same model?"
    if facts.get("refused_fields"):
        yield (
            f"The server refused {', '.join(facts['refused_fields'])}: its own settings of these may shape what it "
            "generated."
        )
    if facts.get("uncounted"):
        yield (
            f"The server counted no prompt tokens for {facts['uncounted']:,} responses: had it "
            "shortened their prompts, nothing would show it."
        )
    if facts.get("reasoning"):
        yield f"{facts['reasoning']:,} responses came with reasoning apart, in which nothing was looked for."


def refuse_unmeasured(folder: Path) -> None:
    """Refuse a verdict on an audit in which no subject has a score of :data:`LEAK`, or of any measure without it.

    Raises:
        MedunlearnError: says why there is none.
    """
    info, scores = read_json(folder / "run.json"), read_scores(folder)
    own = scores[scores["measure"] == LEAK]
    own = own if len(own) else scores
    if not len(own) or own["value"].notna().any():
        return
    subjects = own.drop_duplicates("subject")["reason"].fillna(NO_RESPONSE)
    counts = ", ".join(f"{reason} ({n:,})" for reason, n in subjects.value_counts().items())
    facts = info.get("results", {})
    # Why nothing is scored stands in the counts already.
    answers = {name: value for name, value in facts.get("answers", {}).items() if name != "unanswered"}
    notes = "".join(f" {note}" for note in answer_notes({**facts, "answers": answers}))
    raise MedunlearnError(
        f"Memory of {info.get('label', folder)} was not measured: none of {count(len(subjects), 'subject')} has a "
        f"response that could be scored: {counts}.{notes} Correct this and audit into another folder (--out)."
    )
