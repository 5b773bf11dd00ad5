"""Documents for LUME built anew: by the grammar, or from given articles.

Source: LUME, Section 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from medunlearn.config import LumeNewSettings
from medunlearn.data.duplicates import Duplicate, Seen
from medunlearn.data.records import Identifier
from medunlearn.data.splits import shuffled
from medunlearn.errors import InputError
from medunlearn.seeds import generator
from medunlearn.sources.articles import Articles, read_articles
from medunlearn.synthetic.biographies import ask_person, invent_lives, tell_person
from medunlearn.synthetic.people import Person, invent_people
from medunlearn.synthetic.stories import Plot, invent_plots, tell

STORY, PERSONAL, PUBLIC = "story", "personal_biography", "public_biography"
TASKS = (STORY, PERSONAL, PUBLIC)


@dataclass(frozen=True, slots=True)
class KnowledgeQuestion:
    """A knowledge question; ``provenance`` ends in ``:<type>`` where it asks for an identifier of that type."""

    question: str
    answer: str
    provenance: str


@dataclass(frozen=True, slots=True)
class LumeDocument:
    """A document to be, with identifiers and questions.

    Attributes:
        questions: candidates; of a personal biography all are asked, of others the first that holds.
    """

    name: str
    task: str
    text: str = field(repr=False)
    questions: tuple[KnowledgeQuestion, ...] = field(default=(), repr=False)
    identifiers: tuple[Identifier, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Exclusions:
    """Documents left out: near-duplicates, and those that a reviewer labelled No."""

    duplicates: tuple[Duplicate, ...] = ()
    reviewed: tuple[str, ...] = ()


def invented(settings: LumeNewSettings, refused: Iterable[str] = ()) -> tuple[list[LumeDocument], Exclusions]:
    """Documents of all tasks, without near-duplicates and without those that reviewers refused.

    Raises:
        InputError: too few articles, or ``alike`` leaves too few.
    """
    wanted = {STORY: settings.stories, PERSONAL: settings.personal_biographies, PUBLIC: public_count(settings)}
    make = {STORY: _stories, PERSONAL: _personal, PUBLIC: _public}
    refused, seen = set(refused), Seen(settings.alike)
    documents: list[LumeDocument] = []
    duplicates: list[Duplicate] = []
    reviewed: list[str] = []
    for task in TASKS:
        taken = 0
        for document in make[task](settings, wanted[task]):
            if taken == wanted[task]:
                break
            if document.name in refused:
                reviewed.append(document.name)
            elif duplicate := seen.take(document.name, document.text):
                duplicates.append(duplicate)
            else:
                documents.append(document)
                taken += 1
        if taken < wanted[task]:
            raise InputError(_too_few(task, taken, wanted[task], settings))
    return documents, Exclusions(tuple(duplicates), tuple(reviewed))


def _too_few(task: str, taken: int, wanted: int, settings: LumeNewSettings) -> str:
    if task == PUBLIC and settings.articles is not None:
        return (
            f"{settings.articles} gives {taken} articles that can be used, and {wanted} are asked for "
            "(public_biographies and nonmembers). Give more articles, or ask for fewer."
        )
    return f"alike={settings.alike} leaves {taken} of {wanted} documents of {task}. Raise it, or ask for fewer."


def public_count(settings: LumeNewSettings) -> int:
    """How many documents of the third task are wanted, non-members included."""
    return settings.public_biographies + settings.nonmembers


def spare(wanted: int) -> int:
    """How many to invent, so that enough are left when some are too much alike."""
    return wanted + max(8, wanted // 10)


def plots(settings: LumeNewSettings, wanted: int) -> dict[str, Plot]:
    """Name of a story -> what it is about."""
    drawn = invent_plots(wanted, generator("lume stories", settings.seed))
    return {f"story-{number:04d}": plot for number, plot in enumerate(drawn, start=1)}


def people(settings: LumeNewSettings, wanted: int) -> dict[str, Person]:
    """Name of a biography -> whom it is about."""
    drawn = invent_people(wanted, generator("lume people", settings.seed), email_domain=settings.email_domain)
    return {f"person-{number:04d}": person for number, person in enumerate(drawn, start=1)}


def personal(name: str, person: Person, text: str) -> LumeDocument:
    """A personal biography with its five templated questions."""
    fields = ask_person(person)
    questions = tuple(KnowledgeQuestion(*pair, f"template:{PERSONAL}:{of}") for of, pair in fields.items())
    return LumeDocument(name, PERSONAL, text, questions, identifiers_of(person))


def identifiers_of(person: Person) -> tuple[Identifier, ...]:
    """Name and five fields, each as it stands in the text."""
    written = {of: getattr(person, of) for of in ("name", "ssn", "phone", "email", "address")}
    return tuple(Identifier(of, value) for of, value in {**written, "birth_date": person.birth_day}.items())


def articles(settings: LumeNewSettings) -> Articles:
    """The articles given, of the length that the paper has.

    Raises:
        SourceError: a file that cannot be read or holds none.
    """
    assert settings.articles is not None
    return read_articles(settings.articles, title=settings.title, text=settings.text)


def article_documents(settings: LumeNewSettings) -> Iterator[LumeDocument]:
    """The articles in a drawn order, without questions."""
    by_name = {f"article-{place:05d}": one for place, one in enumerate(articles(settings).articles, start=1)}
    for name in shuffled(by_name, "lume articles", settings.seed):
        yield LumeDocument(name, PUBLIC, by_name[name].text)


def _stories(settings: LumeNewSettings, wanted: int) -> Iterator[LumeDocument]:
    for name, plot in plots(settings, spare(wanted)).items():
        told = tell(plot, generator("lume story", name, settings.seed))
        yield LumeDocument(name, STORY, told.text, _drawn(told.asked, f"template:{STORY}", name, settings.seed))


def _personal(settings: LumeNewSettings, wanted: int) -> Iterator[LumeDocument]:
    for name, person in people(settings, spare(wanted)).items():
        yield personal(name, person, tell_person(person, generator("lume biography", name, settings.seed)))


def _public(settings: LumeNewSettings, wanted: int) -> Iterator[LumeDocument]:
    if settings.articles is not None:
        yield from article_documents(settings)
        return
    yield from _lives(settings, wanted)


def invented_public(settings: LumeNewSettings) -> list[LumeDocument]:
    """Public biographies of people who never were, with what may be asked about them."""
    wanted = public_count(settings)
    return list(_lives(settings, wanted))[:wanted]


def _lives(settings: LumeNewSettings, wanted: int) -> Iterator[LumeDocument]:
    lives = invent_lives(spare(wanted), generator("lume lives", settings.seed))
    for number, told in enumerate(lives, start=1):
        name = f"life-{number:04d}"
        yield LumeDocument(name, PUBLIC, told.text, _drawn(told.asked, f"template:{PUBLIC}", name, settings.seed))


def _drawn(
    asked: Sequence[tuple[str, str]], provenance: str, name: str, seed: int
) -> tuple[KnowledgeQuestion, ...]:
    order = generator("lume question", name, seed).permutation(len(asked)).tolist()
    return tuple(KnowledgeQuestion(asked[place][0], asked[place][1], provenance) for place in order)
