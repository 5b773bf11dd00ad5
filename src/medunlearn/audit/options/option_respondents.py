"""Respondents of an options audit: a model on this machine, a server or stored responses, with its prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medunlearn.audit.options.option_prompts import (
    OptionPrompt,
    probe_name,
    read_prompts,
    remove_one,
    select_prompts,
)
from medunlearn.config import check
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.data_use import DataUse
from medunlearn.data.responses import Response
from medunlearn.data.storage import sha256_of
from medunlearn.errors import ConfigError, SourceError
from medunlearn.generation.decodings import GREEDY_NAME
from medunlearn.llm import ServerSettings
from medunlearn.models.sequences import Rendering
from medunlearn.probes.local_model import LocalModel
from medunlearn.probes.respondents import Key, Material, Respondent
from medunlearn.probes.served_model import ServedModel
from medunlearn.probes.stored_responses import StoredResponses, stored_response
from medunlearn.results.runs import FILE, Run
from medunlearn.sources.multiple_choice import read_options
from medunlearn.sources.table_files import read_rows, refuse_bad_rows

NO_RESPONSE = "there is no response"
NOT_RATED = "api=chat gives no probabilities of options"
NOT_STORED = "stored responses say nothing about the options' probabilities"
PLAIN = Rendering("plain", "closed_book")
STORED = "stored"
"""Name of the prompt where the file has none."""


@dataclass(frozen=True)
class OptionsRespondent:
    """A respondent, its prompts, and how it is asked.

    Attributes:
        inputs: parts of the run's key; they contain no text and no secret.
        rendering: of instructions and of questions with options.
        messages: instructions are messages of a chat, not texts to continue.
        not_rated: why it gives no likelihoods of options; "": it may.
    """

    respondent: Respondent
    prompts: list[OptionPrompt]
    inputs: Callable[[], Mapping[str, Any]]
    rendering: Rendering = PLAIN
    messages: bool = False
    not_rated: str = ""


def local_respondent(
    source: Run | Path | str, settings: AuditOptionsSettings, device: str = "auto"
) -> OptionsRespondent:
    """A run of `medunlearn train` or `unlearn`, a model folder, or a hub id; loaded on first use."""
    prompts = select_prompts(read_prompts(settings.prompts_file), settings.prompts)
    path = source.folder if isinstance(source, Run) else Path(source)
    run = Run.open(path) if (path / FILE).exists() else None
    trained = run.rendering() if run else None
    label = run.label if run else str(source).rstrip("/").split("/")[-1]
    engine: dict[str, Any] = {"weights": settings.weights, "allow_broken": settings.allow_broken}
    model = LocalModel(str(source) if run is None else path, device, label, **engine)
    return OptionsRespondent(
        model,
        prompts,
        lambda: {"model": model.identity(), "trained template": trained and trained.template_name},
        Rendering(settings.template or (trained.template if trained else "plain"), "closed_book"),
    )


def server_respondent(
    llm: Mapping[str, Any], settings: AuditOptionsSettings, data_use: DataUse | None, *, permitted: bool = False
) -> OptionsRespondent:
    """A model on a server, with the requested prompts, or all that the API supports.

    Raises:
        RemoteRefusedError: the questions may not leave this machine.
    """
    server = check(ServerSettings, llm)
    served = ServedModel(server.name, server, permitted)
    served.check(Material((), {}, data_use))
    chat = settings.api == "chat"
    prompts = select_prompts(read_prompts(settings.prompts_file), settings.prompts)
    texts = [prompt.name for prompt in prompts if prompt.form == "text"]
    if chat and settings.prompts and texts:
        raise ConfigError([f"prompts={', '.join(texts)}: a prompt that is continued needs --api completions"])
    if chat and len(texts) == len(prompts):
        raise ConfigError(["prompts_file: --api chat needs at least one prompt with form: instruction"])
    return OptionsRespondent(
        served,
        [prompt for prompt in prompts if not chat or prompt.form == "instruction"],
        lambda: {"server model": server.name, "extra": server.extra},
        messages=chat,
        not_rated=NOT_RATED if chat else "",
    )


def stored_respondent(responses: Path, questions: Path, settings: AuditOptionsSettings) -> OptionsRespondent:
    """Stored responses: a table with question_id and response, and prompt if it has several.

    A column ``removed`` (a letter) names the removed option; a row whose letter differs from the seeded draw
    answers another question and is unscored.

    Args:
        questions: the audit's file.

    Raises:
        SourceError: no such file, a row without question or response, or one that is answered twice.
    """
    if not responses.is_file():
        raise SourceError(f"There is no file {responses}.")
    read = read_options(questions, count_from=settings.count_from, skip_bad_rows=settings.skip_bad_rows)
    letters = {
        removal.question.question_id: removal.letter for removal in remove_one(read.questions, settings.seed)
    }
    found, reasons = dict[Key, Response](), dict[Key, str]()
    bad, names = list[tuple[str, str]](), dict[str, None]()
    for place, row in read_rows(responses):
        if isinstance(row, str):
            bad.append((place, row))
            continue
        if absent := [name for name in ("question_id", "response") if name not in row]:
            raise SourceError(f"{place} lacks the columns {', '.join(absent)}.")
        question, prompt = str(row["question_id"]), str(row.get("prompt") or STORED)
        key = probe_name(question, prompt), GREEDY_NAME, 0
        names[prompt] = None
        removed = str(row.get("removed") or "").strip().upper()
        if key in found or key in reasons:
            raise SourceError(f"{place}: question {question!r} is answered twice for prompt {prompt!r}.")
        if removed and removed != letters.get(question, removed):
            reasons[key] = f"another option was removed than seed={settings.seed} draws"
        elif row["response"] is None:
            reasons[key] = NO_RESPONSE
        else:
            found[key] = stored_response(key, str(row["response"]), (), row.get("finish_reason"))
    refuse_bad_rows(bad, responses, skippable=False)
    missing = {
        (probe_name(question, prompt), GREEDY_NAME, 0): NO_RESPONSE for prompt in names for question in letters
    }
    table = StoredResponses(responses, responses.stem, found, missing | reasons)
    # Their texts are unknown.
    prompts = {name: OptionPrompt(name, "instruction", "") for name in names}
    return OptionsRespondent(
        table,
        select_prompts(prompts, settings.prompts),
        lambda: {"responses": sha256_of(responses)},
        not_rated=NOT_STORED,
    )
