"""A model on this machine, asked through the same generation and scoring as a benchmark's questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import fsum
from pathlib import Path
from typing import Any

from medunlearn.audit.options.prompts import OptionPrompt, chosen_prompts, read_prompts
from medunlearn.audit.options.removing import Removal
from medunlearn.audit.options.run.respondents import TOO_LONG, Key, Rated, Said
from medunlearn.config.options import AuditOptionsSettings
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import ResponseStore
from medunlearn.data.storage import sha256_of_json
from medunlearn.generation.options import rate_options
from medunlearn.generation.respond import open_store, respond
from medunlearn.metrics.likelihood import mean_log_prob
from medunlearn.models.load import LanguageModel, load_model
from medunlearn.models.sequences import Rendering, question_sequence
from medunlearn.pipeline.material import identity, model_folder
from medunlearn.progress import progress
from medunlearn.results.runs import FILE, Run
from medunlearn.sources.options import MultipleChoice, letter


class LocalModel:
    """A run of `medunlearn train` or `unlearn`, a model folder, or a hub id.

    Args:
        source: which; loaded when it is first needed.
    """

    def __init__(self, source: Run | Path | str, device: str = "auto") -> None:
        where = source.folder if isinstance(source, Run) else Path(source)
        self._run = Run.open(where) if (where / FILE).exists() else None
        self._source, self._device, self._weights = (
            model_folder(str(source if self._run is None else where)),
            device,
            "",
        )
        self.label = self._run.label if self._run else str(source).rstrip("/").split("/")[-1]

    def inputs(self) -> Mapping[str, Any]:
        return {"model": identity(self._source), "trained template": self._trained}

    def prompts(self, settings: AuditOptionsSettings) -> list[OptionPrompt]:
        return chosen_prompts(read_prompts(settings.prompts_file), settings.prompts)

    def ask(
        self,
        removals: Sequence[Removal],
        prompts: Sequence[OptionPrompt],
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[Key, Said]:
        """Greedy responses; a text prompt is gone on from bare, an instruction is shown in the template."""
        model, rendering = self._loaded(settings), self._rendering(settings)
        limit = settings.max_new_tokens or _longest(model, removals)
        found: dict[Key, Said] = {}
        with progress(f"{self.label}: removed options", len(removals) * len(prompts), quiet=quiet) as advance:
            for prompt in prompts:
                asked = [_question(one, prompt) for one in removals]
                short, long = _fitting(model, asked, rendering, limit)
                advance(len(long))
                found |= {(name, prompt.name): Said(None, TOO_LONG) for name in long}
                store = self._store(folder / "responses" / prompt.name, settings, rendering, asked, limit)
                said = respond(
                    model,
                    short,
                    _records(short),
                    store,
                    rendering,
                    max_new_tokens=limit,
                    batch_size=settings.batch_size,
                    advance=advance,
                )
                found |= {(name, prompt.name): Said(one.response) for name, one in said.items()}
        return found

    def rate(
        self,
        questions: Sequence[MultipleChoice],
        form: str,
        settings: AuditOptionsSettings,
        folder: Path,
        *,
        quiet: bool,
    ) -> dict[str, Rated]:
        """Log-probabilities as the answer to the question with its options.

        ``text``: mean over the option's tokens, the one that ends the answer counted; ``letter``: sum over the
        letter's tokens, without it.
        """
        model, rendering = self._loaded(settings), self._rendering(settings)
        asked = [choice_question(one, form) for one in questions]
        short, long = _fitting(model, asked, rendering, max(_longest_option(model, one) for one in asked))
        store = self._store(folder / "responses" / f"options_{form}", settings, rendering, asked, 0)
        with progress(f"{self.label}: options by {form}", len(short), quiet=quiet) as advance:
            rated = rate_options(
                model, short, _records(short), store, rendering, batch_size=settings.batch_size, advance=advance
            )
        found = {name: Rated(None, TOO_LONG) for name in long}
        for name, options in rated.items():
            found[name] = Rated(
                tuple(mean_log_prob(one) if form == "text" else fsum(map(float, one[:-1])) for one in options)
            )
        return found

    @cached_property
    def _trained(self) -> str | None:
        return str(self._run.info["results"]["rendering"]["template"]) if self._run else None

    def _rendering(self, settings: AuditOptionsSettings) -> Rendering:
        return Rendering(settings.template or self._trained or "plain", "closed_book")  # type: ignore[arg-type]

    def _loaded(self, settings: AuditOptionsSettings) -> LanguageModel:
        if self._weights != settings.weights:
            self._model = load_model(self._source, device=self._device, weights=settings.weights)
            self._weights = settings.weights
        return self._model

    def _store(
        self,
        folder: Path,
        settings: AuditOptionsSettings,
        rendering: Rendering,
        asked: Sequence[Question],
        limit: int,
    ) -> ResponseStore:
        return open_store(
            folder,
            model_fingerprint=identity(self._source),
            benchmark_fingerprint=sha256_of_json(
                [[q.question_id, q.question, q.answer, *q.options] for q in asked]
            ),
            weights=settings.weights,
            rendering=rendering,
            max_new_tokens=limit,
        )


def choice_question(one: MultipleChoice, form: str) -> Question:
    """A question with its options shown, and what is rated as its answer: their texts or their letters."""
    rated = one.options if form == "text" else tuple(letter(place) for place in range(len(one.options)))
    return Question(
        question_id=one.question_id,
        record_id=one.question_id,
        fold="train",
        kind="knowledge",
        level="question",
        question=f"{one.question}\n{one.lines()}",
        answer=rated[one.answer_index or 0],
        options=rated,
        answer_index=one.answer_index,
    )


def _question(removal: Removal, prompt: OptionPrompt) -> Question:
    name = removal.question.question_id
    return Question(
        question_id=name,
        record_id=name,
        fold="train",
        kind="completion" if prompt.form == "text" else "knowledge",
        level="question",
        question=prompt.render(removal),
        answer=removal.text,
    )


def _records(questions: Sequence[Question]) -> dict[str, Record]:
    """What asking expects beside a question; in ``closed_book`` context it is not shown."""
    return {one.record_id: Record(one.record_id, one.question, {}) for one in questions}


def _fitting(
    model: LanguageModel, questions: Sequence[Question], rendering: Rendering, room: int
) -> tuple[list[Question], list[str]]:
    """Questions whose prompt leaves room for the answer in the model's context, and the ids of the others."""
    most = getattr(model.model.config.get_text_config(), "max_position_embeddings", None)
    records = _records(questions)
    short: list[Question] = []
    for one in questions:
        prompt = question_sequence(one, records[one.record_id], model.tokenizer, rendering).prompt
        if most is None or len(prompt) + room <= most:
            short.append(one)
    kept = {one.question_id for one in short}
    return short, [one.question_id for one in questions if one.question_id not in kept]


def _longest(model: LanguageModel, removals: Sequence[Removal]) -> int:
    texts = [f" {option}" for one in removals for option in one.question.options]
    longest = max(len(ids) for ids in model.tokenizer(texts)["input_ids"])
    return longest + longest // 4 + 1


def _longest_option(model: LanguageModel, question: Question) -> int:
    return 1 + max(len(ids) for ids in model.tokenizer([f" {one}" for one in question.options])["input_ids"])
