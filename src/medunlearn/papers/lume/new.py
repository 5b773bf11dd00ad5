"""``build lume --new`` into a folder: from a grammar or a language model, without documents rejected by reviewers.

Names, places and identifiers are drawn as without a model; prompts contain real people only from public articles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from medunlearn.config import check
from medunlearn.data.benchmark import PROVENANCE
from medunlearn.errors import ConfigError
from medunlearn.judging.cases import document_cases
from medunlearn.judging.judges import Judge, read_judges
from medunlearn.judging.labels import rows_of
from medunlearn.judging.sheet import CSV, PAGE, write_sheet
from medunlearn.judging.tasks import get_task
from medunlearn.judging.writing import Reject, Source, estimate_task
from medunlearn.llm import Budget, Client, CostEstimate, Store, decide
from medunlearn.papers.llm_build import (
    BuildResult,
    Say,
    Writer,
    WritingSession,
    build_facts,
    build_key,
    record_rejects,
    recorded,
    refuse_another,
    server_of,
    summary_lines,
)
from medunlearn.papers.lume import PERSONAL, STORY, invented
from medunlearn.papers.lume.invented import Candidate, Draft, Screen
from medunlearn.papers.lume.prompts import FACTS, LumeBiography, LumeQuestion, LumeStory, LumeVerify, verify
from medunlearn.papers.lume.settings import LumeNewSettings
from medunlearn.study.benchmark_builds import refuse_foreign, save_new

STORIES, BIOGRAPHIES, QUESTIONS, VERIFY = LumeStory(), LumeBiography(), LumeQuestion(), LumeVerify()
REVIEW = "review"
USUAL_WORDS = 170
"""Words of a story, for estimating the cost of questions on it."""


def build_new(
    values: Mapping[str, Any], out: Path, *, review: bool = False, quiet: bool = True, say: Say = print
) -> BuildResult:
    """Build LUME anew into a folder; resumes where it stopped.

    Args:
        values: settings of :class:`~medunlearn.papers.lume.settings.LumeNewSettings`.
        review: write a sheet on which people label each document, unless it exists.

    Raises:
        ConfigError, SourceError: wrong settings, articles or labels that cannot be read.
        InputError: the folder has other content, or there are too few documents.
        MedunlearnError: server, network or budget failed for some texts; the rest is stored.
    """
    settings = check(LumeNewSettings, values)
    refuse_foreign(out)
    files = [settings.articles, *settings.reviewed, settings.verifiers]
    key = build_key(settings, files, besides=("articles", "data_use", "reviewed", "verifiers"))
    refuse_another(out, key, again=settings.again)
    screen = Screen(settings.alike, _refused_names(settings))
    facts = build_facts(key, settings)
    with recorded(out, facts):
        writing_rejects: Sequence[Reject] = ()
        notes: dict[str, Any] = {}
        if settings.llm:
            writer = _writer(settings, out)
            _verifiers(settings)  # what is wrong with them is said before anything is paid for
            with writer.session(out, facts, quiet=quiet) as session:
                drafts = write_documents(settings, session, screen)
            writing_rejects = session.rejects
            notes = {"prompts": facts["prompts"], "left out": facts["rejects"], PROVENANCE: facts["provenance"]}
        else:
            drafts = invented.invent_drafts(settings, screen)
        benchmark = save_new(invented.assemble(drafts, settings, screen, notes), out)
        rejects = (*_screen_rejects(screen), *writing_rejects)
        record_rejects(out, rejects, facts)
    if review and not (out / REVIEW / CSV).exists() and not (out / REVIEW / PAGE).exists():
        write_sheet(out / REVIEW, get_task("document"), document_cases(benchmark))
    if not quiet:
        for line in summary_lines(out, rejects, facts):
            say(line)
        if review:
            say(f"{out / REVIEW / PAGE}: label each document, then build again with --reviewed LABELS.csv")
    return BuildResult(benchmark, rejects, facts)


def plan_new(values: Mapping[str, Any], out: Path) -> dict[str, CostEstimate]:
    """Cost of :func:`build_new` by task and verifier, empty without a server; sends and writes nothing.

    Questions are counted for texts of the usual length.
    """
    settings = check(LumeNewSettings, values)
    if not settings.llm:
        return {}
    writer = _writer(settings, out)
    filler = " ".join(["word"] * USUAL_WORDS)
    stories = _story_sources(settings)
    # Each with its own name, since equal prompts would count once.
    texts = {story.id: f"{story.id} {filler}" for story in stories}
    if settings.articles is not None:
        texts |= {draft.record.record_id: draft.record.text for draft in _articles(settings)}
    questions = [Source(f"q-{name}", {"document": text}, ()) for name, text in texts.items()]
    estimates = writer.estimates({STORIES: stories, BIOGRAPHIES: _person_sources(settings), QUESTIONS: questions})
    claims = [replace(draft, fields={**draft.fields, "question": filler[:100]}) for draft in questions]
    with Store.existing(writer.store) as store:
        for judge in _verifiers(settings):
            estimates[f"{VERIFY.name} by {judge.name}"] = estimate_task(
                VERIFY, claims, judge.settings, store, again=settings.again
            )
    return estimates


def _writer(settings: LumeNewSettings, out: Path) -> Writer:
    # Everybody in the prompts is invented or stands in an article, so no record is named to the guard.
    return Writer.of(settings, out, data_use=invented.documents_use(settings))


def _verifiers(settings: LumeNewSettings) -> list[Judge]:
    judges = read_judges(settings.verifiers) if settings.verifiers else []
    unpriced = [judge.name for judge in judges if judge.settings.price is None]
    if unpriced and server_of(settings.llm).budget_money is not None:
        missing = f"{settings.verifiers} has no `prices:` of {', '.join(unpriced)}"
        raise ConfigError([f"budget_money covers the whole build with its verifiers, and {missing}"])
    return judges


def write_documents(settings: LumeNewSettings, session: WritingSession, screen: Screen) -> list[Draft]:
    """Documents by the model, with at most one question each; rejects are collected by session and screen."""
    stories = session.write(STORIES, _story_sources(settings))
    biographies = session.write(BIOGRAPHIES, _person_sources(settings))
    persons = invented.people(settings, settings.personal_biographies)
    count = invented.public_count(settings)
    public = _articles(settings) if settings.articles else list(islice(invented.lives(settings, count), count))
    drafts = [
        *(invented.make_draft(name, STORY, value["story"]) for name, value in stories.items()),
        *(invented.make_biography(name, persons[name], value["biography"]) for name, value in biographies.items()),
        *public,
    ]
    drafts = list(screen.passed(drafts))
    unasked = {
        f"q-{draft.record.record_id}": draft for draft in drafts if draft.task != PERSONAL and not draft.candidates
    }
    questions = _write_questions(session, unasked)
    verified = _verify(settings, session, questions, unasked)
    return [
        replace(draft, candidates=(questions[name],))
        if (name := f"q-{draft.record.record_id}") in verified
        else draft
        for draft in drafts
    ]


def _write_questions(session: WritingSession, drafts: Mapping[str, Draft]) -> dict[str, Candidate]:
    """Questions by source; duplicates of another document's question are rejects."""
    sources = [Source(name, {"document": draft.record.text}, ()) for name, draft in drafts.items()]
    questions: dict[str, Candidate] = {}
    before: set[str] = set()
    for name, value in session.write(QUESTIONS, sources).items():
        question, answer = value["question"], value["answer"]
        if invented.is_askable(drafts[name].record.text, question, answer, before):
            before.add(question.casefold())
            questions[name] = (question, answer, f"llm:{QUESTIONS.version}:{drafts[name].task}")
        else:
            session.exclude(QUESTIONS.version, name, "another document is asked the same")
    return questions


def _verify(
    settings: LumeNewSettings,
    session: WritingSession,
    questions: Mapping[str, Candidate],
    drafts: Mapping[str, Draft],
) -> Mapping[str, object]:
    """Questions whose only answer every verifier finds; all of them without verifiers."""
    judges = _verifiers(settings)
    if not judges:
        return questions
    sources = [
        Source(name, {"document": drafts[name].record.text, "question": question}, ())
        for name, (question, _, _) in questions.items()
    ]
    answers = {name: answer for name, (_, answer, _) in questions.items()}
    with ExitStack() as stack:
        clients = {}
        for judge in judges:
            permitted, use = settings.allow_remote_llm, invented.documents_use(settings)
            decision = decide(judge.settings.base_url, data_use=use, permitted=permitted)
            # What a verifier uses is on the build's bill, and counts against its budget.
            budget = Budget(judge.settings, within=session.budget)
            client = Client(judge.settings, decision.enforce(), store=session.store, budget=budget)
            clients[judge.name] = stack.enter_context(client)
        try:
            verification = verify(sources, answers, clients, quiet=session.quiet)
        finally:
            session.verifiers |= {name: client.facts() for name, client in clients.items()}
        return session.add(VERIFY, verification, clients.values())


def _story_sources(settings: LumeNewSettings) -> list[Source]:
    return [
        Source(name, {"genre": plot.genre, "place": plot.place, "names": ", ".join(plot.names)}, ())
        for name, plot in invented.plots(settings, settings.stories).items()
    ]


def _person_sources(settings: LumeNewSettings) -> list[Source]:
    persons = invented.people(settings, settings.personal_biographies).items()
    return [
        Source(name, {of: person.birth_day if of == "birth_date" else getattr(person, of) for of in FACTS}, ())
        for name, person in persons
    ]


def _articles(settings: LumeNewSettings) -> list[Draft]:
    return list(invented.articles(settings))[: invented.public_count(settings)]


def _refused_names(settings: LumeNewSettings) -> frozenset[str]:
    """Names of documents labelled No by a reviewer."""
    if not settings.reviewed:
        return frozenset()
    task = get_task("document")
    # A sheet is labelled before the benchmark that heeds it is there, so its own ids are all that can be known.
    names = [row["case_id"].strip() for path in settings.reviewed for _, row in rows_of(path)]
    labels = task.sheet.read_people(settings.reviewed, names).values()
    return frozenset(name for verdicts in labels for name, verdict in verdicts.items() if verdict == task.negative)


def _screen_rejects(screen: Screen) -> list[Reject]:
    return [
        *(
            Reject("near-duplicates", draft.name, "excluded", f"too much like {draft.like} ({draft.overlap:.2f})")
            for draft in screen.duplicates
        ),
        *(Reject("review", name, "excluded", "a reviewer labelled it No") for name in screen.reviewed),
    ]
