"""Respondents: who answers probes. A model on this machine (our engine or vLLM), a server, or stored responses.

All have one interface, and each says what it can give. A measure that needs more is unscored, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from medunlearn.data.data_use import DataUse
from medunlearn.data.records import Question, Record
from medunlearn.data.responses import LogProbs, ResponseStore
from medunlearn.errors import ConfigError
from medunlearn.generation.decodings import GREEDY, Decoding
from medunlearn.metrics import get_metric
from medunlearn.metrics.measure import Need
from medunlearn.metrics.needs import GIFTS, INPUTS
from medunlearn.results.runs import Run

if TYPE_CHECKING:
    from medunlearn.llm.requests import Message
    from medunlearn.models.sequences import Rendering

Key = tuple[str, str, int]
"""Probe, name of the decoding, sample."""
Text: TypeAlias = "str | tuple[Message, ...]"
"""Text to continue, or the messages of a chat."""

TOO_LONG = "the prompt is longer than the model's context"
EVERYTHING: frozenset[Need] = frozenset(GIFTS)
TEXT_ALONE: frozenset[Need] = frozenset({"response"})


@dataclass(frozen=True, slots=True)
class ProbePrompt:
    """One probe as it is asked.

    Attributes:
        key: id of the probe.
        record_id: id of the text or record that it is about.
        opening: tokenizer -> token ids (:class:`~medunlearn.generation.continuations.Opening`), for a model on this
            machine; None if it is asked in another way there.
    """

    key: str
    record_id: str
    text: Text = field(repr=False)
    opening: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Material:
    """The texts that prompts are made from, for the guard of a server.

    Attributes:
        identifiers: record id -> known identifiers of its subject; None: nobody looked for them.
    """

    records: Sequence[Record]
    identifiers: Mapping[str, tuple[str, ...] | None]
    data_use: DataUse | None


@dataclass(frozen=True)
class Asking:
    """Prompts, and the settings under which they are asked.

    Attributes:
        expected: keys of the expected responses; None: of every prompt under every decoding.
        leave_long: a prompt that is longer than the model's context has no response, instead of being refused.
        tokens: (prompts' keys, responses) -> token ids of the responses, for respondents that give text alone.
    """

    prompts: Sequence[ProbePrompt]
    material: Material
    max_new_tokens: int
    decodings: Sequence[Decoding] = (GREEDY,)
    samples: int = 1
    seed: int = 0
    batch_size: int = 32
    expected: Sequence[Key] | None = None
    leave_long: bool = False
    tokens: Callable[[Sequence[str], Sequence[str]], list[tuple[int, ...]]] = lambda keys, texts: [() for _ in keys]

    def keys(self) -> list[Key]:
        """Keys of all expected responses, sorted by decoding, then probe."""
        if self.expected is not None:
            return list(self.expected)
        return [
            (prompt.key, decoding.name, sample)
            for decoding in self.decodings
            for prompt in self.prompts
            for sample in range(self.samples if decoding.draws else 1)
        ]


@dataclass(frozen=True)
class Choices:
    """Questions whose options are rated, each as the answer to its question.

    Attributes:
        records: record id -> the record that a question is about.
        variant: variant of the ratings in a store.
    """

    questions: Sequence[Question]
    records: Mapping[str, Record]
    material: Material
    rendering: Rendering
    variant: str
    batch_size: int = 64


class Ratings(NamedTuple):
    """Log-probabilities of options' tokens.

    Attributes:
        log_probs: question -> of the tokens of each of its options.
        reasons: question -> why its options have none.
        end: the last token of each option is the one that ends an answer.
    """

    log_probs: Mapping[str, LogProbs]
    reasons: Mapping[str, str]
    end: bool


class Respondent(Protocol):
    """A model, server or file that answers probes.

    Attributes:
        label: its name in tables.
        gives: the inputs of measures that it can give.
    """

    label: str

    @property
    def gives(self) -> frozenset[Need]: ...

    @property
    def data_use(self) -> DataUse | None:
        """Data use of what it was made from; None: unknown."""
        ...

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer; None if it gives text alone."""
        ...

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the model's weights; empty if they were not looked at."""
        ...

    def identity(self) -> Any:
        """Part of a run's key: equal identities give equal responses."""
        ...

    def facts(self) -> dict[str, Any]:
        """For ``run.json``: kind, source, and what came of asking."""
        ...

    def check(self, material: Material) -> None:
        """Refuse texts that it may not be given, before any work starts."""
        ...

    def answer(self, asking: Asking, store: ResponseStore, advance: Callable[[int], None]) -> dict[Key, str]:
        """Store a response to every prompt that has none yet; returns the reason of each missing one."""
        ...

    def rate(self, choices: Choices, store: ResponseStore, advance: Callable[[int], None]) -> Ratings | None:
        """Likelihoods of options; None: it gives none."""
        ...

    def tries_again(self, facts: Mapping[str, Any]) -> bool:
        """True if responses that were missing, by these earlier :meth:`facts`, are to be asked for again."""
        ...


def recorded_gifts(run: Run) -> frozenset[Need]:
    """Inputs of measures that the respondent of a run gives: all, unless its record names fewer."""
    recorded = run.info.results.get("respondent")
    if not recorded:
        return EVERYTHING
    return frozenset(need for need in GIFTS if need in recorded.get("gives", ()))


def lacking_needs(names: Sequence[str], gives: Collection[Need]) -> dict[str, str]:
    """Measure -> why a respondent that gives these inputs leaves it unscored; scorable ones have no entry."""
    lacking = {}
    for name in names:
        needs = [need for need in get_metric(name).needs if need in EVERYTHING and need not in gives]
        if needs:
            given = " and ".join(INPUTS[need] for need in GIFTS if need in gives) or "nothing"
            wanted = " and ".join(INPUTS[need] for need in needs)
            lacking[name] = f"the model was asked where it gives {given} alone, and the measure needs {wanted}"
    return lacking


def refuse_unanswerable(names: Sequence[str], gives: Collection[Need], label: str) -> dict[str, str]:
    """:func:`lacking_needs`, refused if no measure is left.

    Raises:
        ConfigError: the respondent gives what none of the measures needs.
    """
    lacking = lacking_needs(names, gives)
    if names and len(lacking) == len(names):
        reasons = [f"metrics={name}: {reason}" for name, reason in lacking.items()]
        raise ConfigError(
            [*reasons, f"{label} can be scored by none of these. Name measures of text: rouge_l, ..."]
        )
    return lacking


class RespondentRun(NamedTuple):
    """A respondent, and the run that holds what it answered."""

    run: Run
    respondent: Respondent
