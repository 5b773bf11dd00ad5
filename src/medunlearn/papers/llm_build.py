"""Builds with a language model: write, check, list rejects, and save to a folder that resumes.

Besides the benchmark, the folder gets ``build.json`` (settings, the guard's decision, usage), ``rejects.parquet``
(everything excluded from the benchmark, with reasons) and, unless told otherwise, the model's responses in
``llm/``, from which an interrupted build resumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import medunlearn
from medunlearn.config import Settings, check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.data_use import DataUse
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import holds_nothing, is_leftover, remove_stray_parts
from medunlearn.data.origins import REHEARSAL, Provenance
from medunlearn.data.records import Record
from medunlearn.data.storage import BUILD, read_json, sha256_of, sha256_of_json, write_json
from medunlearn.errors import ConfigError, InputError, MedunlearnError
from medunlearn.judging.writing import (
    Reject,
    Sampling,
    Source,
    WritingOutput,
    WritingTask,
    estimate_task,
    reasons,
    save_rejects,
    write,
)
from medunlearn.llm import Budget, Client, CostEstimate, Decision, ServerSettings, Store, decide
from medunlearn.llm.faults import next_step
from medunlearn.llm.usage import in_money
from medunlearn.papers.amnesia.settings import AmnesiaNotesSettings
from medunlearn.papers.lume.settings import LumeNewSettings
from medunlearn.papers.medforget.settings import MedforgetSettings

REJECTS_FILE, RESPONSES = "rejects.parquet", "llm"
ONLY_HOW = frozenset({"llm", "store", "again", "leave_out_failed", "allow_remote_llm"})
"""Settings that change how a model is asked, not what is built."""

AGAIN = "give the same command again and it goes on from there"

Say = Callable[[str], None]
WritingSettings = AmnesiaNotesSettings | LumeNewSettings | MedforgetSettings | NotesSettings


@dataclass(frozen=True)
class BuildResult:
    """A benchmark built into its folder, everything excluded from it, and the content of ``build.json``."""

    benchmark: Benchmark
    rejects: tuple[Reject, ...]
    facts: Mapping[str, Any]


def server_of(llm: Mapping[str, Any]) -> ServerSettings:
    """Settings of the server that writes texts.

    Raises:
        ConfigError: no server, no model, or a wrong setting.
    """
    flags = {"base_url": "--llm URL"} | ({} if llm.get("base_url") == REHEARSAL else {"model": "--llm.model NAME"})
    missing = [flag for key, flag in flags.items() if not llm.get(key)]
    if missing:
        raise ConfigError([f"{flag} is missing: a language model writes this benchmark" for flag in missing])
    return check(ServerSettings, llm)


@dataclass(frozen=True)
class Writer:
    """The language model of a build on a permitted server; ``store`` is the folder of responses."""

    settings: WritingSettings
    server: ServerSettings
    decision: Decision
    store: Path

    @staticmethod
    def of(
        settings: WritingSettings,
        out: Path,
        *,
        data_use: DataUse,
        records: Iterable[Record] = (),
    ) -> Writer:
        """Check server and guard before anything is sent.

        Raises:
            ConfigError: no server or no model.
            RemoteRefusedError: the data must stay on this machine, and the server is not on it.
        """
        server = server_of(settings.llm)
        permitted = settings.allow_remote_llm
        decision = decide(server.base_url, data_use=data_use, records=records, permitted=permitted)
        return Writer(settings, server, decision.enforce(), settings.store or out / RESPONSES)

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.settings.temperature, self.settings.answer_tokens, self.settings.llm_seed)

    def estimates(self, sources: Mapping[WritingTask, Sequence[Source]]) -> dict[str, CostEstimate]:
        """Cost by task; sends nothing."""
        with Store.existing(self.store) as store:
            return {
                task.name: estimate_task(
                    task, of_task, self.server, store, self.sampling, again=self.settings.again
                )
                for task, of_task in sources.items()
            }

    @contextmanager
    def session(self, out: Path, facts: dict[str, Any], *, quiet: bool) -> Iterator[WritingSession]:
        """Context with an open client; at the end rejects are written to ``out``.

        ``facts`` always gets prompts, usage, the guard's decision and the counts of rejects, even after an error.

        Raises:
            MedunlearnError: the store cannot be opened, or sources are unfinished and must not be skipped.
        """
        with Store(self.store) as store:
            before = store.spent()
            budget = Budget(self.server, spent=before)
            again = self.settings.again
            with Client(self.server, self.decision, store=store, budget=budget, again=again) as client:
                session = WritingSession(self, client, store, quiet)
                try:
                    yield session
                finally:
                    facts |= {
                        "prompts": session.prompts,
                        "provenance": [entry.to_json() for entry in session.provenance],
                        "llm": client.facts(),
                        **({"verifiers": session.verifiers} if session.verifiers else {}),
                        "requests sent now": client.spent.requests - before.requests,
                    }
        record_rejects(out, session.rejects, facts)
        session.refuse_unfinished()


class WritingSession:
    """Runs tasks on sources; collects rejects, unfinished sources, and prompt versions."""

    def __init__(self, writer: Writer, client: Client, store: Store, quiet: bool) -> None:
        self._writer, self._client, self.store, self.quiet = writer, client, store, quiet
        self.budget = client.budget
        self.verifiers: dict[str, dict[str, Any]] = {}  # facts of each; its usage is in the client's too
        self.rejects: list[Reject] = []
        self.unfinished: list[Reject] = []
        self.prompts: list[str] = []
        self.provenance: list[Provenance] = []

    def write(self, task: WritingTask, sources: Sequence[Source]) -> Mapping[str, Any]:
        """Accepted answers by the id of their source."""
        output = write(task, sources, self._client, sampling=self._writer.sampling, quiet=self.quiet)
        return self.add(task, output, [self._client])

    def add(self, task: WritingTask, output: WritingOutput, clients: Iterable[Client]) -> Mapping[str, Any]:
        """Record a task's rejects and the origin of its answers, and return its results."""
        self.prompts.append(task.version)
        self.provenance += [client.provenance(task.title, task.version, task.prompt_sha256) for client in clients]
        self.rejects += output.rejects
        self.unfinished += output.to_ask_again
        return output.results

    def exclude(self, task: str, source: str, reason: str) -> None:
        self.rejects.append(Reject(task, source, "excluded", reason))

    def refuse_unfinished(self) -> None:
        """Raise a MedunlearnError if sources are unfinished and must not be skipped."""
        halted = next(filter(None, [self._client.halted, *(v["halted"] for v in self.verifiers.values())]), "")
        if not self.unfinished or (self._writer.settings.leave_out_failed and not halted):
            return
        permanent = self._client.permanent or any(facts["permanent"] for facts in self.verifiers.values())
        advice = f". {next_step(True)}" if permanent else f": {AGAIN}"
        raise MedunlearnError(
            f"{len(self.unfinished)} requests were not completed, so no benchmark was built. "
            f"{halted or next(iter(reasons(self.unfinished, most=1)))}\nWhat came back is kept{advice}"
            + ("." if halted else ", or add --leave-out-failed.")
        )


def build_key(settings: Settings, files: Iterable[Path | None], *, besides: Iterable[str] = ()) -> str:
    """Hash of everything besides the model's answers that a benchmark depends on.

    Args:
        files: hashed by content; a folder only by its name in the settings.
        besides: settings to exclude, since ``files`` covers them.
    """
    llm: Mapping[str, Any] = getattr(settings, "llm", {})
    contents = [sha256_of(path) for path in files if path is not None and path.is_file()]
    name = llm.get("model_name") or llm.get("model")
    model = [REHEARSAL if llm.get("base_url") == REHEARSAL else name, llm.get("extra")]
    return sha256_of_json([settings.model_dump(mode="json", exclude={*ONLY_HOW, *besides}), contents, model])


def build_facts(key: str, settings: Settings) -> dict[str, Any]:
    """First fields of ``build.json``."""
    return {
        "key": key,
        "medunlearn": medunlearn.__version__,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings.model_dump(mode="json"),
    }


def refuse_another(out: Path, key: str, *, again: bool) -> None:
    """Refuse a folder with a benchmark of other data or settings (InputError) before any paid request."""
    if not (out / MANIFEST).exists():
        return
    there = read_json(out / BUILD).get("key") if (out / BUILD).exists() else None
    if there != key:
        raise InputError(f"{out} contains another benchmark. Choose another --out, or remove it.")
    if again:
        raise InputError(
            f"{out} contains this benchmark already, and repeated requests could change it. Choose another "
            f"--out, with --store {out / RESPONSES}."
        )


@contextmanager
def recorded(out: Path, facts: Mapping[str, Any]) -> Iterator[None]:
    """Lock the folder, and write ``build.json`` with its status: running, complete, or incomplete after a failed
    build.

    Raises:
        InputError: another process writes to the folder.
    """
    with lock_folder(out, "build"):
        remove_stray_parts(out)
        is_new = holds_nothing(out)
        # Its key first: a build that is killed once the benchmark is there has to know it for its own.
        write_json(out / BUILD, {"status": "running", **facts})
        try:
            yield
        except MedunlearnError:
            if is_new and all(file.name == BUILD or is_leftover(file) for file in out.iterdir()):
                (out / BUILD).unlink()
            else:
                write_json(out / BUILD, {"status": "incomplete", **facts})
            raise
        write_json(out / BUILD, {"status": "complete", **facts})


def record_rejects(out: Path, rejects: Sequence[Reject], facts: dict[str, Any]) -> None:
    """Write the table of rejects; ``facts`` gets their counts by task and status."""
    save_rejects(out / REJECTS_FILE, rejects)
    facts["rejects"] = dict(Counter(f"{reject.task}: {reject.status}" for reject in rejects))


def summary_lines(out: Path, rejects: Sequence[Reject], facts: Mapping[str, Any]) -> Iterator[str]:
    """Summary of a build: requests, tokens, cost, rejects and their reasons."""
    yield from facts.get("remarks", ())
    if "llm" in facts:
        llm = facts["llm"]
        money = "" if llm["money"] is None else f", {in_money(llm['money'])} of money"
        tokens = llm["prompt_tokens"] + llm["answer_tokens"]
        yield f"{facts['requests sent now']} requests sent now; {tokens:,} tokens{money} with what was sent before"
    if rejects:
        yield f"{len(rejects)} were left out; they are listed in {out / REJECTS_FILE}"
        yield from (f"  {line}" for line in reasons(rejects))
