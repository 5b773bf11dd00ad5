"""LUME: a question stays only if every verifying model finds its answer in the text, and no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from medunlearn.judging.writing.task import Sampling, Source, WritingTask
from medunlearn.judging.writing.words import same
from medunlearn.judging.writing.writing import Reject, Written, write
from medunlearn.llm.client import Client


class LumeVerify(WritingTask):
    """Answers a question from its text and lists every answer that the text allows.

    A source has ``document`` and ``question``, and not the answer; a result is ``{"answers"}``.

    Source: LUME, Section 2.3.
    """

    name: ClassVar[str] = "lume_verify"
    title: ClassVar[str] = "verification"

    def wrong(self, source: Source, value: Any) -> str:
        answers = value["answers"]
        twice = any(same(one, other) for place, one in enumerate(answers) for other in answers[place + 1 :])
        return "the same answer stands twice" if twice else ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A question to verify, with the answer that it is said to have."""

    id: str
    document: str = field(repr=False)
    question: str = field(repr=False)
    answer: str = field(repr=False)
    identifiers: tuple[str, ...] | None = field(default=None, repr=False)


def verify(
    claims: list[Claim], clients: Mapping[str, Client], *, sampling: Sampling | None = None, quiet: bool = False
) -> Written:
    """Keep the questions for which every verifier finds exactly the one answer; LUME uses three verifiers.

    A verifier is asked only what those before it confirmed. A question that server or network kept from being
    verified is a reject of that status, not a wrong question.

    Args:
        clients: verifier's name -> client.

    Returns:
        id -> ``{"answer", "verified_by"}``.
    """
    task = LumeVerify()
    standing = {claim.id: claim for claim in claims}
    rejects: list[Reject] = []
    for name, client in clients.items():
        sources = [
            Source(claim.id, {"document": claim.document, "question": claim.question}, claim.identifiers)
            for claim in standing.values()
        ]
        written = write(task, sources, client, sampling=sampling, quiet=quiet)
        rejects += written.rejects
        for place, value in written.results.items():
            if problem := _against(standing[place], value["answers"], name):
                rejects.append(Reject(task.version, place, "excluded", problem, client.settings.name))
        gone = {reject.id for reject in rejects}
        standing = {place: claim for place, claim in standing.items() if place not in gone}
    order = {claim.id: place for place, claim in enumerate(claims)}
    return Written(
        {place: {"answer": claim.answer, "verified_by": list(clients)} for place, claim in standing.items()},
        tuple(sorted(rejects, key=lambda reject: order[reject.id])),
    )


def _against(claim: Claim, answers: list[str], verifier: str) -> str:
    if not answers:
        return f"{verifier} finds no answer in the text"
    if len(answers) > 1:
        return f"{verifier} finds {len(answers)} answers in the text"
    return "" if same(answers[0], claim.answer) else f"{verifier} finds another answer"
