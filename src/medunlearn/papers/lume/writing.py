"""LUME's documents by a language model: stories, personal biographies, and questions that other models verify.

Names, places and identifiers are drawn as without a model; nobody real is in a prompt but those of public articles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from medunlearn.config import LumeNewSettings
from medunlearn.data.duplicates import Duplicate, Seen
from medunlearn.judging.judges import Judge, read_judges
from medunlearn.judging.writing import Source, Written, estimated
from medunlearn.llm import Client, CostEstimate, Store, decide
from medunlearn.papers.llm_build import Writer, WritingSession
from medunlearn.papers.lume.build_new import is_askable
from medunlearn.papers.lume.documents import (
    PERSONAL,
    PUBLIC,
    STORY,
    Exclusions,
    KnowledgeQuestion,
    LumeDocument,
    article_documents,
    invented_public,
    people,
    personal,
    plots,
    public_count,
)
from medunlearn.papers.lume.prompts.biography import LumeBiography
from medunlearn.papers.lume.prompts.question import LumeQuestion
from medunlearn.papers.lume.prompts.story import LumeStory
from medunlearn.papers.lume.prompts.verify import Claim, LumeVerify, verify

STORIES, BIOGRAPHIES, QUESTIONS, VERIFY = LumeStory(), LumeBiography(), LumeQuestion(), LumeVerify()
USUAL_WORDS = 170
"""Words of a story, for estimating the cost of questions on it."""


def writer_of(settings: LumeNewSettings, out: Path) -> Writer:
    """The model that writes.

    Raises:
        ConfigError: no server or no model.
        RemoteRefusedError: the guard refuses.
    """
    # Everybody in the prompts is invented or stands in a public article, so no record is named to the guard.
    return Writer.of(settings, out, data_use="open")


def verifiers(settings: LumeNewSettings) -> list[Judge]:
    """Raises:
    ConfigError: models that cannot be asked.
    """
    return read_judges(settings.verifiers) if settings.verifiers else []


def cost(settings: LumeNewSettings, writer: Writer) -> dict[str, CostEstimate]:
    """Cost by task, and of each verifier; questions are counted for texts of the usual length."""
    filler = " ".join(["word"] * USUAL_WORDS)
    stories = _story_sources(settings)
    # Each with its own name, since equal prompts would count once.
    texts = {story.id: f"{story.id} {filler}" for story in stories}
    if settings.articles is not None:
        texts |= _articles(settings)
    questions = [Source(f"q-{name}", {"document": text}, ()) for name, text in texts.items()]
    estimates = writer.estimates(
        {STORIES: stories, BIOGRAPHIES: _person_sources(settings), QUESTIONS: questions},
    )
    claims = [Source(one.id, {**one.fields, "question": filler[:100]}, ()) for one in questions]
    with Store.existing(writer.store) as store:
        for judge in verifiers(settings):
            estimates[f"{VERIFY.name} by {judge.name}"] = estimated(VERIFY, claims, judge.settings, store)
    return estimates


def write_documents(
    settings: LumeNewSettings, session: WritingSession, refused: frozenset[str]
) -> tuple[list[LumeDocument], Exclusions]:
    """Documents with at most one question each; rejects are the session's.

    Args:
        refused: names of documents that a reviewer refused.
    """
    stories = session.write(STORIES, _story_sources(settings))
    lives = session.write(BIOGRAPHIES, _person_sources(settings))
    persons = people(settings, settings.personal_biographies)
    documents = [LumeDocument(name, STORY, value["story"]) for name, value in stories.items()]
    documents += [personal(name, persons[name], value["biography"]) for name, value in lives.items()]
    if settings.articles is not None:
        documents += [LumeDocument(name, PUBLIC, text) for name, text in _articles(settings).items()]
    else:
        documents += invented_public(settings)
    documents, exclusions = _without_duplicates(documents, refused, settings.alike)
    unasked = {f"q-{one.name}": one for one in documents if one.task != PERSONAL and not one.questions}
    questions = _written_questions(session, unasked)
    verified = _verified(settings, session, questions, unasked)
    return [
        replace(one, questions=(questions[f"q-{one.name}"],)) if f"q-{one.name}" in verified else one
        for one in documents
    ], exclusions


def _written_questions(
    session: WritingSession, documents: Mapping[str, LumeDocument]
) -> dict[str, KnowledgeQuestion]:
    """Questions by source; those that another document is asked too are rejects."""
    sources = [Source(name, {"document": one.text}, ()) for name, one in documents.items()]
    questions: dict[str, KnowledgeQuestion] = {}
    before: set[str] = set()
    for name, value in session.write(QUESTIONS, sources).items():
        document = documents[name]
        provenance = f"llm:{QUESTIONS.version}:{document.task}"
        question = KnowledgeQuestion(value["question"], value["answer"], provenance)
        if is_askable(document, question, before):
            before.add(question.question.casefold())
            questions[name] = question
        else:
            session.exclude(QUESTIONS.version, name, "another document is asked the same")
    return questions


def _verified(
    settings: LumeNewSettings,
    session: WritingSession,
    questions: Mapping[str, KnowledgeQuestion],
    documents: Mapping[str, LumeDocument],
) -> Mapping[str, object]:
    """Questions whose one answer every verifier finds; all of them without verifiers."""
    judges = verifiers(settings)
    if not judges:
        return questions
    claims = [
        Claim(name, documents[name].text, question.question, question.answer, ())
        for name, question in questions.items()
    ]
    with ExitStack() as stack:
        clients = {}
        for judge in judges:
            permitted = settings.allow_remote_llm
            decision = decide(judge.settings.base_url, data_use="open", records=(), permitted=permitted)
            client = Client(judge.settings, decision.enforce(), store=session.store)
            clients[judge.name] = stack.enter_context(client)
        written: Written = verify(claims, clients, quiet=session.quiet)
    return session.add(VERIFY, written)


def _story_sources(settings: LumeNewSettings) -> list[Source]:
    return [
        Source(name, {"genre": plot.genre, "place": plot.place, "names": ", ".join(plot.names)}, ())
        for name, plot in plots(settings, settings.stories).items()
    ]


def _person_sources(settings: LumeNewSettings) -> list[Source]:
    fields = ("name", "ssn", "phone", "email", "address")
    return [
        Source(name, {of: getattr(person, of) for of in fields} | {"birth_date": person.birth_day}, ())
        for name, person in people(settings, settings.personal_biographies).items()
    ]


def _articles(settings: LumeNewSettings) -> dict[str, str]:
    texts = {one.name: one.text for one in article_documents(settings)}
    return dict(list(texts.items())[: public_count(settings)])


def _without_duplicates(
    documents: Sequence[LumeDocument], refused: frozenset[str], alike: float
) -> tuple[list[LumeDocument], Exclusions]:
    seen, kept = Seen(alike), []
    duplicates: list[Duplicate] = []
    reviewed = []
    for one in documents:
        if one.name in refused:
            reviewed.append(one.name)
        elif duplicate := seen.take(one.name, one.text):
            duplicates.append(duplicate)
        else:
            kept.append(one)
    return kept, Exclusions(tuple(duplicates), tuple(reviewed))
