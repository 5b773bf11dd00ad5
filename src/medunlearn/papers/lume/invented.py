"""LUME built anew without a language model: documents by a grammar or from articles, and the benchmark of them.

Source: LUME, Section 2. Differences from the paper are told in :mod:`medunlearn.synthetic.people`,
:mod:`medunlearn.data.completions` and docs/papers.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from medunlearn.config import LumeNewSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.completions import completion_questions
from medunlearn.data.data_use import DataUse, build_use, use_of_file
from medunlearn.data.duplicates import Duplicate, DuplicateIndex
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.splits import Split, request, shuffled
from medunlearn.errors import ConfigError, InputError
from medunlearn.papers.lume import BUILDER, PERSONAL, PUBLIC, STORY, TASKS
from medunlearn.seeds import generator
from medunlearn.sources.articles import read_articles
from medunlearn.synthetic.biographies import ask_person, invent_lives, tell_person
from medunlearn.synthetic.people import Person, invent_people
from medunlearn.synthetic.stories import Plot, invent_plots, tell

SPLIT = "half"

Candidate = tuple[str, str, str]
"""Question, answer, and provenance; the last ends in ``:<type>`` where it asks for an identifier of that type."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A document before sides are drawn.

    Attributes:
        candidates: of a personal biography all are asked, of others the first that can be.
    """

    record: Record
    candidates: tuple[Candidate, ...] = field(default=(), repr=False)

    @property
    def task(self) -> str:
        return self.record.groups["task"]


class Screen:
    """Leaves out near-duplicates, and documents that a reviewer refused.

    Attributes:
        duplicates, reviewed: left out so far.
    """

    def __init__(self, alike: float, refused: Collection[str] = ()) -> None:
        self._accepted, self._refused = DuplicateIndex(alike), refused
        self.duplicates: list[Duplicate] = []
        self.reviewed: list[str] = []

    def passed(self, drafts: Iterable[Draft]) -> Iterator[Draft]:
        for draft in drafts:
            name = draft.record.record_id
            if name in self._refused:
                self.reviewed.append(name)
            elif duplicate := self._accepted.add(name, draft.record.text):
                self.duplicates.append(duplicate)
            else:
                yield draft


def build(settings: LumeNewSettings) -> Benchmark:
    """The benchmark without a language model: by the grammar, and from articles where some are given.

    Raises:
        ConfigError: a server is named; asking one needs a folder (:mod:`medunlearn.papers.lume.new`).
        InputError: too few articles, or more documents than can be distinguished.
    """
    if settings.llm or settings.reviewed:
        raise ConfigError(["llm and reviewed need out=FOLDER: what a model or a reviewer says is kept there"])
    screen = Screen(settings.alike)
    return assemble(invent_drafts(settings, screen), settings, screen)


def invent_drafts(settings: LumeNewSettings, screen: Screen) -> list[Draft]:
    """Documents of all tasks, as many as the settings ask for.

    Raises:
        InputError: too few articles, or ``alike`` leaves too few.
    """
    public = public_count(settings)
    makers = (
        (STORY, settings.stories, _stories),
        (PERSONAL, settings.personal_biographies, _biographies),
        (PUBLIC, public, articles if settings.articles is not None else lives),
    )
    drafts: list[Draft] = []
    for task, count, make in makers:
        accepted = list(islice(screen.passed(make(settings, count)), count))
        if len(accepted) == count:
            drafts += accepted
        elif task == PUBLIC and settings.articles is not None:
            raise InputError(
                f"{settings.articles} gives {len(accepted)} articles that can be used, and {count} are asked for "
                "(public_biographies and nonmembers). Give more articles, or ask for fewer."
            )
        else:
            raise InputError(
                f"alike={settings.alike} leaves {len(accepted)} of {count} documents of {task}. Raise it, or ask "
                "for fewer."
            )
    return drafts


def public_count(settings: LumeNewSettings) -> int:
    """Number of documents of the third task, non-members included."""
    return settings.public_biographies + settings.nonmembers


def _spare(count: int) -> int:
    """Number to invent, so that enough are left when some are too much alike."""
    return count + max(8, count // 10)


def make_draft(
    name: str, task: str, text: str, candidates: Sequence[Candidate] = (), identifiers: Sequence[Identifier] = ()
) -> Draft:
    record = Record(name, text, {"task": task, "document": name}, tuple(identifiers))
    return Draft(record, tuple(candidates))


def plots(settings: LumeNewSettings, count: int) -> dict[str, Plot]:
    """A story's name -> its plot."""
    story_plots = invent_plots(count, generator("lume stories", settings.seed))
    return {f"story-{number:04d}": plot for number, plot in enumerate(story_plots, start=1)}


def people(settings: LumeNewSettings, count: int) -> dict[str, Person]:
    """A biography's name -> its person."""
    persons = invent_people(count, generator("lume people", settings.seed), email_domain=settings.email_domain)
    return {f"person-{number:04d}": person for number, person in enumerate(persons, start=1)}


def make_biography(name: str, person: Person, text: str) -> Draft:
    """A personal biography with its five templated questions; identifiers are as they stand in the text."""
    values = {of: getattr(person, of) for of in ("name", "ssn", "phone", "email", "address")}
    identifiers = [Identifier(*pair) for pair in {**values, "birth_date": person.birth_day}.items()]
    questions = [(*pair, f"template:{PERSONAL}:{of}") for of, pair in ask_person(person).items()]
    return make_draft(name, PERSONAL, text, questions, identifiers)


def articles(settings: LumeNewSettings, count: int | None = None) -> Iterator[Draft]:
    """All articles in a seeded order, without questions.

    Raises:
        SourceError: a file that cannot be read or holds none.
    """
    assert settings.articles is not None
    sources = read_articles(settings.articles, title=settings.title, text=settings.text).articles
    by_name = {f"article-{place:05d}": article for place, article in enumerate(sources, start=1)}
    for name in shuffled(by_name, "lume articles", settings.seed):
        yield make_draft(name, PUBLIC, by_name[name].text)


def documents_use(settings: LumeNewSettings) -> DataUse:
    """Data use of the documents: open for invented ones, as the settings say for articles.

    Raises:
        ConfigError: the settings say open of articles that are credentialed.
    """
    path = settings.articles
    if path is None:
        return build_use(settings.data_use, {"invented documents": "open"})
    return build_use(settings.data_use, {f"articles {path}": use_of_file(path)})


def lives(settings: LumeNewSettings, count: int) -> Iterator[Draft]:
    """Public biographies of people who never were; more than are wanted."""
    for number, life in enumerate(invent_lives(_spare(count), generator("lume lives", settings.seed)), start=1):
        name = f"life-{number:04d}"
        yield make_draft(name, PUBLIC, life.text, _in_drawn_order(life.questions, PUBLIC, name, settings.seed))


def _stories(settings: LumeNewSettings, count: int) -> Iterator[Draft]:
    for name, plot in plots(settings, _spare(count)).items():
        story = tell(plot, generator("lume story", name, settings.seed))
        yield make_draft(name, STORY, story.text, _in_drawn_order(story.questions, STORY, name, settings.seed))


def _biographies(settings: LumeNewSettings, count: int) -> Iterator[Draft]:
    for name, person in people(settings, _spare(count)).items():
        yield make_biography(name, person, tell_person(person, generator("lume biography", name, settings.seed)))


def _in_drawn_order(pairs: Sequence[tuple[str, str]], task: str, name: str, seed: int) -> list[Candidate]:
    order = generator("lume question", name, seed).permutation(len(pairs)).tolist()
    return [(*pairs[place], f"template:{task}") for place in order]


def assemble(
    drafts: Sequence[Draft], settings: LumeNewSettings, screen: Screen, notes: Mapping[str, Any] | None = None
) -> Benchmark:
    """Records, completions, questions and the split.

    Half of each task is forgotten, the odd document too; a drawn part of the third task is never trained on.

    Args:
        notes: further facts for the manifest.
    """
    public = [draft.record.record_id for draft in drafts if draft.task == PUBLIC]
    outside = set(shuffled(public, "lume nonmembers", settings.seed)[: min(settings.nonmembers, len(public) - 2)])
    drafts = [
        replace(draft, record=replace(draft.record, fold="holdout")) if draft.record.record_id in outside else draft
        for draft in drafts
    ]
    records = tuple(draft.record for draft in drafts)
    return Benchmark(
        name=f"LUME built anew, {len(drafts)} documents",
        builder=BUILDER,
        levels=("task", "document"),
        subject_level="document",
        records=records,
        questions=(
            *completion_questions(records, "document", seed=settings.seed, at=settings.completion),
            *_knowledge(drafts),
        ),
        splits={SPLIT: _split(records, settings.seed)},
        seed=settings.seed,
        source="invented" if settings.articles is None else f"invented, and articles of {settings.articles.name}",
        licence="apache-2.0" if settings.articles is None else settings.licence,
        data_use=documents_use(settings),
        notes={
            **({"invented": True} if settings.articles is None else {}),
            "documents by task": dict(Counter(draft.task for draft in drafts)),
            "non-members": len(outside),
            "near-duplicates left out": [
                f"{draft.name} is like {draft.like} (overlap {draft.overlap:.2f})" for draft in screen.duplicates
            ],
            "left out by reviewers": screen.reviewed,
            **(notes or {}),
        },
    )


def _knowledge(drafts: Sequence[Draft]) -> Iterator[Question]:
    before: set[str] = set()
    for draft in drafts:
        record, candidates = draft.record, list(draft.candidates)
        if draft.task != PERSONAL:
            candidates = [pair for pair in candidates if is_askable(record.text, *pair[:2], before)][:1]
        for number, (question, answer, provenance) in enumerate(candidates):
            before.add(question.casefold())
            yield Question(
                f"{record.record_id}-qa{number}", record.record_id, record.fold, "knowledge", "document",
                question, answer, provenance=provenance,
            )  # fmt: skip


def _split(records: Sequence[Record], seed: int) -> Split:
    forget: list[str] = []
    for task in TASKS:
        names = [draft.record_id for draft in records if draft.groups["task"] == task and draft.fold == "train"]
        forget += shuffled(names, "lume sides", task, seed)[: len(names) - len(names) // 2]
    return request(Hierarchy(("task", "document"), records), SPLIT, "document", forget)


def is_askable(text: str, question: str, answer: str, before: Collection[str]) -> bool:
    """True if the answer stands in the text and not in the question, and no other document is asked the same.

    Args:
        before: questions of other documents, in lower case.
    """
    if question.casefold() in before or not question.rstrip().endswith("?"):
        return False
    return _stands_in(answer, text) and not _stands_in(answer, question)


def _stands_in(phrase: str, text: str) -> bool:
    """True if a phrase stands in a text as whole words."""
    return re.search(rf"(?<!\w){re.escape(phrase.casefold())}(?!\w)", text.casefold()) is not None
