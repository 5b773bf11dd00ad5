"""Runs of respondents: a served model or a file of responses gets a run folder, and is evaluated like any run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from medunlearn.config import check
from medunlearn.config.settings import Settings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.data_use import resolve_use
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import ConfigError
from medunlearn.llm import ServerSettings
from medunlearn.metrics.needs import GIFTS
from medunlearn.models.sequences import Rendering
from medunlearn.probes.respondents import Respondent, RespondentRun
from medunlearn.probes.served_model import ServedModel
from medunlearn.probes.stored_responses import is_table, read_answers
from medunlearn.results.runs import Recording, Run, folder_of

VERB = "respond"


def served_model(
    word: str,
    name: str | None = None,
    llm: Mapping[str, Any] | None = None,
    *,
    label: str | None = None,
    permitted: bool = False,
    allow_missing: bool = False,
) -> ServedModel | None:
    """The served model of an address ``http://...`` with ``name``, or of ``NAME@http://...``; None for other words.

    Raises:
        ConfigError: a server without a model's name, or wrong settings of it.
    """
    before, at, url = word.partition("@http")
    if not word.startswith(("http://", "https://")) and not at:
        return None
    served, address = (before, "http" + url) if at else (name, word)
    if not served:
        raise ConfigError(["--model-name is missing: the model, as the server calls it"])
    server = check(ServerSettings, {**(llm or {}), "base_url": address, "model": served})
    return ServedModel(label or server.name, server, permitted, allow_missing)


def respondent_run(
    word: str,
    benchmark: Benchmark,
    beside: Path,
    name: str | None = None,
    llm: Mapping[str, Any] | None = None,
    **how: Any,
) -> RespondentRun | None:
    """The run below ``beside`` of a server's address or a table of responses; None for other words.

    Args:
        how: as for :func:`served_model`.

    Raises:
        ConfigError: wrong settings of a server.
        SourceError: a table that does not fit the benchmark.
    """
    respondent: Respondent | None = served_model(word, name, llm, **how)
    if respondent is None:
        if not is_table(Path(word)):
            return None
        respondent = read_answers(Path(word), benchmark.questions)
    return RespondentRun(record_respondent(respondent, benchmark, beside), respondent)


def record_respondent(respondent: Respondent, benchmark: Benchmark, beside: Path) -> Run:
    """The run of a respondent, made once for a benchmark; nothing is asked.

    It is rendered in the template ``plain``, closed book, unless an evaluation's settings say otherwise.
    """
    fingerprint = sha256_of_json(respondent.identity())
    inputs = {"benchmark": benchmark.fingerprint, "model": fingerprint}
    name = re.sub(r"[^\w.-]+", "_", respondent.label)[:40]
    folder = beside / f"{name}-{Recording.key_of(VERB, Settings(), inputs)[:8]}"
    uses = {"the benchmark": benchmark.data_use, respondent.label: respondent.data_use}
    recording = Recording(folder, VERB, respondent.label, Settings(), inputs, data_use=resolve_use(None, uses))
    if recording.done:
        return Run.open(folder)
    recording.info.texts, recording.info.model_files = benchmark.texts_fingerprint, {}
    with recording.running():
        recording.info.results = {
            "rendering": asdict(Rendering(images="ignore")),
            "fingerprint": fingerprint,
            "respondent": {**respondent.facts(), "gives": [need for need in GIFTS if need in respondent.gives]},
            "benchmark_folder": folder_of(benchmark),
        }
    return Run.open(folder)
