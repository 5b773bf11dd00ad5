"""``build amnesia NOTES``: a person's notes through labels and questions to a benchmark, beside what it took.

The folder gets the benchmark, ``labels.parquet`` and ``evidence.parquet`` (what the model based its answers on),
``rejects.parquet`` (every row and note that is not in the benchmark, and why), ``build.json`` (settings, the
guard's decision, what was used) and, unless told otherwise, the model's responses in ``llm/``, through which a
build that was cut off goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import medunlearn
from medunlearn.config import AmnesiaNotesSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import write_json
from medunlearn.errors import MedunlearnError
from medunlearn.judging.writing import Reject, Sampling, Source, Written, estimated, reasons, save_rejects, write
from medunlearn.llm import Budget, Client, Estimate, ServerSettings, Store
from medunlearn.llm.store import FILE as STORE_FILE
from medunlearn.llm.usage import in_money
from medunlearn.papers.amnesia.from_notes import AskedNote, Origin, from_notes
from medunlearn.papers.amnesia.notes_files import (
    BUILD,
    REJECTS_FILE,
    RESPONSES,
    labels_of,
    refuse_another,
    save_tables,
)
from medunlearn.papers.amnesia.notes_input import Prepared, prepare
from medunlearn.papers.amnesia.prompts.disease_label import OTHER, DiseaseLabel
from medunlearn.papers.amnesia.prompts.questions import AmnesiaQuestions
from medunlearn.pipeline.benchmarks import refuse_foreign, save_new
from medunlearn.sources.hub import PREFIX
from medunlearn.sources.notes import Note, Notes

Say = Callable[[str], None]
LABEL, QUESTIONS = DiseaseLabel(), AmnesiaQuestions()


@dataclass(frozen=True)
class Built:
    """A benchmark from notes.

    Attributes:
        rejects: every row and note that is not in it.
        facts: what ``build.json`` says.
    """

    benchmark: Benchmark
    rejects: tuple[Reject, ...]
    facts: Mapping[str, Any]


def build_from_notes(values: Mapping[str, Any], out: Path, *, quiet: bool = True, say: Say = print) -> Built:
    """Label notes, have questions written, and save the benchmark; again, it goes on where it stopped.

    Args:
        values: of :class:`~medunlearn.config.AmnesiaNotesSettings`.
        out: the benchmark's folder.
        quiet: no progress bars, nothing said.
        say: takes a line about what was left out.

    Raises:
        ConfigError, SourceError: wrong settings, notes that cannot be read.
        RemoteRefusedError: the notes must stay here, and the server is elsewhere.
        InputError: the folder holds something else.
        MedunlearnError: server, network or budget kept notes from being asked about; the others are kept.
    """
    settings = check(AmnesiaNotesSettings, values)
    refuse_foreign(out)
    ready = prepare(settings)
    ready.decision.enforce()
    key = ready.key([LABEL.version, QUESTIONS.version])
    refuse_another(out, key, again=settings.again)
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    with Store(settings.store or out / RESPONSES) as store:
        before = store.spent()
        budget = Budget(ready.server, spent=before)
        with Client(ready.server, ready.decision, store=store, budget=budget, again=settings.again) as client:
            labels, questions, excluded = _ask(ready, client, quiet)
            facts = _facts(ready, key, client, before.requests)
    rejects = (*_bad_rows(ready.notes), *excluded, *labels.rejects, *questions.rejects)
    save_rejects(out / REJECTS_FILE, rejects)
    facts |= {"rejects": dict(Counter(f"{reject.task}: {reject.status}" for reject in rejects))}
    try:
        _refuse_incomplete(labels, questions, settings, client.halted)
        _refuse_nothing(out, questions, rejects)
        benchmark = save_new(_benchmark(ready, labels, questions, facts, settings), out)
    except MedunlearnError:
        write_json(out / BUILD, {"status": "incomplete", **facts})
        raise
    save_tables(out, ready.chosen, labels.results, questions.results, LABEL.version)
    write_json(out / BUILD, {"status": "complete", **facts})
    if not quiet:
        _tell(say, out, rejects, facts)
    return Built(benchmark, rejects, facts)


def plan_from_notes(values: Mapping[str, Any], out: Path) -> dict[str, Estimate]:
    """What :func:`build_from_notes` would send and cost, by task; nothing is sent and nothing is written.

    Questions are counted for every note: how many labels will leave out is not known before.
    """
    settings = check(AmnesiaNotesSettings, values)
    ready = prepare(settings)
    ready.decision.enforce()
    folder, sampling = settings.store or out / RESPONSES, _sampling(settings)
    store = Store(folder) if (folder / STORE_FILE).exists() else None
    try:
        server: ServerSettings = ready.server
        notes, _ = _to_label(ready)
        plans = {}
        if ready.asks_labels:
            plans[LABEL.name] = estimated(LABEL, _label_sources(notes), server, store, sampling)
        plans[QUESTIONS.name] = estimated(QUESTIONS, _question_sources(notes), server, store, sampling)
    finally:
        if store is not None:
            store.close()
    return plans


def _ask(ready: Prepared, client: Client, quiet: bool) -> tuple[Written, Written, list[Reject]]:
    """Labels, questions, and what a rule left out in between."""
    settings = ready.settings
    notes, excluded = _to_label(ready)
    if ready.asks_labels:
        labels = write(LABEL, _label_sources(notes), client, sampling=_sampling(settings), quiet=quiet)
    else:
        given = {note.note_id: {"category": note.disease, "reason": "given"} for note in notes}
        labels = Written(given, ())
    chosen = {name: value for name, value in labels.results.items() if not _left_out(value, ready)}
    why = f"its title fits none of the {len(LABEL.categories) - 1} diseases (other=keep keeps it)"
    excluded += [Reject(LABEL.version, name, "excluded", why) for name in labels.results if name not in chosen]
    asked = [note for note in notes if note.note_id in chosen]
    written = write(QUESTIONS, _question_sources(asked), client, sampling=_sampling(settings), quiet=quiet)
    return Written(chosen, labels.rejects), written, excluded


def _left_out(value: Mapping[str, str], ready: Prepared) -> bool:
    return ready.asks_labels and ready.settings.other == "drop" and value["category"] == OTHER


def _to_label(ready: Prepared) -> tuple[list[Note], list[Reject]]:
    """Notes that have what a label needs; rejects for those that have not."""
    lacking = "title" if ready.asks_labels else "disease"
    has = {note.note_id for note in ready.chosen if getattr(note, lacking)}
    why = f"it has no {lacking}, so its disease cannot be told"
    rejects = [Reject("notes", note.note_id, "excluded", why) for note in ready.chosen if note.note_id not in has]
    return [note for note in ready.chosen if note.note_id in has], rejects


def _label_sources(notes: Sequence[Note]) -> list[Source]:
    return [Source(note.note_id, {"title": note.title}, _known(note)) for note in notes]


def _question_sources(notes: Sequence[Note]) -> list[Source]:
    return [Source(note.note_id, {"note": note.text}, _known(note)) for note in notes]


def _known(note: Note) -> tuple[str, ...]:
    # Where nobody named any, the whole file was declared open or the server is allowed to get everything.
    return tuple(found.value for found in note.identifiers or ())


def _sampling(settings: AmnesiaNotesSettings) -> Sampling:
    return Sampling(settings.temperature, settings.answer_tokens, settings.llm_seed)


def _bad_rows(notes: Notes) -> list[Reject]:
    return [Reject("notes", place, "excluded", reason) for place, reason in notes.excluded]


def _facts(ready: Prepared, key: str, client: Client, requests_before: int) -> dict[str, Any]:
    spent = client.spent
    return {
        "key": key,
        "medunlearn": medunlearn.__version__,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "notes": ready.inputs(),
        "settings": ready.settings.model_dump(mode="json"),
        "prompts": [LABEL.version, QUESTIONS.version] if ready.asks_labels else [QUESTIONS.version],
        "llm": client.facts(),
        "requests sent now": spent.requests - requests_before,
    }


def _refuse_incomplete(labels: Written, questions: Written, settings: AmnesiaNotesSettings, halted: str) -> None:
    left = (*labels.to_ask_again, *questions.to_ask_again)
    if not left or (settings.leave_out_failed and not halted):
        return
    why = halted or next(iter(reasons(left, most=1)))
    raise MedunlearnError(
        f"{len(left)} notes were not asked about to the end, so no benchmark was built. {why}\nWhat came back is "
        "kept: give the same command again and it goes on from there"
        + ("." if halted else ", or leave these notes out with --leave-out-failed.")
    )


def _refuse_nothing(out: Path, questions: Written, rejects: Sequence[Reject]) -> None:
    if not questions.results:
        shown = "\n".join(f"  - {line}" for line in reasons(rejects))
        raise MedunlearnError(
            f"No note came through, so there is no benchmark ({out / REJECTS_FILE}):\n{shown}\nWhat the model said "
            "is kept and not asked for again, unless with --llm-again; another --llm-model is asked anew."
        )


def _benchmark(
    ready: Prepared, labels: Written, questions: Written, facts: Mapping[str, Any], settings: AmnesiaNotesSettings
) -> Benchmark:
    categories = labels_of(labels.results)
    asked = [
        AskedNote(note, categories[note.note_id], _pairs(questions.results[note.note_id]))
        for note in ready.chosen
        if note.note_id in questions.results
    ]
    told = {"prompts": facts["prompts"], "left out": facts["rejects"], "guard": ready.decision.reason}
    origin = Origin(
        name=f"AMNESIA on {len(asked)} notes of {_named(settings)}",
        source=f"PMC-Patients ({_named(settings)})" if ready.notes.is_pmc else _named(settings),
        licence="cc-by-nc-sa-4.0" if ready.notes.is_pmc else "",
        data_use=ready.data_use,
        provenance=f"llm:{ready.server.name}:{QUESTIONS.version}",
        notes=told,
    )
    return from_notes(
        asked, origin, seed=settings.seed, outside=(OTHER,), named=settings.diseases, percents=settings.percents
    )


def _named(settings: AmnesiaNotesSettings) -> str:
    """What the notes are called: a hub's whole address, a file's name."""
    where = settings.notes.as_posix()
    return where if where.startswith(PREFIX) else settings.notes.name


def _pairs(value: Mapping[str, Any]) -> dict[Any, list[tuple[str, str]]]:
    return {kind: [(item["question"], item["answer"]) for item in value[kind]] for kind in ("factual", "reasoning")}


def _tell(say: Say, out: Path, rejects: Sequence[Reject], facts: Mapping[str, Any]) -> None:
    llm = facts["llm"]
    money = "" if llm["money"] is None else f", {in_money(llm['money'])} of money"
    tokens = llm["prompt_tokens"] + llm["answer_tokens"]
    say(f"{facts['requests sent now']} requests sent now; {tokens:,} tokens{money} with what was sent before")
    if rejects:
        say(f"{len(rejects)} were left out; they are listed in {out / REJECTS_FILE}")
        for line in reasons(rejects):
            say(f"  {line}")
