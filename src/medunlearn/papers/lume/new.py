"""``build lume --new`` into a folder: reviewers are heeded, and a language model writes where one is named.

The folder gets the benchmark, ``rejects.parquet`` (every document or question that is not in it, and why),
``build.json`` and, with a model, its responses in ``llm/``, through which a build that was cut off goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import medunlearn
from medunlearn.config import LumeNewSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.storage import sha256_of, sha256_of_json, write_json
from medunlearn.errors import MedunlearnError
from medunlearn.judging import document
from medunlearn.judging.cases import document_cases
from medunlearn.judging.labels import read_people, rows_of
from medunlearn.judging.sheet import CSV, PAGE, write_sheet
from medunlearn.judging.writing import Reject, reasons, save_rejects
from medunlearn.llm import Estimate
from medunlearn.papers.amnesia.notes_files import BUILD, REJECTS_FILE, refuse_another
from medunlearn.papers.lume.build_new import assemble
from medunlearn.papers.lume.documents import Document, LeftOut, invented
from medunlearn.papers.lume.writing import Writing
from medunlearn.pipeline.benchmarks import refuse_foreign, save_new

REVIEW = "review"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    """A benchmark built anew.

    Attributes:
        rejects: every document and question that is not in it.
        facts: what ``build.json`` says.
    """

    benchmark: Benchmark
    rejects: tuple[Reject, ...]
    facts: Mapping[str, Any]


def build_new(
    values: Mapping[str, Any], out: Path, *, review: bool = False, quiet: bool = True, say: Say = print
) -> Built:
    """Build LUME anew into a folder; again, it goes on where it stopped.

    Args:
        values: of :class:`~medunlearn.config.LumeNewSettings`.
        review: write a sheet on which people label each document, unless it is there already.

    Raises:
        ConfigError, SourceError: wrong settings, articles or labels that cannot be read.
        InputError: the folder holds something else, or documents are too few.
        MedunlearnError: server, network or budget kept something from being written; the rest is kept.
    """
    settings = check(LumeNewSettings, values)
    refuse_foreign(out)
    key = _key(settings)
    refuse_another(out, key, again=settings.again)
    refused = _refused(settings)
    facts: dict[str, Any] = {
        "key": key,
        "medunlearn": medunlearn.__version__,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings.model_dump(mode="json"),
    }
    if settings.llm:
        documents, left_out, more, rejects = _written(settings, out, refused, facts, quiet)
    else:
        documents, left_out = invented(settings, refused)
        more, rejects = {}, ()
    rejects = (*_gone(left_out), *rejects)
    benchmark = save_new(assemble(documents, settings, left_out, more), out)
    save_rejects(out / REJECTS_FILE, rejects)
    write_json(out / BUILD, {"status": "complete", **facts, "rejects": _counted(rejects)})
    if review and not (out / REVIEW / CSV).exists() and not (out / REVIEW / PAGE).exists():
        write_sheet(out / REVIEW, document.TASK, document_cases(benchmark))
    if not quiet:
        _tell(say, out, rejects, facts, review)
    return Built(benchmark, rejects, facts)


def plan_new(values: Mapping[str, Any], out: Path) -> dict[str, Estimate]:
    """What :func:`build_new` would send and cost, by task; nothing is sent and nothing is written.

    Questions are counted for texts of the usual length, since the texts are not there yet. Empty without a server.
    """
    settings = check(LumeNewSettings, values)
    return Writing.of(settings, out).estimates() if settings.llm else {}


def _written(
    settings: LumeNewSettings, out: Path, refused: frozenset[str], facts: dict[str, Any], quiet: bool
) -> tuple[list[Document], LeftOut, dict[str, Any], tuple[Reject, ...]]:
    writing = Writing.of(settings, out)
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        done = writing.run(refused, quiet=quiet)
    except MedunlearnError:
        write_json(out / BUILD, {"status": "incomplete", **facts, **writing.facts})
        raise
    facts |= writing.facts
    if left := done.left:
        write_json(out / BUILD, {"status": "incomplete", **facts})
        save_rejects(out / REJECTS_FILE, done.rejects)
        raise MedunlearnError(
            f"{len(left)} requests were not answered to the end, so no benchmark was built. "
            f"{writing.halted or next(iter(reasons(left, most=1)))}\nWhat came back is kept: give the same command "
            "again and it goes on from there" + ("." if writing.halted else ", or add --leave-out-failed.")
        )
    more = {"prompts": writing.facts["prompts"], "left out": _counted(done.rejects)}
    return done.documents, done.left_out, more, done.rejects


def _key(settings: LumeNewSettings) -> str:
    """Hash of all that the benchmark depends on besides what the model says."""
    how = {"llm", "store", "again", "leave_out_failed", "allow_remote_llm", "articles", "reviewed", "verifiers"}
    files = [settings.articles, *settings.reviewed, settings.verifiers]
    model = [settings.llm.get("model_name") or settings.llm.get("model"), settings.llm.get("extra")]
    return sha256_of_json(
        [
            settings.model_dump(mode="json", exclude=how),
            [sha256_of(path) for path in files if path is not None and path.is_file()],
            model,
        ]
    )


def _refused(settings: LumeNewSettings) -> frozenset[str]:
    """Names of documents that somebody labelled No."""
    if not settings.reviewed:
        return frozenset()
    names = [name for path in settings.reviewed for name in _case_ids(path)]
    people = read_people(settings.reviewed, document.TASK, names)
    return frozenset(
        name for labels in people.values() for name, verdict in labels.items() if verdict == document.UNFIT
    )


def _case_ids(path: Path) -> Iterable[str]:
    # A sheet is labelled before the benchmark that heeds it is there, so its own ids are all that can be known.
    return [row["case_id"].strip().removeprefix("'") for _, row in rows_of(path)]


def _gone(left_out: LeftOut) -> Iterable[Reject]:
    for one in left_out.duplicates:
        yield Reject("near-duplicates", one.name, "excluded", f"too much like {one.like} ({one.overlap:.2f})")
    for name in left_out.reviewed:
        yield Reject("review", name, "excluded", "a reviewer labelled it No")


def _counted(rejects: Iterable[Reject]) -> dict[str, int]:
    return dict(Counter(f"{reject.task}: {reject.status}" for reject in rejects))


def _tell(say: Say, out: Path, rejects: tuple[Reject, ...], facts: Mapping[str, Any], review: bool) -> None:
    if "llm" in facts:
        tokens = facts["llm"]["prompt_tokens"] + facts["llm"]["answer_tokens"]
        say(f"{facts['requests sent now']} requests sent now; {tokens:,} tokens with what was sent before")
    if rejects:
        say(f"{len(rejects)} were left out; they are listed in {out / REJECTS_FILE}")
        for line in reasons(rejects):
            say(f"  {line}")
    if review:
        say(f"{out / REVIEW / PAGE}: label each document, then build again with reviewed=LABELS.csv")
