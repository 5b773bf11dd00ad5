"""A model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medunlearn.config import check
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.records import Question
from medunlearn.data.sources.options import MultipleChoice
from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.experiments.audit_options.respondents import Key, Rated, Said
from medunlearn.llm import Client, Message, Outcome, Request, ServerSettings, Store, decide
from medunlearn.memorization.options.prompts import OptionPrompt, chosen_prompts, read_prompts
from medunlearn.memorization.options.removing import Removal
from medunlearn.models.prompts import render

NOT_RATED = "a server was asked, and not for the options' probabilities"
LEAST_TOKENS = 32


class ServerModel:
    """One model on one server; responses are stored as they come, so that an audit that was cut off goes on.

    Args:
        llm: settings of the server.
        settings: of the audit; its ``data_use`` decides what may leave this machine.
        permitted: the user allowed to send questions that are not said to be open.

    Raises:
        ConfigError: wrong settings of the server.
        RemoteRefusedError: the server is off this machine, and the questions may not go there.
    """

    def __init__(self, llm: Mapping[str, Any], settings: AuditOptionsSettings, *, permitted: bool = False) -> None:
        self.server = check(ServerSettings, llm)
        self.decision = decide(self.server.base_url, data_use=settings.data_use, permitted=permitted).enforce()
        self.label = self.server.name

    def inputs(self) -> Mapping[str, Any]:
        return {"server model": self.server.name, "extra": self.server.extra}

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        known = read_prompts(settings.prompts_file)
        wanted = chosen_prompts(known, settings.prompts)
        if settings.api == "completions":
            return wanted
        texts = [one.name for one in wanted if one.form == "text"]
        if settings.prompts and texts:
            raise ConfigError([f"prompts={', '.join(texts)}: a text to go on from needs api=completions"])
        if len(texts) == len(wanted):
            raise ConfigError(["prompts_file: api=chat needs a prompt of form: instruction at least"])
        return [one for one in wanted if one.form == "instruction"]

    def ask(
        self,
        removals: Sequence[Removal],
        prompts: Sequence[OptionPrompt],
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[Key, Said]:
        """Responses at temperature 0; what the model refused is unscored.

        Raises:
            MedunlearnError: server or network failed on some; what was answered is kept, and is not asked again.
        """
        keys = [(one, prompt) for prompt in prompts for one in removals]
        limit = settings.max_new_tokens or _longest(removals)
        requests = [
            Request(
                id=str(place),
                prompt=_shown(prompt, one, settings.api),
                max_tokens=limit,
                prompt_version=f"option {prompt.name}",
                identifiers=(),
            )
            for place, (one, prompt) in enumerate(keys)
        ]
        with Store(folder / "llm") as store, Client(self.server, self.decision, store=store) as client:
            outcomes = list(client.stream(requests, what=f"{self.label}: removed options", quiet=quiet))
            halted = client.halted
        _refuse_lost(outcomes, halted)
        said = {int(one.id): _said(one) for one in outcomes}
        return {(one.question.question_id, prompt.name): said[place] for place, (one, prompt) in enumerate(keys)}

    def rate(
        self,
        questions: Sequence[MultipleChoice],
        form: str,
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[str, Rated]:
        return {one.question_id: Rated(None, NOT_RATED) for one in questions}


def _shown(prompt: OptionPrompt, removal: Removal, api: str) -> tuple[Message, ...] | str:
    text = prompt.render(removal)
    if api == "chat":
        return (Message("user", text),)
    if prompt.form == "text":
        return text
    plain = render(
        Question("", "", "train", "knowledge", "question", text, removal.text),
        "",
        template="plain",
        context="closed_book",
    )
    return plain.own


def _longest(removals: Sequence[Removal]) -> int:
    """In tokens of a tokenizer that is not here: two letters a token are more than enough for any."""
    return max(LEAST_TOKENS, max(len(text) for one in removals for text in one.question.options) // 2)


def _said(outcome: Outcome) -> Said:
    if outcome.status == "answered":
        return Said(outcome.text)
    if outcome.status == "invalid":
        return Said(outcome.text, None) if outcome.text else Said(None, "the server gave an empty response")
    return Said(None, f"{outcome.status}: {outcome.reason}")


def _refuse_lost(outcomes: Sequence[Outcome], halted: str) -> None:
    lost = [one for one in outcomes if one.status in ("failed", "not_sent")]
    if not lost:
        return
    reason = halted or Counter(one.reason for one in lost).most_common(1)[0][0]
    raise MedunlearnError(
        f"{len(lost)} of {len(outcomes)} prompts were not answered: {reason} Run it again: what was answered is "
        "kept and not asked again."
    )
