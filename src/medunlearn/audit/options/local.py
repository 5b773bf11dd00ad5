"""Options audit of a model on this machine, with the generation and scoring of benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Any

from medunlearn.audit.options.option_prompts import (
    OptionPrompt,
    Removal,
    choice_question,
    read_prompts,
    select_prompts,
)
from medunlearn.audit.options.option_respondents import NO_END, TEXT, TOO_LONG, OptionsJob, Ratings, Responses
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import sha256_of_json
from medunlearn.generation.option_scoring import rate_options
from medunlearn.generation.respond import respond
from medunlearn.generation.response_stores import open_store
from medunlearn.metrics.likelihood import mean_log_prob
from medunlearn.models.folders import model_folder, model_identity
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.sequences import Rendering, question_sequence
from medunlearn.progress import progress
from medunlearn.results.runs import FILE, Run
from medunlearn.sources.multiple_choice import MultipleChoice


class LocalRespondent:
    """A run of `medunlearn train` or `unlearn`, a model folder, or a hub id; loaded on first use."""

    def __init__(self, source: Run | Path | str, device: str = "auto") -> None:
        path = source.folder if isinstance(source, Run) else Path(source)
        self._run = Run.open(path) if (path / FILE).exists() else None
        self._source = model_folder(str(source if self._run is None else path))
        self._device, self._weights = device, ""
        self.problems: tuple[str, ...] = ()
        self.label = self._run.label if self._run else str(source).rstrip("/").split("/")[-1]

    def inputs(self) -> Mapping[str, Any]:
        return {
            "model": model_identity(self._source),
            "trained template": self._trained and self._trained.template_name,
        }

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        return select_prompts(read_prompts(settings.prompts_file), settings.prompts)

    def ask(self, removals: Sequence[Removal], prompts: Sequence[OptionPrompt], job: OptionsJob) -> Responses:
        """Greedy responses; a text prompt is continued without template, an instruction is put into the
        template.
        """
        model, rendering = self._loaded(job.settings), self._rendering(job.settings)
        longest = _longest(model, [option for removal in removals for option in removal.question.options])
        limit = job.settings.max_new_tokens or longest + longest // 4 + 1
        responses: Responses = {}
        with progress(f"{self.label}: removed options", len(removals) * len(prompts), quiet=job.quiet) as advance:
            for prompt in prompts:
                questions = [_question(removal, prompt) for removal in removals]
                short, long = _split_by_length(model, questions, rendering, limit)
                advance(len(long))
                responses |= {(name, prompt.name): (None, TOO_LONG) for name in long}
                store = self._store(prompt.name, job, rendering, questions, limit)
                answered = respond(
                    model, short, _records(short), store, rendering,
                    max_new_tokens=limit, batch_size=job.settings.batch_size, advance=advance,
                )  # fmt: skip
                responses |= {(name, prompt.name): (stored.response, None) for name, stored in answered.items()}
        return responses

    def rate(self, questions: Sequence[MultipleChoice], form: str, job: OptionsJob) -> dict[str, Ratings]:
        """Log-probabilities as the answer to the question with its options, by form.

        ``text``: mean over the option's tokens, with the one that ends the answer; ``text.no_end``: without it;
        ``letter``: sum over the letter's tokens, without it.
        """
        model, rendering = self._loaded(job.settings), self._rendering(job.settings)
        choices = [choice_question(question, form) for question in questions]
        room = 1 + max(_longest(model, choice.options) for choice in choices)
        short, long = _split_by_length(model, choices, rendering, room)
        store = self._store(f"options_{form}", job, rendering, choices, 0)
        with progress(f"{self.label}: options by {form}", len(short), quiet=job.quiet) as advance:
            rated = rate_options(
                model, short, _records(short), store, rendering, batch_size=job.settings.batch_size, advance=advance
            )
        means: dict[str, Callable[[Sequence[float]], float]] = {"letter": lambda tokens: fsum(tokens[:-1])}
        if form == TEXT:
            means = {TEXT: mean_log_prob, NO_END: lambda tokens: mean_log_prob(tokens[:-1])}
        too_long: Ratings = dict.fromkeys(long, (None, TOO_LONG))
        return {
            name: too_long | {question: (tuple(map(mean, options)), None) for question, options in rated.items()}
            for name, mean in means.items()
        }

    @cached_property
    def _trained(self) -> Rendering | None:
        return self._run.rendering() if self._run else None

    def _rendering(self, settings: AuditOptionsSettings) -> Rendering:
        trained = self._trained.template if self._trained else "plain"
        return Rendering(settings.template or trained, "closed_book")

    def _loaded(self, settings: AuditOptionsSettings) -> LanguageModel:
        if self._weights != settings.weights:
            self._model = load_model(
                self._source, device=self._device, weights=settings.weights, allow_broken=settings.allow_broken
            )
            self._weights, self.problems = settings.weights, self._model.problems
        return self._model

    def _store(
        self, name: str, job: OptionsJob, rendering: Rendering, questions: Sequence[Question], limit: int
    ) -> ResponseStore:
        content = [[q.question_id, q.question, q.answer, *q.options] for q in questions]
        return open_store(
            job.folder / "responses" / name,
            model_fingerprint=model_identity(self._source),
            benchmark_fingerprint=sha256_of_json(content),
            weights=job.settings.weights,
            rendering=rendering,
            max_new_tokens=limit,
            data_use=job.data_use,
        )


def _question(removal: Removal, prompt: OptionPrompt) -> Question:
    name, kind = removal.question.question_id, "completion" if prompt.form == "text" else "knowledge"
    return Question(name, name, "train", kind, "question", prompt.render(removal), removal.text)  # type: ignore[arg-type]


def _records(questions: Sequence[Question]) -> dict[str, Record]:
    """Records in the form that generation requires; ``closed_book`` context does not show them."""
    return {question.record_id: Record(question.record_id, question.question, {}) for question in questions}


def _split_by_length(
    model: LanguageModel, questions: Sequence[Question], rendering: Rendering, room: int
) -> tuple[list[Question], list[str]]:
    """Questions whose prompt leaves room for the answer in the model's context window, and the ids of the
    others.
    """
    most = getattr(model.model.config.get_text_config(), "max_position_embeddings", None)
    records = _records(questions)
    short, long = [], []
    for question in questions:
        prompt = question_sequence(question, records[question.record_id], model.tokenizer, rendering).prompt
        if most is None or len(prompt) + room <= most:
            short.append(question)
        else:
            long.append(question.question_id)
    return short, long


def _longest(model: LanguageModel, options: Sequence[str]) -> int:
    """Number of tokens of the longest option."""
    return max(len(ids) for ids in model.tokenizer([f" {option}" for option in options])["input_ids"])
