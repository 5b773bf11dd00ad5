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
from medunlearn.papers.medforget.items import SectionItem
from medunlearn.papers.medforget.prompts.paraphrase import MedforgetParaphrase
from medunlearn.papers.medforget.prompts.section import MedforgetSection
from medunlearn.papers.medforget.questions import Items, Phrasing, templated
from medunlearn.papers.medforget.selection import Selection

SECTION, PARAPHRASE = MedforgetSection(), MedforgetParaphrase()


def cost(selection: Selection, settings: MedforgetSettings, writer: Writer) -> dict[str, CostEstimate]:
    """Cost by task; nothing is sent. Paraphrases are counted for the templates' questions."""
    wanted: dict[WritingTask, Sequence[Source]] = {SECTION: _section_sources(selection)}
    if settings.rephrase != "none":
        wanted[PARAPHRASE] = list(_stems(selection, settings, templated(selection, settings)))
    return writer.estimates(wanted)


def write_items(selection: Selection, settings: MedforgetSettings, session: WritingSession) -> Items:
    """Items of every section; by templates where the model gave none. Rejects are the session's."""
    items = templated(selection, settings)
    texts = {node: text for node, _, _, text in selection.sections()}
    for node, value in session.write(SECTION, _section_sources(selection)).items():
        by_model = {item.kind: item for item in _written(value)}
        problems = _problems(value, texts[node])
        items[node] = [by_rule if by_rule.kind in problems else by_model[by_rule.kind] for by_rule in items[node]]
        for kind, why in problems.items():
            session.exclude(SECTION.version, f"{node}-{kind}", why)
    if settings.rephrase != "none":
        reworded = session.write(PARAPHRASE, list(_stems(selection, settings, items)))
        rewriter = f"llm:{PARAPHRASE.version}"
        for node, of_section in items.items():
            values = [(item, reworded.get(f"{node}-{item.kind}")) for item in of_section]
            items[node] = [
                item if value is None else replace(item, reworded=value["question"], rewriter=rewriter)
                for item, value in values
            ]
    return items


def _section_sources(selection: Selection) -> list[Source]:
    return [
        Source(node, {"section": section.replace("_", " "), "text": text}, ())
        for node, _, section, text in selection.sections()
    ]


def _stems(selection: Selection, settings: MedforgetSettings, items: Items) -> Iterator[Source]:
    """Every question that a model is trained on, without its options, to be put in other words."""
    for node, study, section, _ in selection.sections():
        phrasing = Phrasing(study, settings, study.study.shown and not settings.text_only)
        for item in items[node]:
            question = phrasing.stem(item, section, "train")
            yield Source(f"{node}-{item.kind}", {"question": question, "answer": item.answer}, ())


def _written(value: Mapping[str, Any]) -> Iterator[SectionItem]:
    """The model's three questions on a section."""
    writer, told, gap, choice = (
        f"llm:{SECTION.version}",
        *(value[k] for k in ("generation", "cloze", "classification")),
    )
    yield SectionItem("generation", told["answer"], told["question"], writer=writer)
    yield SectionItem("cloze", gap["answer"], statement=gap["statement"], writer=writer)
    options, right = tuple(choice["options"]), choice["answer_index"]
    yield SectionItem(
        "classification", options[right], choice["question"], options=options, answer_index=right, writer=writer
    )


def _problems(value: Mapping[str, Any], text: str) -> dict[str, str]:
    """Kind -> the rule of the benchmark that its question breaks."""
    gap, options = value["cloze"], value["classification"]["options"]
    alike = len(set(map(normalised, options))) < len(options)
    problems = {
        "cloze": wrong_cloze(gap["statement"], gap["answer"], text),
        "classification": "two options are the same" if alike else "",
    }
    return {kind: why for kind, why in problems.items() if why}
