"""LUME's writing tasks: stories, biographies, questions on a text, and the verification of those questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

from medunlearn.judging.writing import Reject, Sampling, Source, WritingOutput, WritingTask, write
from medunlearn.judging.writing import answer_rules as rules
from medunlearn.judging.writing.word_overlap import holds, same, words
from medunlearn.llm.client import Client
from medunlearn.synthetic import biographies, stories

FACTS = ("name", "birth_date", "ssn", "phone", "email", "address")
LONGEST_ANSWER = 5  # words
DECLINED = {
    "no_proper_nouns": "the text has no proper noun to ask about",
    "no_unambiguous_question": "the model found no question that has exactly one answer",
}


class LumeStory(WritingTask):
    """Writing task: a story of 150 to 200 words with the given genre, place and characters.

    A source has ``genre``, ``place`` and ``names`` (with commas between them); a result is ``{"story"}``. Code
    checks: its length, and that it contains the place and every name.

    Source: LUME, Section 2.1 (Task 1) and Appendix B.
    """

    name: ClassVar[str] = "lume_story"
    title: ClassVar[str] = "stories"

    def wrong(self, source: Source, value: Any) -> str:
        story = value["story"]
        if problem := _wrong_length("story", story, stories.SHORTEST, stories.LONGEST):
            return problem
        if not holds(story, source.fields["place"]):
            return "the place is not named in the story"
        if not all(holds(story, name) for name in source.fields["names"].split(", ")):
            return "a character is not named in the story"
        return ""


class LumeBiography(WritingTask):
    """Writing task: a biography of an invented person with given identifiers.

    A source has ``name``, ``birth_date``, ``ssn``, ``phone``, ``email``, ``address``; its ``identifiers`` are
    ``()``, since they are invented. A result is ``{"biography"}``. Code checks: its length, and that it contains
    every fact verbatim.

    Source: LUME, Section 2.1 (Task 2) and Appendix C; it gives no length.
    """

    name: ClassVar[str] = "lume_biography"
    title: ClassVar[str] = "biographies"

    def wrong(self, source: Source, value: Any) -> str:
        text = value["biography"]
        shortest, longest = biographies.SHORTEST_PERSONAL, biographies.LONGEST_PERSONAL
        if problem := _wrong_length("biography", text, shortest, longest):
            return problem
        missing = [fact for fact in FACTS if source.fields[fact] not in text]
        return f"it lacks, letter by letter: {', '.join(missing)}" if missing else ""


class LumeQuestion(WritingTask):
    """Writing task: a question with exactly one short answer, unless the text allows none.

    A source has ``document``; a result is ``{"proper_nouns", "reasoning", "outcome", "question", "answer"}``. Code
    checks: proper nouns and the answer occur in the text, the answer has at most five words and is not in the
    question, the question names one of the proper nouns. A text without proper nouns, or without such a question,
    is a reject with that reason. :class:`LumeVerify` has other models answer the question.

    Source: LUME, Section 2.3 and Appendix D.
    """

    name: ClassVar[str] = "lume_question"
    title: ClassVar[str] = "questions"

    def wrong(self, source: Source, value: Any) -> str:
        text, nouns = source.fields["document"], value["proper_nouns"]
        if not all(holds(text, noun) for noun in nouns):
            return "a proper noun is not in the text word for word"
        if (value["outcome"] == "no_proper_nouns") != (not nouns):
            return "the outcome does not fit the list of proper nouns"
        if value["outcome"] != "question":
            return ""
        question, answer = value["question"], value["answer"]
        if not 1 <= words(answer) <= LONGEST_ANSWER:
            return f"the answer must have 1 to {LONGEST_ANSWER} words"
        if not holds(text, answer):
            return "the answer is not in the text word for word"
        if holds(question, answer):
            return "the question gives its own answer away"
        if not any(holds(question, noun) for noun in nouns):
            return "the question names none of the proper nouns, so it cannot be understood without the text"
        return rules.question(question)

    def declined(self, source: Source, value: Any) -> str:
        return DECLINED.get(value["outcome"], "")


class LumeVerify(WritingTask):
    """Writing task: answer a question from its text and list every answer that the text allows.

    A source has ``document`` and ``question``, and not the answer; a result is ``{"answers"}``.

    Source: LUME, Section 2.3.
    """

    name: ClassVar[str] = "lume_verify"
    title: ClassVar[str] = "verification"

    def wrong(self, source: Source, value: Any) -> str:
        twice = any(same(first, second) for first, second in combinations(value["answers"], 2))
        return "the same answer stands twice" if twice else ""


def verify(
    questions: Sequence[Source],
    answers: Mapping[str, str],
    clients: Mapping[str, Client],
    *,
    sampling: Sampling | None = None,
    quiet: bool = False,
) -> WritingOutput:
    """Keep the questions for which every verifier finds exactly the expected answer; LUME uses three verifiers.

    A verifier only gets questions confirmed by those before it. A question whose verification failed through server
    or network is a reject of that status, not a wrong question.

    Args:
        questions: sources of :class:`LumeVerify`; ``answers`` has the expected answer of each, by id.
        clients: verifier's name -> client.

    Returns:
        id -> ``{"answer", "verified_by"}``.
    """
    task, rejects = LumeVerify(), dict[str, Reject]()
    for name, client in clients.items():
        standing = [source for source in questions if source.id not in rejects]
        verification = write(task, standing, client, sampling=sampling, quiet=quiet)
        rejects |= {reject.id: reject for reject in verification.rejects}
        for place, value in verification.results.items():
            if problem := _refutation(value["answers"], answers[place], name):
                rejects[place] = Reject(task.version, place, "excluded", problem, client.settings.name)
    return WritingOutput(
        {
            source.id: {"answer": answers[source.id], "verified_by": list(clients)}
            for source in questions
            if source.id not in rejects
        },
        tuple(rejects[source.id] for source in questions if source.id in rejects),
    )


def _refutation(answers: Sequence[str], expected: str, verifier: str) -> str:
    if not answers:
        return f"{verifier} finds no answer in the text"
    if len(answers) > 1:
        return f"{verifier} finds {len(answers)} answers in the text"
    return "" if same(answers[0], expected) else f"{verifier} finds another answer"


def _wrong_length(noun: str, text: str, shortest: int, longest: int) -> str:
    if shortest <= (count := words(text)) <= longest:
        return ""
    return f"the {noun} has {count} words and must have {shortest} to {longest}"
