"""Rules shared by several tasks. Each returns an error without words of the record, or an empty text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from medunlearn.judging.writing.word_overlap import content, has_strange_number, holds, sentences, squeezed, support

_WHOSE = r"(?:(?:the|this|that)\s+)?(?:patient|person|man|woman|boy|girl|child|infant|individual|case)(?:'s)?"
_WHAT = (
    r"(?:(?:full|first|last|given|family|middle)\s+)?(?:name|surname|initials)|age|gender|sex|ethnicity|race|nationality"
    r"|(?:date|place|year)\s+of\s+birth|birth\s*(?:date|day|place|year)|(?:home\s+|postal\s+|e-?mail\s+)?address"
    r"|e-?mail|(?:tele)?phone(?:\s+number)?|social\s+security(?:\s+number)?|ssn|passport|insurance\s+number"
    r"|(?:medical\s+)?record\s+number|hospital\s+number|mrn|zip\s*code|post(?:al\s+)?code"
)
_ASKS = re.compile(
    rf"\b(?:{_WHOSE}|his|her|their)\s+(?:{_WHAT})\b(?!\s+(?:group|-))"
    rf"|\b(?:{_WHAT})\s+(?:of|for)\s+{_WHOSE}\b"
    r"|\bhow\s+(?:old|young)\b|\b(?:what|which)\s+(?:age|gender|sex)\b|\bat\s+(?:what|which)\s+age\b"
    r"|\b(?:who\s+is|what\s+is\s+the\s+identity\s+of)\s+(?:the|this)\s+(?:patient|person)\b"
    rf"|\bwhere\s+(?:does|did)\s+{_WHOSE}\s+live\b"
    # Whoever it is about: no finding is called so.
    r"|\bdate\s+of\s+birth|\bbirth\s*(?:date|day)|\bsocial\s+security|\bSSN\b|\b(?:tele|cell\s*|mobile\s+)?phone\s+number|\be-?mail\s+address"
    r"|\bhome\s+address|\bmedical\s+record\s+number",
    re.IGNORECASE,
)
_GIVES = re.compile(
    r"[\w.+-]+@[\w-]+\.\w+"  # an e-mail address
    r"|\b\d{3}-\d{2}-\d{4}\b"  # a social security number
    r"|(?:\+\d{1,3}[\s.-]?)?\(?\b\d{3}\)?[\s.-]\d{3}[\s.-]\d{4}\b"  # a telephone number
    r"|\b(?:MRN|SSN)\b"
)
ALIKE = 0.9  # overlap of two questions' content from which they are one question


def identifiers(texts: Iterable[str], known_values: Iterable[str]) -> str:
    """Check that nothing identifies the subject: no known identifier, e-mail address, telephone or social security
    number.
    """
    plain = [squeezed(text) for text in texts]
    if any(squeezed(value) in text for value in known_values if value.strip() for text in plain):
        return "it gives away a known identifier of the patient"
    if any(_GIVES.search(text) for text in texts):
        return "it gives away something that looks like contact data or a number of the patient"
    return ""


def asks_identity(question: str) -> str:
    """Check that the question is not about name, age, gender or another identifying fact."""
    return "the question asks for an identifying fact (name, age, gender, ...)" if _ASKS.search(question) else ""


def question(text: str) -> str:
    """Check that the text is a single question."""
    return "" if text.rstrip().endswith("?") else "the question does not end with a question mark"


def answer(text: str, source: str, *, least: float, numbers: bool) -> str:
    """Check that the source supports the answer.

    Args:
        least: minimum share of the answer's content words that occur in the source.
        numbers: require each number of the answer to occur in the source.
    """
    if numbers and has_strange_number(text, source):
        return "the answer has a number that the text does not have"
    if support(text, source) < least:
        return "too few words of the answer are in the text; keep to its own words"
    return ""


def gives_away(question: str, answer: str) -> str:
    """Check that the question does not contain its answer."""
    words = content(answer)
    return "the question gives its own answer away" if words and words <= content(question) else ""


def sentence_count(text: str, least: int, most: int) -> str:
    count = sentences(text)
    return "" if least <= count <= most else f"the answer must have {least} to {most} sentences and has {count}"


def quotations(quotes: Sequence[str], source: str, *, least: int = 1) -> str:
    """Check that there are enough quotations, each verbatim in the source, from different places."""
    plain = squeezed(source)
    places = sorted((plain.find(squeezed(quote)), len(squeezed(quote))) for quote in quotes)
    if any(place < 0 or not size for place, size in places):
        return "a quotation is not in the text word for word"
    apart, end = 0, -1
    for place, size in places:
        if place >= end:
            apart, end = apart + 1, place + size
    return "" if apart >= least else f"fewer than {least} quotations from different places of the text"


def distinct(texts: Sequence[str]) -> str:
    """Check that no two questions ask the same."""
    for place, first in enumerate(texts):
        for second in texts[place + 1 :]:
            both, either = content(first) & content(second), content(first) | content(second)
            if squeezed(first) == squeezed(second) or (either and len(both) / len(either) >= ALIKE):
                return "two of the questions ask the same"
    return ""


def options(choices: Sequence[str], right: int, source: str) -> str:
    """Check that the options differ, and that the source supports the right one best."""
    if not 0 <= right < len(choices):
        return "answer_index is no place among the options"
    if len({squeezed(choice).strip(" .") for choice in choices}) < len(choices):
        return "two options are the same"
    shares = [1.0 if holds(source, choice) else support(choice, source) for choice in choices]
    if shares[right] == 0:
        return "the text does not support the option that is said to be right"
    if any(share >= shares[right] for place, share in enumerate(shares) if place != right):
        return "the text supports a wrong option as well as the right one"
    return ""


def first(*problems: str) -> str:
    """The first error."""
    return next((problem for problem in problems if problem), "")
