"""AMNESIA's writing tasks: a disease category from a note's title, and eight questions on a note."""

from __future__ import annotations

from typing import Any, ClassVar

from medunlearn.judging.writing import answer_rules as rules
from medunlearn.judging.writing.task import Source, WritingTask
from medunlearn.judging.writing.word_overlap import content

OTHER = "Other"

# Share of an answer's content words that must stand in the note. A factual answer repeats the note; a reasoning one
# says in words of its own how its findings hang together.
FACTUAL, REASONING = 0.6, 0.4


class DiseaseLabel(WritingTask):
    """Writing task: sort a note's title into one of AMNESIA's eleven disease categories, or Other, with a short
    reason.

    A source has ``title``; a result is ``{"category", "reason"}``. The paper has the model repeat id and
    title, too; here results are matched to requests, so that is unnecessary.

    Source: AMNESIA, Section 3.1, Table 1 and Appendix B.1.
    """

    name: ClassVar[str] = "disease_label"
    title: ClassVar[str] = "disease labels"

    @property
    def categories(self) -> tuple[str, ...]:
        """The eleven categories, with Other at the end."""
        return tuple(self.prompt.schema["properties"]["category"]["enum"])

    def wrong(self, source: Source, value: Any) -> str:
        if value["category"] != OTHER and not content(value["reason"]) & content(source.fields["title"]):
            return "the reason uses no word of the title"
        return ""


class AmnesiaQuestions(WritingTask):
    """Writing task: eight questions on a note, four that recall one finding and four that join at least two.

    A source has ``note``; a result is ``{"factual": [...], "reasoning": [...]}``, four each, with ``question``,
    ``answer`` and their quotations from the note (``evidence``, ``findings``). Code checks: quotations are verbatim
    in the note, those of a reasoning question in at least two places; content words of the answer occur in the note
    (60% of a factual, 40% of a reasoning answer, and every number of a factual one); 1-2 and 2-3 sentences; nothing
    identifies the patient or asks for the identity; no question contains its answer; all differ. That general
    knowledge cannot answer a question is left to the prompt and to a panel of judges.

    Source: AMNESIA, Section 3.1 and Appendix B.2.
    """

    name: ClassVar[str] = "amnesia_questions"
    title: ClassVar[str] = "questions"

    def wrong(self, source: Source, value: Any) -> str:
        for kind in ("factual", "reasoning"):
            for number, item in enumerate(value[kind], start=1):
                if problem := _wrong(kind, item, source):
                    return f"{kind} item {number}: {problem}"
        return rules.distinct([item["question"] for kind in ("factual", "reasoning") for item in value[kind]])


def _wrong(kind: str, item: Any, source: Source) -> str:
    note, question, answer = source.fields["note"], item["question"], item["answer"]
    factual = kind == "factual"
    quotes = [item["evidence"]] if factual else item["findings"]
    return rules.first(
        rules.question(question),
        rules.asks_identity(question),
        rules.identifiers([question, answer], source.identifiers or ()),
        rules.sentence_count(answer, *((1, 2) if factual else (2, 3))),
        rules.quotations(quotes, note, least=1 if factual else 2),
        rules.answer(answer, note, least=FACTUAL if factual else REASONING, numbers=factual),
        rules.gives_away(question, answer),
    )
