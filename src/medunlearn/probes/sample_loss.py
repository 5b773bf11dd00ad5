"""Mean loss of a model on a sample of its training texts, to check that it is the right model with the right
template.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from jinja2 import TemplateError

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.lineage import read_lineage
from medunlearn.data.records import Question, Record
from medunlearn.errors import InputError, ModelError, first_line
from medunlearn.models.chat import Opening, turn_of
from medunlearn.models.prompts import TEMPLATES, Template, TemplateName
from medunlearn.models.rope import rope_kind
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.probes.material import sequences, training_data
from medunlearn.seeds import generator

if TYPE_CHECKING:
    from medunlearn.models.load import LanguageModel

Item = TypeVar("Item")
LEAST_GAIN = 0.01
"""Share of the loss of uniform guessing by which a model must be below it: rounding and chance give less."""
NEAR = 0.05
"""Share of a loss within which another one is near it."""


@dataclass(frozen=True, slots=True)
class SampleLoss:
    """Loss on a sample.

    Attributes:
        what: ``records``, as plain text; or ``questions``, of which only answers are scored.
        template: template of the questions; ``text`` for records.
        items: number of records or questions.
        tokens: number of scored tokens.
        loss: mean negative log-likelihood, nats per token, at least 0. Lower = the model predicts them better;
            the logarithm of the size of the vocabulary = uniform guessing. None if it is not finite.
    """

    what: str
    template: str
    items: int
    tokens: int
    loss: float | None

    @property
    def rank(self) -> float:
        """Sort key of the loss; a non-finite loss is the worst."""
        return math.inf if self.loss is None else self.loss

    @property
    def words(self) -> str:
        return "not finite" if self.loss is None else f"{self.loss:.2f} a token"


def default_template(tokenizer: Any, folder: Path | None = None) -> Template:
    """The model's prompt template: that of its training if recorded, else the chat template if there is one."""
    has_chat = bool(getattr(tokenizer, "chat_template", None))
    recorded = None if folder is None else recorded_template(folder)
    if recorded is not None and (has_chat or recorded != "chat"):
        return recorded
    return "chat" if has_chat else "plain"


def recorded_template(folder: Path) -> TemplateName | None:
    """The prompt template recorded in a run or a model's folder; None if there is no record."""
    name = read_lineage(folder, strict=False).template
    return next((template for template in TEMPLATES if template == name), None)


def chat_template_text(tokenizer: Any) -> str | None:
    """The text of the chat template; several ones as JSON. None without one."""
    template = getattr(tokenizer, "chat_template", None)
    return template if template is None or isinstance(template, str) else json.dumps(template, sort_keys=True)


def uniform_loss(language_model: LanguageModel) -> float:
    """Loss of a uniform distribution over tokens, in nats."""
    model = language_model.model
    head = model.get_output_embeddings() or model.get_input_embeddings()
    return math.log(int(head.weight.shape[0]))


def positions(language_model: LanguageModel, longest: int) -> int:
    """The longest sequence that a model supports, at most ``longest``."""
    config = language_model.model.config.get_text_config()
    room = getattr(config, "max_position_embeddings", None)
    if isinstance(room, int) and rope_kind(language_model.model) == "dynamic":
        room = int(room * config.rope_parameters.get("factor", 1.0))
    return min(longest, room) if isinstance(room, int) and room > 0 else longest


def sample_losses(
    language_model: LanguageModel,
    benchmark: Benchmark,
    rendering: Rendering,
    *,
    without: str | None = None,
    sample: int,
    seed: int,
    batch_size: int = 8,
    advance: Callable[[int], None] = lambda count: None,
) -> list[SampleLoss]:
    """Losses on records, and on questions in plain text, in the chat template if there is one, and as rendered.

    Args:
        rendering: rendering of questions in later commands.
        without: a split whose forget set the model never saw, and which is excluded.
        sample: largest number of records, and of questions.

    Raises:
        InputError: the benchmark has no training data; a question is too long.
        ModelError: the chat template cannot be filled with a question.
        MedunlearnError: memory runs out with a single sequence.
    """
    records = _draw(training_data(benchmark, without)[0], sample, "adopt records", seed)
    questions = _sampled_questions(benchmark, without, sample, seed)
    if not records and not questions:
        raise InputError(f"Benchmark {benchmark.name!r} has no training records and no training questions.")
    losses = []
    for what, how in _ways(language_model, rendering, asks=bool(questions)):
        items = (records, []) if what == "records" else ([], questions)
        if not any(items):
            continue
        mean, tokens = _mean_loss(language_model, benchmark, items, how, batch_size, advance)
        name = "text" if what == "records" else how.template_name
        losses.append(SampleLoss(what, name, len(items[0]) + len(items[1]), tokens, mean))
    return losses


def _mean_loss(
    language_model: LanguageModel,
    benchmark: Benchmark,
    items: tuple[list[Record], list[Question]],
    how: Rendering,
    batch_size: int,
    advance: Callable[[int], None],
) -> tuple[float | None, int]:
    """Mean loss of records and questions, None if it is not finite; and the number of scored tokens."""
    from medunlearn.models.scoring import score_answers

    scored = _as_sequences(lambda: sequences(*items, benchmark.record, language_model, how), how)
    answers = score_answers(language_model, scored, batch_size=batch_size, advance=advance)
    values = [value for answer in answers for value in answer.log_probs]
    mean = -sum(values) / len(values)
    return mean if math.isfinite(mean) else None, len(values)


def _sampled_questions(benchmark: Benchmark, without: str | None, sample: int, seed: int) -> list[Question]:
    questions = training_data(benchmark, without)[1] + questions_to_choose_by(benchmark, without)
    return _draw(questions, sample, "adopt questions", seed)


@dataclass(frozen=True, slots=True)
class OpeningChoice:
    """The text before an answer in the chat template, by the model's losses on questions.

    Attributes:
        opening: the generation prompt, unless the answered turn has a clearly lower loss.
        losses: opening -> loss, of those that are finite.
    """

    opening: Opening
    losses: dict[str, float]


def choose_opening(
    language_model: LanguageModel,
    benchmark: Benchmark,
    rendering: Rendering,
    *,
    without: str | None = None,
    sample: int,
    seed: int,
    batch_size: int = 8,
) -> OpeningChoice | None:
    """The opening of an answer in which a model answers better; None if its chat template has only one.

    Raises:
        As :func:`sample_losses`.
    """
    questions = _sampled_questions(benchmark, without, sample, seed)
    if not questions or not turn_of(language_model.tokenizer).differs:
        return None
    losses: dict[str, float] = {}
    for opening in get_args(Opening):
        how = replace(rendering, template="chat", opening=opening)
        loss, _ = _mean_loss(language_model, benchmark, ([], questions), how, batch_size, lambda count: None)
        losses |= {} if loss is None else {opening: loss}
    is_turn = "turn" in losses and losses["turn"] < (1 - NEAR) * losses.get("prompt", math.inf)
    return OpeningChoice("turn" if is_turn else "prompt", losses)


def questions_to_choose_by(benchmark: Benchmark, without: str | None) -> list[Question]:
    """Questions that settings are chosen by, without those about a split's forget set."""
    left_out = () if without is None else benchmark.records_of(benchmark.split(without), "forget")
    ids = {record.record_id for record in left_out}
    return [own for own in benchmark.questions if own.fold == "choosing" and own.record_id not in ids]


def _ways(language_model: LanguageModel, rendering: Rendering, *, asks: bool) -> Iterator[tuple[str, Rendering]]:
    yield "records", rendering
    if asks:
        templates: list[Template] = ["plain", default_template(language_model.tokenizer), rendering.template]
        yield from (("questions", replace(rendering, template=template)) for template in dict.fromkeys(templates))


def _as_sequences(make: Callable[[], list[TokenSequence]], rendering: Rendering) -> list[TokenSequence]:
    try:
        return make()
    except TemplateError as error:
        raise ModelError(
            f"The {rendering.template_name} template cannot be filled with a question: {first_line(error)} Correct "
            "it beside the tokenizer, or choose --template plain."
        ) from error


def _draw(items: Sequence[Item], count: int, *purpose: str | int) -> list[Item]:
    """At most ``count`` of the items, in order, sampled at random."""
    if len(items) <= count:
        return list(items)
    places = generator(*purpose).choice(len(items), size=count, replace=False)
    return [items[place] for place in sorted(places.tolist())]


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """The template that a model is asked in, by its losses on questions.

    Attributes:
        template: the usual one, unless another has a clearly lower loss.
        in_doubt: whether another's loss is near that of the chosen one.
        losses: template -> loss, of those that are finite.
    """

    template: str
    in_doubt: bool
    losses: dict[str, float]


def choose_template(losses: Sequence[SampleLoss], usual: str) -> TemplateChoice:
    """The template in which a model answers better; the usual one where losses are within :data:`NEAR`."""
    by_template = {own.template: own.loss for own in losses if own.what == "questions" and own.loss is not None}
    best = min(by_template, key=by_template.__getitem__, default=usual)
    is_clear = usual not in by_template or by_template[best] < (1 - NEAR) * by_template[usual]
    template = best if is_clear else usual
    own = by_template.get(template, math.inf)
    in_doubt = any(abs(loss - own) <= NEAR * own for name, loss in by_template.items() if name != template)
    return TemplateChoice(template, in_doubt, by_template)


def better_template(losses: Sequence[SampleLoss], template: str) -> SampleLoss | None:
    """The loss in the template that predicts the questions best; None if that is ``template``."""
    questions = [loss for loss in losses if loss.what == "questions"]
    best = min(questions, key=lambda loss: loss.rank, default=None)
    return None if best is None or best.loss is None or best.template == template else best


def guessing_problem(losses: Sequence[SampleLoss], uniform: float) -> str:
    """The problem of a model that predicts nothing better than uniform guessing; "" for other models.

    Better means a loss lower by at least :data:`LEAST_GAIN`.
    """
    best = min(losses, key=lambda loss: loss.rank, default=None)
    if best is None or best.rank < (1 - LEAST_GAIN) * uniform:
        return ""
    return (
        f"its loss is no better than uniform guessing ({uniform:.2f}): {best.words} on {best.what}, and "
        "no less in any other way of asking"
        if len(losses) > 1
        else f"its loss, {best.words} on {best.what}, is no better than uniform guessing ({uniform:.2f})"
    )
