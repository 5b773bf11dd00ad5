"""MedForget's section questions and their paraphrases by a language model; templates fill in what it lacks.

Prompts show sections of reports alone: names of institutions, patients and studies are the benchmark's own and are
asked about by templates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medunlearn.config import MedforgetSettings
from medunlearn.judging.writing import Source, WritingTask
from medunlearn.llm import CostEstimate
from medunlearn.papers.llm_build import Writer, WritingSession
from medunlearn.papers.medforget.checks import normalised, wrong_cloze
from medunlearn.papers.medforget.prompts.paraphrase import MedforgetParaphrase
from medunlearn.papers.medforget.prompts.section import MedforgetSection
from medunlearn.papers.medforget.questions import Asked, Item, stem, templated
from medunlearn.papers.medforget.selection import ChosenStudy, Selection

SECTION, PARAPHRASE = MedforgetSection(), MedforgetParaphrase()


def cost(selection: Selection, settings: MedforgetSettings, writer: Writer) -> dict[str, CostEstimate]:
    """Cost by task; nothing is sent. Paraphrases are counted for the templates' questions."""
    wanted: dict[WritingTask, Sequence[Source]] = {SECTION: _section_sources(selection)}
    if settings.rephrase == "all":
        wanted[PARAPHRASE] = list(_stems(selection, settings, templated(selection, settings)))
    return writer.estimates(wanted)


def write_items(selection: Selection, settings: MedforgetSettings, session: WritingSession) -> Mapping[str, Item]:
    """Section node -> its three questions; by templates where the model gave none. Rejects are the session's."""
    items = templated(selection, settings)
    texts = {f"{study.node}-{name}": text for study, name, text in _sections(selection)}
    for node, value in session.write(SECTION, _section_sources(selection)).items():
        items[node], problems = _item(value, texts[node], items[node])
        for kind, why in problems:
            session.exclude(SECTION.version, f"{node}-{kind}", why)
    if settings.rephrase == "all":
        reworded = session.write(PARAPHRASE, list(_stems(selection, settings, items)))
        for node, item in items.items():
            items[node] = tuple(_with_words(asked, reworded.get(_id(node, asked))) for asked in item)
    return items


def _stems(selection: Selection, settings: MedforgetSettings, items: Mapping[str, Item]) -> Iterator[Source]:
    """Every question that a model is trained on, without its options, to be put in other words."""
    for study, section, _ in _sections(selection):
        node = f"{study.node}-{section}"
        with_image = study.study.shown and not settings.text_only
        for asked in items[node]:
            question = stem(asked, section, study, settings, "train", with_image=with_image)
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
