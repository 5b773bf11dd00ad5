"""A language model writes LUME anew: stories, personal biographies, and questions that code and other models check.

Names, places and identifiers are drawn as without a model; nobody real is in a prompt but those of public articles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medunlearn.config import LumeNewSettings, check
from medunlearn.data.duplicates import Duplicate, Seen
from medunlearn.errors import ConfigError
from medunlearn.judging.judges import Judge, read_judges
from medunlearn.judging.writing import Reject, Sampling, Source, Written, estimated, write
from medunlearn.llm import Budget, Client, Decision, Estimate, ServerSettings, Store, decide
from medunlearn.llm.store import FILE as STORE_FILE
from medunlearn.papers.amnesia.notes_files import RESPONSES
from medunlearn.papers.lume.build_new import is_askable
from medunlearn.papers.lume.documents import (
    PERSONAL,
    PUBLIC,
    STORY,
    Asked,
    Document,
    LeftOut,
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
from medunlearn.synthetic.people import Person

STORIES, BIOGRAPHIES, QUESTIONS, VERIFY = LumeStory(), LumeBiography(), LumeQuestion(), LumeVerify()
USUAL_WORDS = 170
"""Words of a story, for counting what questions on it will cost."""


@dataclass(frozen=True)
class Done:
    """What was written.

    Attributes:
        left: what server, network or budget are to blame for, where such documents are not to be left out.
    """

    documents: list[Document] = field(repr=False)
    left_out: LeftOut
    rejects: tuple[Reject, ...]
    left: tuple[Reject, ...]


@dataclass
class Writing:
    """Everything that writing needs, checked; ``facts`` and ``halted`` tell how it went.

    Attributes:
        settings: of the build.
        server: that writes.
        decision: of the guard about it.
        judges: the verifying models.
        folder: of the responses.
    """

    settings: LumeNewSettings
    server: ServerSettings
    decision: Decision
    judges: tuple[Judge, ...]
    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    halted: str = ""

    @staticmethod
    def of(settings: LumeNewSettings, out: Path) -> Writing:
        """Raises:
        ConfigError: no server, no model, or verifiers that cannot be asked.
        RemoteRefusedError: the guard refuses.
        """
        lacking = {"base_url": "--llm URL", "model": "--llm-model NAME"}
        missing = [f"{flag} is missing: it writes" for key, flag in lacking.items() if not settings.llm.get(key)]
        if missing:
            raise ConfigError(missing)
        server = check(ServerSettings, settings.llm)
        # Everybody in the prompts is invented or stands in a public article, so no record is named to the guard.
        decision = decide(server.base_url, data_use="open", records=(), permitted=settings.allow_remote_llm)
        judges = tuple(read_judges(settings.verifiers)) if settings.verifiers else ()
        return Writing(settings, server, decision.enforce(), judges, settings.store or out / RESPONSES)

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.settings.temperature, self.settings.answer_tokens, self.settings.llm_seed)

    def estimates(self) -> dict[str, Estimate]:
        """What would be sent; nothing is."""
        filler = " ".join(["word"] * USUAL_WORDS)
        # Each with its own name, since equal prompts would count once.
        asked = [Source(f"q-{one.id}", {"document": f"{one.id} {filler}"}, ()) for one in self._story_sources()]
        if self.settings.articles is not None:
            asked += [Source(f"q-{name}", {"document": text}, ()) for name, text in self._articles().items()]
        store = Store(self.folder) if (self.folder / STORE_FILE).exists() else None
        wanted = {STORIES: self._story_sources(), BIOGRAPHIES: self._person_sources(), QUESTIONS: asked}
        try:
            found = {
                task.name: estimated(task, sources, self.server, store, self.sampling)
                for task, sources in wanted.items()
            }
            for judge in self.judges:
                tried = [Source(one.id, {**one.fields, "question": filler[:100]}, ()) for one in asked]
                found[f"{VERIFY.name} by {judge.name}"] = estimated(VERIFY, tried, judge.settings, store)
        finally:
            if store is not None:
                store.close()
        return found

    def run(self, refused: frozenset[str], *, quiet: bool = True) -> Done:
        """Ask, check and put together; what came back is kept as it comes."""
        with ExitStack() as stack:
            store = stack.enter_context(Store(self.folder))
            before = store.spent()
            budget = Budget(self.server, spent=before)
            again = self.settings.again
            client = stack.enter_context(
                Client(self.server, self.decision, store=store, budget=budget, again=again)
            )
            done = self._run(client, store, refused, stack, quiet)
            self.halted = client.halted
            prompts = [STORIES.version, BIOGRAPHIES.version, QUESTIONS.version]
            self.facts = {
                "prompts": [*prompts, VERIFY.version] if self.judges else prompts,
                "llm": client.facts(),
                "verifiers": [judge.name for judge in self.judges],
                "requests sent now": client.spent.requests - before.requests,
            }
        return done

    def _run(self, client: Client, store: Store, refused: frozenset[str], stack: ExitStack, quiet: bool) -> Done:
        settings = self.settings
        stories = write(STORIES, self._story_sources(), client, sampling=self.sampling, quiet=quiet)
        lives = write(BIOGRAPHIES, self._person_sources(), client, sampling=self.sampling, quiet=quiet)
        documents = [Document(name, STORY, value["story"]) for name, value in stories.results.items()]
        who = self._people
        documents += [personal(name, who[name], value["biography"]) for name, value in lives.results.items()]
        if settings.articles is not None:
            documents += [Document(name, PUBLIC, text) for name, text in self._articles().items()]
        else:
            documents += invented_public(settings)
        kept, left_out = _sifted(documents, refused, settings.alike)
        to_ask = {one.name: one for one in kept if one.task != PERSONAL and not one.asked}
        sources = [Source(f"q-{name}", {"document": one.text}, ()) for name, one in to_ask.items()]
        questions = write(QUESTIONS, sources, client, sampling=self.sampling, quiet=quiet)
        asked, rejects = _unique(questions, to_ask)
        written = [*stories.rejects, *lives.rejects, *questions.rejects]
        verified = self._verified(asked, to_ask, store, stack, quiet)
        again = [*stories.to_ask_again, *lives.to_ask_again, *questions.to_ask_again, *verified.to_ask_again]
        documents = [
            replace(one, asked=(asked[f"q-{one.name}"],)) if f"q-{one.name}" in verified.results else one
            for one in kept
        ]
        left = () if settings.leave_out_failed and not client.halted else tuple(again)
        return Done(documents, left_out, (*written, *rejects, *verified.rejects), left)

    def _verified(
        self, asked: Mapping[str, Asked], on: Mapping[str, Document], store: Store, stack: ExitStack, quiet: bool
    ) -> Written:
        """The questions that every verifier finds to have their one answer; all of them without verifiers."""
        if not self.judges:
            return Written(dict(asked), ())
        claims = [
            Claim(name, on[name.removeprefix("q-")].text, one.question, one.answer, ())
            for name, one in asked.items()
        ]
        clients = {}
        for judge in self.judges:
            permitted = self.settings.allow_remote_llm
            decision = decide(judge.settings.base_url, data_use="open", records=(), permitted=permitted)
            clients[judge.name] = stack.enter_context(Client(judge.settings, decision.enforce(), store=store))
        return verify(claims, clients, quiet=quiet)

    def _story_sources(self) -> list[Source]:
        drawn = plots(self.settings, self.settings.stories)
        return [
            Source(name, {"genre": plot.genre, "place": plot.place, "names": ", ".join(plot.names)}, ())
            for name, plot in drawn.items()
        ]

    @property
    def _people(self) -> dict[str, Person]:
        return people(self.settings, self.settings.personal_biographies)

    def _person_sources(self) -> list[Source]:
        return [
            Source(
                name,
                {
                    **{of: getattr(person, of) for of in ("name", "ssn", "phone", "email", "address")},
                    "birth_date": person.birth_day,
                },
                (),
            )
            for name, person in self._people.items()
        ]

    def _articles(self) -> dict[str, str]:
        found = {one.name: one.text for one in article_documents(self.settings)}
        return dict(list(found.items())[: public_count(self.settings)])


def _sifted(documents: Sequence[Document], refused: frozenset[str], alike: float) -> tuple[list[Document], LeftOut]:
    seen, kept = Seen(alike), []
    twice: list[Duplicate] = []
    dropped = []
    for one in documents:
        if one.name in refused:
            dropped.append(one.name)
        elif found := seen.take(one.name, one.text):
            twice.append(found)
        else:
            kept.append(one)
    return kept, LeftOut(tuple(twice), tuple(dropped))


def _unique(questions: Written, on: Mapping[str, Document]) -> tuple[dict[str, Asked], list[Reject]]:
    """The questions that no other document is asked too, and rejects for the others."""
    kept: dict[str, Asked] = {}
    rejects = []
    before: set[str] = set()
    for name, value in questions.results.items():
        one = on[name.removeprefix("q-")]
        asked = Asked(value["question"], value["answer"], f"llm:{QUESTIONS.version}:{one.task}")
        if is_askable(one, asked, before):
            before.add(asked.question.casefold())
            kept[name] = asked
        else:
            rejects.append(Reject(QUESTIONS.version, name, "excluded", "another document is asked the same"))
    return kept, rejects
