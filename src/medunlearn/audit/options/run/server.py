"""A model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import Any

from medunlearn.audit.options.prompts import OptionPrompt, chosen_prompts, read_prompts
from medunlearn.audit.options.removing import Removal
from medunlearn.audit.options.run.local import choice_question
from medunlearn.audit.options.run.respondents import Key, Rated, Said
from medunlearn.config import check
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.records import Question
from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.llm import Client, LogProbs, Message, Outcome, Request, ServerSettings, Store, decide
from medunlearn.models.prompts import render
from medunlearn.sources.options import MultipleChoice

NOT_RATED = "api=chat gives no probabilities of options"
NOT_PARTED = "the server's tokens do not part where an option begins"
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
        outcomes = self._asked(requests, f"{self.label}: removed options", folder, quiet)
        return {
            (one.question.question_id, prompt.name): _said(outcome)
            for (one, prompt), outcome in zip(keys, outcomes, strict=True)
        }

    def rate(
        self,
        questions: Sequence[MultipleChoice],
        form: str,
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[str, Rated]:
        """Log-probabilities of the options as the server echoes them; only ``completions`` can do that.

        ``text``: mean over the option's tokens; ``letter``: their sum. The token that ends an answer is in neither,
        since a text does not hold it.

        Raises:
            MedunlearnError: server or network failed on some, or the server gives no log-probabilities.
        """
        if settings.api == "chat":
            return {one.question_id: Rated(None, NOT_RATED) for one in questions}
        asked = [choice_question(one, form) for one in questions]
        shown = {one.question_id: _plain(one) for one in asked}
        keys = [(one.question_id, f" {option}") for one in asked for option in one.options]
        requests = [
            Request(
                id=str(place),
                prompt=shown[name] + option,
                max_tokens=0,
                log_probs=0,
                echo=True,
                prompt_version=f"options by {form}",
                identifiers=(),
            )
            for place, (name, option) in enumerate(keys)
        ]
        outcomes = self._asked(requests, f"{self.label}: options by {form}", folder, quiet)
        found: dict[str, list[float | None]] = {}
        for (name, option), outcome in zip(keys, outcomes, strict=True):
            found.setdefault(name, []).append(_echoed(outcome.log_probs, len(shown[name]), len(option), form))
        return {name: _rated(values) for name, values in found.items()}

    def _asked(self, requests: Sequence[Request], what: str, folder: Path, quiet: bool) -> list[Outcome]:
        """Outcomes in the order of the requests, whose ids are their places."""
        with Store(folder / "llm") as store, Client(self.server, self.decision, store=store) as client:
            outcomes = list(client.stream(requests, what=what, quiet=quiet))
            halted = client.halted
        _refuse_lost(outcomes, halted)
        return sorted(outcomes, key=lambda one: int(one.id))


def _echoed(given: LogProbs | None, start: int, length: int, form: str) -> float | None:
    """Of the tokens of an option in the echoed text; None where no token begins where the option does."""
    if given is None or start not in given.offsets:
        return None
    values = [
        value
        for value, offset in zip(given.values, given.offsets, strict=True)
        if start <= offset < start + length and value is not None
    ]
    return fsum(values) / (len(values) if form == "text" else 1)


def _rated(values: Sequence[float | None]) -> Rated:
    known = tuple(value for value in values if value is not None)
    return Rated(known) if len(known) == len(values) else Rated(None, NOT_PARTED)


def _shown(prompt: OptionPrompt, removal: Removal, api: str) -> tuple[Message, ...] | str:
    text = prompt.render(removal)
    if api == "chat":
        return (Message("user", text),)
    if prompt.form == "text":
        return text
    return _plain(Question("", "", "train", "knowledge", "question", text, removal.text))


def _plain(question: Question) -> str:
    return render(question, "", template="plain", context="closed_book").own


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
