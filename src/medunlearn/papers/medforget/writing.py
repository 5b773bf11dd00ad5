"""A language model writes MedForget's section questions and their other words; code checks, and templates fill in.

Prompts show sections of reports alone: names of institutions, patients and studies are the benchmark's own and are
asked about by templates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from medunlearn.config import MedforgetSettings, check
from medunlearn.errors import ConfigError
from medunlearn.judging.writing import Reject, Sampling, Source, Task, estimated, write
from medunlearn.llm import Budget, Client, Decision, Estimate, ServerSettings, Store, decide
from medunlearn.llm.store import FILE as STORE_FILE
from medunlearn.papers.amnesia.notes_files import RESPONSES
from medunlearn.papers.medforget.checks import normalised, wrong_cloze
from medunlearn.papers.medforget.prompts.paraphrase import MedforgetParaphrase
from medunlearn.papers.medforget.prompts.section import MedforgetSection
from medunlearn.papers.medforget.questions import Asked, Item, stem, templated
from medunlearn.papers.medforget.selection import ChosenStudy, Selection

SECTION, PARAPHRASE = MedforgetSection(), MedforgetParaphrase()


@dataclass(frozen=True)
class Done:
    """What was written.

    Attributes:
        items: section node -> its three questions; by templates where the model gave none.
        rejects: what the model did not give, and why.
        left: what server, network or budget are to blame for, where that is not to be filled by templates.
    """

    items: Mapping[str, Item] = field(repr=False)
    rejects: tuple[Reject, ...]
    left: tuple[Reject, ...]


@dataclass
class Writing:
    """Everything that writing needs, checked; ``facts`` and ``halted`` tell how it went."""

    settings: MedforgetSettings
    server: ServerSettings
    decision: Decision
    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    halted: str = ""

    @staticmethod
    def of(settings: MedforgetSettings, data_use: Literal["open", "credentialed"], out: Path) -> Writing:
        """Raises:
        ConfigError: no server or no model.
        RemoteRefusedError: the reports must stay here, and the server is elsewhere.
        """
        lacking = {"base_url": "--llm URL", "model": "--llm-model NAME"}
        missing = [f"{flag} is missing: it writes" for key, flag in lacking.items() if not settings.llm.get(key)]
        if missing:
            raise ConfigError(missing)
        server = check(ServerSettings, settings.llm)
        decision = decide(server.base_url, data_use=data_use, permitted=settings.allow_remote_llm)
        return Writing(settings, server, decision.enforce(), settings.store or out / RESPONSES)

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.settings.temperature, self.settings.answer_tokens, self.settings.llm_seed)

    def estimates(self, selection: Selection) -> dict[str, Estimate]:
        """What would be sent; nothing is. Paraphrases are counted for the templates' questions."""
        items = templated(selection, self.settings)
        store = Store(self.folder) if (self.folder / STORE_FILE).exists() else None
        wanted: dict[Task, Sequence[Source]] = {SECTION: _section_sources(selection)}
        if self.settings.rephrase == "all":
            wanted[PARAPHRASE] = list(self._stems(selection, items))
        try:
            return {
                task.name: estimated(task, sources, self.server, store, self.sampling)
                for task, sources in wanted.items()
            }
        finally:
            if store is not None:
                store.close()

    def run(self, selection: Selection, *, quiet: bool = True) -> Done:
        """Ask, check and put together; what came back is kept as it comes."""
        with ExitStack() as stack:
            store = stack.enter_context(Store(self.folder))
            before = store.spent()
            budget = Budget(self.server, spent=before)
            again = self.settings.again
            client = stack.enter_context(
                Client(self.server, self.decision, store=store, budget=budget, again=again)
            )
            done = self._run(client, selection, quiet)
            self.halted = client.halted
            self.facts = {
                "prompts": [SECTION.version, PARAPHRASE.version],
                "llm": client.facts(),
                "guard": self.decision.to_json(),
                "requests sent now": client.spent.requests - before.requests,
            }
        return done

    def _run(self, client: Client, selection: Selection, quiet: bool) -> Done:
        items = templated(selection, self.settings)
        texts = {f"{study.node}-{name}": text for study, name, text in _sections(selection)}
        written = write(SECTION, _section_sources(selection), client, sampling=self.sampling, quiet=quiet)
        unfit = []
        for node, value in written.results.items():
            found, problems = _item(value, texts[node], items[node])
            items[node] = found
            unfit += [Reject(SECTION.version, f"{node}-{kind}", "excluded", why) for kind, why in problems]
        rejects, again = [*written.rejects, *unfit], [*written.to_ask_again]
        if self.settings.rephrase == "all":
            reworded = write(
                PARAPHRASE, list(self._stems(selection, items)), client, sampling=self.sampling, quiet=quiet
            )
            for node, item in items.items():
                items[node] = tuple(_with_words(asked, reworded.results.get(_id(node, asked))) for asked in item)
            rejects += reworded.rejects
            again += reworded.to_ask_again
        left = () if self.settings.leave_out_failed and not client.halted else tuple(again)
        return Done(items, tuple(rejects), left)

    def _stems(self, selection: Selection, items: Mapping[str, Item]) -> Iterator[Source]:
        """Every question that a model is trained on, without its options, to be put in other words."""
        for study, section, _ in _sections(selection):
            node = f"{study.node}-{section}"
            with_image = study.study.shown and not self.settings.text_only
            for asked in items[node]:
                question = stem(asked, section, study, self.settings, "train", with_image=with_image)
                yield Source(_id(node, asked), {"question": question, "answer": asked.answer}, ())


def _item(value: Mapping[str, Any], text: str, by_template: Item) -> tuple[Item, list[tuple[str, str]]]:
    """The model's three questions, with the template's in place of those that a rule of the benchmark refuses."""
    writer = f"llm:{SECTION.version}"
    choice, gap = value["classification"], value["cloze"]
    options = tuple(choice["options"])
    own = {
        "generation": Asked("generation", value["generation"]["answer"], value["generation"]["question"]),
        "cloze": Asked("cloze", gap["answer"], statement=gap["statement"]),
        "classification": Asked(
            "classification",
            options[choice["answer_index"]],
            choice["question"],
            options=options,
            answer_index=choice["answer_index"],
        ),
    }
    problems = {
        "generation": "",
        "cloze": wrong_cloze(gap["statement"], gap["answer"], text),
        "classification": "" if len(set(map(normalised, options))) == len(options) else "two options are the same",
    }
    item = [asked if problems[asked.kind] else replace(own[asked.kind], writer=writer) for asked in by_template]
    return item, [(kind, why) for kind, why in problems.items() if why]


def _with_words(asked: Asked, value: Mapping[str, str] | None) -> Asked:
    if value is None:
        return asked
    return replace(asked, reworded=value["question"], rewriter=f"llm:{PARAPHRASE.version}")


def _id(node: str, asked: Asked) -> str:
    return f"{node}-{asked.kind}"


def _sections(selection: Selection) -> Iterator[tuple[ChosenStudy, str, str]]:
    for patient in selection.patients:
        for study in patient.studies:
            for section, text in study.sections.items():
                yield study, section, text


def _section_sources(selection: Selection) -> Sequence[Source]:
    return [
        Source(f"{study.node}-{section}", {"section": section.replace("_", " "), "text": text}, ())
        for study, section, text in _sections(selection)
    ]
