"""LUME rebuilt without a language model: documents from a grammar or articles, and their benchmark.

Source: LUME, Section 2. Differences from the paper are described in :mod:`medunlearn.synthetic.people`,
:mod:`medunlearn.data.completions` and docs/papers.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.completions import completion_questions
from medunlearn.data.data_use import DataUse, build_use, use_of_file
from medunlearn.data.duplicates import Duplicate, DuplicateIndex
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.splits import Split, request, shuffled
from medunlearn.errors import ConfigError, InputError
from medunlearn.papers.lume import PAPER, PERSONAL, PUBLIC, STORY, TASKS
from medunlearn.papers.lume.settings import LumeNewSettings
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
    """A document before its side is drawn.

    Attributes:
        candidates: question candidates: all are used for a personal biography, for others the first valid one.
    """

    record: Record
    candidates: tuple[Candidate, ...] = field(default=(), repr=False)

    @property
    def task(self) -> str:
        return self.record.groups["task"]


class Screen:
    """Filter of near-duplicates, and of documents rejected by a reviewer.

    Attributes:
        duplicates, reviewed: documents rejected so far.
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
    """Build the benchmark without a language model: from the grammar, and from articles if given.

    Raises:
        ConfigError: a server is named, which needs a folder (:mod:`medunlearn.papers.lume.new`).
        InputError: too few articles, or more documents than can be distinguished.
    """
    if settings.llm or settings.reviewed:
        raise ConfigError(["llm and reviewed need out=FOLDER: the output of models and reviewers is stored there"])
    screen = Screen(settings.alike)
    return assemble(invent_drafts(settings, screen), settings, screen)


def invent_drafts(settings: LumeNewSettings, screen: Screen) -> list[Draft]:
    """Documents of all tasks, in the numbers of the settings.

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
                f"{settings.articles} gives {len(accepted)} usable articles, and {count} are needed "
                "(public_biographies and nonmembers). Give more articles, or lower these."
            )
        else:
            raise InputError(
                f"alike={settings.alike} leaves {len(accepted)} of {count} documents of {task}. Raise it, or "
                "lower the number."
            )
    return drafts


def public_count(settings: LumeNewSettings) -> int:
    """Number of documents of the third task, non-members included."""
    return settings.public_biographies + settings.nonmembers


def _spare(count: int) -> int:
    """Number to invent, with a reserve for near-duplicates."""
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
    """A personal biography with its five template questions; identifiers are as in the text."""
    values = {of: getattr(person, of) for of in ("name", "ssn", "phone", "email", "address")}
    identifiers = [Identifier(*pair) for pair in {**values, "birth_date": person.birth_day}.items()]
    questions = [(*pair, f"template:{PERSONAL}:{of}") for of, pair in ask_person(person).items()]
    return make_draft(name, PERSONAL, text, questions, identifiers)


def articles(settings: LumeNewSettings, count: int | None = None) -> Iterator[Draft]:
    """All articles in a seeded order, without questions.

    Raises:
        SourceError: a file that cannot be read or has none.
    """
    assert settings.articles is not None
    sources = read_articles(settings.articles, title=settings.title, text=settings.text).articles
    by_name = {f"article-{place:05d}": article for place, article in enumerate(sources, start=1)}
    for name in shuffled(by_name, "lume articles", settings.seed):
        yield make_draft(name, PUBLIC, by_name[name].text)


def documents_use(settings: LumeNewSettings) -> DataUse:
    """Data use of the documents: open for invented ones, from the settings for articles.

    Raises:
        ConfigError: the settings declare credentialed articles open.
    """
    path = settings.articles
    if path is None:
        return build_use(settings.data_use, {"invented documents": "open"})
    return build_use(settings.data_use, {f"articles {path}": use_of_file(path)})


def lives(settings: LumeNewSettings, count: int) -> Iterator[Draft]:
    """Public biographies of invented people; more than needed."""
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
    """Assemble records, completions, questions and the split.

    Half of each task is forgotten, rounded up; a random part of the third task is never trained on.

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
        builder=PAPER.name,
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
    """True if the answer is in the text and not in the question, and no other document has the same question.

    Args:
        before: questions of other documents, in lower case.
    """
    if question.casefold() in before or not question.rstrip().endswith("?"):
        return False
    return _stands_in(answer, text) and not _stands_in(answer, question)


def _stands_in(phrase: str, text: str) -> bool:
    """True if a phrase occurs in a text as whole words."""
    return re.search(rf"(?<!\w){re.escape(phrase.casefold())}(?!\w)", text.casefold()) is not None
