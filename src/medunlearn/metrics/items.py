"""From questions and responses to the items that measures read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medunlearn.data.records import Question, Side
from medunlearn.data.responses import LogProbs, Response
from medunlearn.metrics.base import Item, Keywords


def question_items(
    questions: Sequence[Question],
    sides: Mapping[str, Side],
    responses: Mapping[str, Response],
    options: Mapping[str, LogProbs] | None = None,
    keywords: Mapping[str, Keywords] | None = None,
) -> list[Item]:
    """One item a question, in order.

    Args:
        sides: of each record, by id.
        responses, options, keywords: by question id; every question has a response.
    """
    return [
        Item(
            question_id=question.question_id,
            side=sides[question.record_id],
            question=question.question,
            reference=question.answer,
            response=response.response,
            response_tokens=response.response_tokens,
            answer_log_probs=response.answer_log_probs,
            answer_hits=response.answer_hits,
            keywords=(keywords or {}).get(question.question_id),
            alternative_log_probs=(options or {}).get(question.question_id),
            answer_index=question.answer_index,
        )
        for question, response in ((one, responses[one.question_id]) for one in questions)
    ]
