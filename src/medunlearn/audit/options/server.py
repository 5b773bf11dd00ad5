"""Options audit of a model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from medunlearn.audit.options.questions import OptionPrompt, Removal, read_prompts, select_prompts
from medunlearn.audit.options.respondents import (
    OptionRating,
    OptionResponse,
    OptionsJob,
    PromptKey,
    choice_question,
)
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


class ServerRespondent:
    """One model on one server; responses are stored as they come, so an interrupted audit resumes.

    Args:
        llm: settings of the server.
        settings: of the audit; its ``data_use`` decides what may leave this machine.
        permitted: the user allows questions that are not open to be sent.

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
        wanted = select_prompts(read_prompts(settings.prompts_file), settings.prompts)
        if settings.api == "completions":
            return wanted
        texts = [prompt.name for prompt in wanted if prompt.form == "text"]
        if settings.prompts and texts:
            raise ConfigError([f"prompts={', '.join(texts)}: a text to go on from needs --api completions"])
        if len(texts) == len(wanted):
            raise ConfigError(["prompts_file: --api chat needs a prompt of form: instruction at least"])
        return [prompt for prompt in wanted if prompt.form == "instruction"]

    def ask(
        self, removals: Sequence[Removal], prompts: Sequence[OptionPrompt], job: OptionsJob
    ) -> dict[PromptKey, OptionResponse]:
        """Responses at temperature 0; refusals are unscored.

        Raises:
            MedunlearnError: server or network failed on some; the other responses are kept.
        """
        pairs = [(removal, prompt) for prompt in prompts for removal in removals]
        limit = job.settings.max_new_tokens or _default_limit(removals)
        requests = [
            Request(
                id=str(place),
                prompt=_message(prompt, removal, job.settings.api),
                max_tokens=limit,
                prompt_version=f"option {prompt.name}",
                identifiers=(),
            )
            for place, (removal, prompt) in enumerate(pairs)
        ]
        outcomes = self._send(requests, f"{self.label}: removed options", job)
        return {
            (removal.question.question_id, prompt.name): _response(outcome)
            for (removal, prompt), outcome in zip(pairs, outcomes, strict=True)
        }

    def rate(self, questions: Sequence[MultipleChoice], form: str, job: OptionsJob) -> dict[str, OptionRating]:
        """Log-probabilities of the options as the server echoes them (``api=completions`` only).

        ``text``: mean over the option's tokens; ``letter``: their sum; both without the token that ends an answer,
        which a text does not hold.

        Raises:
            MedunlearnError: server or network failed on some, or the server gives no log-probabilities.
        """
        if job.settings.api == "chat":
            return {question.question_id: OptionRating(None, NOT_RATED) for question in questions}
        choices = [choice_question(question, form) for question in questions]
        prompts = {choice.question_id: _plain(choice) for choice in choices}
        pairs = [(choice.question_id, f" {option}") for choice in choices for option in choice.options]
        requests = [
            Request(
                id=str(place),
                prompt=prompts[name] + option,
                max_tokens=0,
                log_probs=0,
                echo=True,
                prompt_version=f"options by {form}",
                identifiers=(),
            )
            for place, (name, option) in enumerate(pairs)
        ]
        outcomes = self._send(requests, f"{self.label}: options by {form}", job)
        values: dict[str, list[float | None]] = {}
        for (name, option), outcome in zip(pairs, outcomes, strict=True):
            value = _option_log_prob(outcome.log_probs, len(prompts[name]), len(option), form)
            values.setdefault(name, []).append(value)
        return {name: _rating(own) for name, own in values.items()}

    def _send(self, requests: Sequence[Request], title: str, job: OptionsJob) -> list[Outcome]:
        """Outcomes in the order of the requests, whose ids are their indices."""
        with Store(job.folder / "llm") as store, Client(self.server, self.decision, store=store) as client:
            outcomes = list(client.stream(requests, what=title, quiet=job.quiet))
            halted = client.halted
        _refuse_lost(outcomes, halted)
        return sorted(outcomes, key=lambda outcome: int(outcome.id))


def _option_log_prob(log_probs: LogProbs | None, start: int, length: int, form: str) -> float | None:
    """Of an option's tokens in the echoed text; None where no token begins with the option."""
    if log_probs is None or start not in log_probs.offsets:
        return None
    values = [
        value
        for value, offset in zip(log_probs.values, log_probs.offsets, strict=True)
        if start <= offset < start + length and value is not None
    ]
    return fsum(values) / (len(values) if form == "text" else 1)


def _rating(values: Sequence[float | None]) -> OptionRating:
    known = tuple(value for value in values if value is not None)
    return OptionRating(known) if len(known) == len(values) else OptionRating(None, NOT_PARTED)


def _message(prompt: OptionPrompt, removal: Removal, api: str) -> tuple[Message, ...] | str:
    text = prompt.render(removal)
    if api == "chat":
        return (Message("user", text),)
    if prompt.form == "text":
        return text
    return _plain(Question("", "", "train", "knowledge", "question", text, removal.text))


def _plain(question: Question) -> str:
    return render(question, "", template="plain", context="closed_book").own


def _default_limit(removals: Sequence[Removal]) -> int:
    """Tokens without the model's tokenizer: two letters per token are enough for any."""
    longest = max(len(text) for removal in removals for text in removal.question.options)
    return max(LEAST_TOKENS, longest // 2)


def _response(outcome: Outcome) -> OptionResponse:
    if outcome.status == "answered" or (outcome.status == "invalid" and outcome.text):
        return OptionResponse(outcome.text)
    if outcome.status == "invalid":
        return OptionResponse(None, "the server gave an empty response")
    return OptionResponse(None, f"{outcome.status}: {outcome.reason}")


def _refuse_lost(outcomes: Sequence[Outcome], halted: str) -> None:
    lost = [outcome for outcome in outcomes if outcome.status in ("failed", "not_sent")]
    if not lost:
        return
    reason = halted or Counter(outcome.reason for outcome in lost).most_common(1)[0][0]
    raise MedunlearnError(
        f"{len(lost)} of {len(outcomes)} prompts were not answered: {reason} Run it again: what was answered is "
        "kept and not asked again."
    )
