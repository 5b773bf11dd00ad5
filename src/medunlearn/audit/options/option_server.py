"""Options audit of a model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from medunlearn.audit.options.option_prompts import (
    OptionPrompt,
    Removal,
    choice_question,
    read_prompts,
    select_prompts,
)
from medunlearn.audit.options.option_respondents import NO_END, TEXT, OptionsJob, Ratings, Responses
from medunlearn.config import check
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.data_use import DataUse
from medunlearn.data.records import Question
from medunlearn.errors import ConfigError, MedunlearnError
from medunlearn.generation.server import NEUTRAL
from medunlearn.llm import Budget, Client, LogProbs, Message, Outcome, Request, ServerSettings, Store, decide
from medunlearn.llm.faults import next_step
from medunlearn.llm.requests import UNFINISHED
from medunlearn.models.prompts import render
from medunlearn.sources.multiple_choice import MultipleChoice

NOT_RATED = "api=chat gives no probabilities of options"
NOT_PARTED = "the server's tokens do not part where an option begins"
LEAST_TOKENS = 32


class ServerRespondent:
    """A model on a server; responses are stored as they arrive, so an interrupted audit resumes.

    Args:
        llm: settings of the server.
        data_use: of the questions.
        permitted: the user allows questions that are not open to be sent.
    """

    def __init__(self, llm: Mapping[str, Any], data_use: DataUse | None, *, permitted: bool = False) -> None:
        self.server = check(ServerSettings, llm)
        self.decision = decide(self.server.base_url, data_use=data_use, permitted=permitted).enforce()
        self.label = self.server.name
        self.budget = Budget(self.server)  # one for all that it is asked

    def inputs(self) -> Mapping[str, Any]:
        return {"server model": self.server.name, "extra": self.server.extra}

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        """The requested prompts, or all that the API supports."""
        prompts = select_prompts(read_prompts(settings.prompts_file), settings.prompts)
        if settings.api == "completions":
            return prompts
        texts = [prompt.name for prompt in prompts if prompt.form == "text"]
        if settings.prompts and texts:
            raise ConfigError([f"prompts={', '.join(texts)}: a prompt that is continued needs --api completions"])
        if len(texts) == len(prompts):
            raise ConfigError(["prompts_file: --api chat needs at least one prompt with form: instruction"])
        return [prompt for prompt in prompts if prompt.form == "instruction"]

    def ask(self, removals: Sequence[Removal], prompts: Sequence[OptionPrompt], job: OptionsJob) -> Responses:
        """Responses at temperature 0; refused requests are unscored."""
        pairs = [(removal, prompt) for prompt in prompts for removal in removals]
        # Without the model's tokenizer: two letters per token are enough for any.
        longest = max(len(text) for removal in removals for text in removal.question.options)
        limit = job.settings.max_new_tokens or max(LEAST_TOKENS, longest // 2)
        requests = [
            Request(
                id=str(place),
                prompt=_message(prompt, removal, job.settings.api),
                max_tokens=limit,
                fields=NEUTRAL,
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

    def rate(self, questions: Sequence[MultipleChoice], form: str, job: OptionsJob) -> dict[str, Ratings]:
        """Log-probabilities of the options as the server echoes them (``api=completions`` only), by form.

        ``text.no_end``: mean over the option's tokens; ``letter``: their sum. An echoed text does not hold the
        token that ends an answer.

        Raises:
            MedunlearnError: server or network failed on some, or the server gives no log-probabilities.
        """
        rated_form = NO_END if form == TEXT else form
        if job.settings.api == "chat":
            return {rated_form: {question.question_id: (None, NOT_RATED) for question in questions}}
        choices = [choice_question(question, form) for question in questions]
        triples = [
            (choice.question_id, _plain(choice), f" {option}") for choice in choices for option in choice.options
        ]
        requests = [
            Request(
                id=str(place),
                prompt=prompt + option,
                max_tokens=0,
                log_probs=0,
                echo=True,
                prompt_version=f"options by {form}",
                identifiers=(),
            )
            for place, (_, prompt, option) in enumerate(triples)
        ]
        outcomes = self._send(requests, f"{self.label}: options by {form}", job)
        values: dict[str, list[float | None]] = {}
        for (name, prompt, option), outcome in zip(triples, outcomes, strict=True):
            value = _option_log_prob(outcome.log_probs, len(prompt), len(option), form)
            values.setdefault(name, []).append(value)
        ratings: Ratings = {
            name: (None, NOT_PARTED)
            if None in log_probs
            else (tuple(value for value in log_probs if value is not None), None)
            for name, log_probs in values.items()
        }
        return {rated_form: ratings}

    def _send(self, requests: Sequence[Request], title: str, job: OptionsJob) -> list[Outcome]:
        """Outcomes in request order; request ids are their indices."""
        with (
            Store(job.folder / "llm") as store,
            Client(self.server, self.decision, store=store, budget=self.budget) as client,
        ):
            outcomes = list(client.stream(requests, what=title, quiet=job.quiet))
            halted, permanent = client.halted, client.permanent
        if failures := [outcome for outcome in outcomes if outcome.status in UNFINISHED]:
            reason = halted or Counter(outcome.reason for outcome in failures).most_common(1)[0][0]
            raise MedunlearnError(
                f"{len(failures)} of {len(outcomes)} prompts were not answered. {reason} Received responses are "
                f"stored. {next_step(permanent)}."
            )
        return sorted(outcomes, key=lambda outcome: int(outcome.id))


def _option_log_prob(log_probs: LogProbs | None, start: int, length: int, form: str) -> float | None:
    """Log-probability of an option's tokens in the echoed text; None if no token begins with the option."""
    if log_probs is None or start not in log_probs.offsets:
        return None
    values = [
        value
        for value, offset in zip(log_probs.values, log_probs.offsets, strict=True)
        if start <= offset < start + length and value is not None
    ]
    return fsum(values) / (len(values) if form == TEXT else 1)


def _message(prompt: OptionPrompt, removal: Removal, api: str) -> tuple[Message, ...] | str:
    text = prompt.render(removal)
    if api == "chat":
        return (Message("user", text),)
    if prompt.form == "text":
        return text
    return _plain(Question("", "", "train", "knowledge", "question", text, removal.text))


def _plain(question: Question) -> str:
    return render(question, "", template="plain", context="closed_book").own


def _response(outcome: Outcome) -> tuple[str | None, str | None]:
    if outcome.status == "answered" or (outcome.status == "invalid" and outcome.text):
        return outcome.text, None
    if outcome.status == "invalid":
        return None, "the server gave an empty response"
    return None, f"{outcome.status}: {outcome.reason}"
