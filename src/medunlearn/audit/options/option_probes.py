"""Removed options as probes, and questions whose options are rated: asked of a respondent, with its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from pathlib import Path
from typing import Any

from medunlearn.audit.options.option_prompts import OptionPrompt, Removal, choice_question, probe_name
from medunlearn.audit.options.option_respondents import NO_RESPONSE, OptionsRespondent
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.data_use import DataUse
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import Response, ResponseStore
from medunlearn.data.storage import sha256_of_json
from medunlearn.generation.decodings import GREEDY_NAME
from medunlearn.llm import Message
from medunlearn.metrics.likelihood import mean_log_prob
from medunlearn.models.chat import answer_text
from medunlearn.models.prompts import render
from medunlearn.models.sequences import Rendering, question_sequence
from medunlearn.probes.respondents import Asking, Choices, Material, ProbePrompt, Text
from medunlearn.progress import progress
from medunlearn.sources.multiple_choice import MultipleChoice

TEXT, NO_END = "text", "text.no_end"
"""Forms of a rating by text: with the token that ends an answer, and without it, as a server echoes a text."""
LEAST_TOKENS = 32
OptionResponses = dict[tuple[str, str], tuple[str | None, str | None]]
"""Question and prompt -> response, or None and the reason."""
OptionRatings = dict[str, tuple[tuple[float, ...] | None, str | None]]
"""Question -> log-probability of each of its options, or None and the reason."""


@dataclass(frozen=True)
class OptionProbes:
    """Probes of one run of an options audit.

    Attributes:
        folder: of the run.
        data_use: of the questions and the model; responses are stored under it.
    """

    source: OptionsRespondent
    settings: AuditOptionsSettings
    folder: Path
    questions: Sequence[MultipleChoice]
    data_use: DataUse | None
    quiet: bool = False

    def responses(self, removals: Sequence[Removal]) -> OptionResponses:
        """Greedy responses to each prompt: a text is continued without template, an instruction is put into it."""
        respondent = self.source.respondent
        pairs = {
            (probe_name(removal.question.question_id, prompt.name), GREEDY_NAME, 0): (removal, prompt)
            for prompt in self.source.prompts
            for removal in removals
        }
        prompts = [self._prompt(name, *pair) for (name, *_), pair in pairs.items()]
        most = self.settings.max_new_tokens or self._most_tokens(removals)
        how: dict[str, Any] = {"batch_size": self.settings.batch_size, "leave_long": True}
        store, asking = self._store(), Asking(prompts, self._material(), most, **how)
        with progress(f"{respondent.label}: removed options", len(pairs), quiet=self.quiet) as advance:
            reasons = respondent.answer(asking, store, advance)
        stored = store.read()
        return {
            (removal.question.question_id, prompt.name): (None, reasons.get(key, NO_RESPONSE))
            if key not in stored
            else self._text(stored[key])
            for key, (removal, prompt) in pairs.items()
        }

    def ratings(self, form: str) -> dict[str, OptionRatings]:
        """Log-probabilities as the answer to the question with its options, by form.

        ``text``: mean over the option's tokens, with the one that ends the answer; ``text.no_end``: without it;
        ``letter``: sum over the letter's tokens, without it.
        """
        respondent, choices = self.source.respondent, [choice_question(choice, form) for choice in self.questions]
        asked = Choices(
            choices,
            _records(choices),
            self._material(),
            self.source.rendering,
            f"options by {form}",
            self.settings.batch_size,
        )
        rated = None
        if not self.source.not_rated:
            with progress(f"{respondent.label}: options by {form}", len(choices), quiet=self.quiet) as advance:
                rated = respondent.rate(asked, self._store(), advance)
        if rated is None:
            name = NO_END if form == TEXT and self.source.messages else form
            return {name: {choice.question_id: (None, self.source.not_rated) for choice in choices}}
        end = 1 if rated.end else 0
        means: dict[str, Callable[[Sequence[float]], float]] = {form: lambda tokens: fsum(_without(tokens, end))}
        if form == TEXT:
            means = {NO_END: lambda tokens: mean_log_prob(_without(tokens, end))}
            means = {TEXT: mean_log_prob, **means} if rated.end else means
        unrated: OptionRatings = {name: (None, reason) for name, reason in rated.reasons.items()}
        return {
            name: unrated | {key: (tuple(map(mean, options)), None) for key, options in rated.log_probs.items()}
            for name, mean in means.items()
        }

    def _prompt(self, name: str, removal: Removal, prompt: OptionPrompt) -> ProbePrompt:
        rendered = prompt.render(removal)
        text: Text = rendered
        kind = "completion" if prompt.form == "text" else "knowledge"
        question = Question(name, name, "train", kind, "question", rendered, removal.text)  # type: ignore[arg-type]
        if self.source.messages:
            text = (Message("user", rendered),)
        elif prompt.form == "instruction":
            text = render(question, "", template="plain", context="closed_book").own
        opening = partial(_opening, question, self.source.rendering)
        return ProbePrompt(name, removal.question.question_id, text, opening)

    def _most_tokens(self, removals: Sequence[Removal]) -> int:
        """Length of the longest option and a quarter; two letters a token where the tokens are unknown."""
        options = [f" {option}" for removal in removals for option in removal.question.options]
        tokenizer = self.source.respondent.tokenizer
        if tokenizer is None:
            return max(LEAST_TOKENS, (max(map(len, options)) - 1) // 2)
        longest = max(len(ids) for ids in tokenizer(options)["input_ids"])
        return longest + longest // 4 + 1

    def _text(self, response: Response) -> tuple[str | None, str | None]:
        if response.unanswered:
            return None, response.unanswered
        tokenizer = self.source.respondent.tokenizer
        return response.response if tokenizer is None else answer_text(tokenizer, response.response_tokens), None

    def _material(self) -> Material:
        # Published questions are about nobody.
        return Material((), {choice.question_id: () for choice in self.questions}, self.data_use)

    def _store(self) -> ResponseStore:
        rendering, asked = self.source.rendering, ("weights", "letters", "max_new_tokens", "seed")
        settings = {
            **self.source.inputs(),
            "questions": sha256_of_json([[c.question_id, c.question, *c.options] for c in self.questions]),
            "prompts": sha256_of_json([[prompt.name, prompt.template] for prompt in self.source.prompts]),
            "template": rendering.template_name,
            **{name: getattr(self.settings, name) for name in asked},
            **rendering.chat_facts,
        }
        return ResponseStore(self.folder / "responses", settings, data_use=self.data_use)


def _opening(question: Question, rendering: Rendering, tokenizer: Any) -> Any:
    from medunlearn.generation.continuations import Opening

    sequence = question_sequence(question, _records([question])[question.record_id], tokenizer, rendering)
    suffix = sequence.ids[sequence.scored_from : -1]  # A continuation is scored without the token that ends it.
    return Opening(question.question_id, question.question_id, sequence.prompt, suffix, begins=True)


def _records(questions: Sequence[Question]) -> Mapping[str, Record]:
    """Records in the form that generation requires; ``closed_book`` context does not show them."""
    return {question.record_id: Record(question.record_id, question.question, {}) for question in questions}


def _without(tokens: Sequence[float], end: int) -> Sequence[float]:
    return tokens[: len(tokens) - end]
