"""A model behind an OpenAI-compatible server as a respondent. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from medunlearn.data.data_use import DataUse
from medunlearn.data.responses import ResponseStore
from medunlearn.errors import MedunlearnError
from medunlearn.llm import Budget, ServerSettings, decide
from medunlearn.llm.faults import next_step
from medunlearn.metrics.measure import Need
from medunlearn.probes.respondents import TEXT_ALONE, Asking, Choices, Key, Material, Ratings


@dataclass
class ServedModel:
    """A model behind a server: its completions of texts, its chat for messages. It gives text alone.

    Attributes:
        permitted: the user allows protected texts to leave this machine.
        allow_missing: finish though the server left prompts without a response.
    """

    label: str
    server: ServerSettings
    permitted: bool = False
    allow_missing: bool = False
    gives: frozenset[Need] = TEXT_ALONE
    problems: tuple[str, ...] = ()
    data_use: DataUse | None = None
    tokenizer: None = None
    _facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def budget(self) -> Budget:
        """One for all that it is asked."""
        return Budget(self.server)

    def identity(self) -> Any:
        return ["server", self.server.name, self.server.extra]

    def facts(self) -> dict[str, Any]:
        return {"kind": "server", "server": self.server.model_dump(mode="json"), **self._facts}

    def check(self, material: Material) -> None:
        """Refuse texts that may not leave this machine."""
        self._decision(material).enforce()

    def answer(self, asking: Asking, store: ResponseStore, advance: Callable[[int], None]) -> dict[Key, str]:
        """Store the responses; returns the reason of each missing one.

        Raises:
            MedunlearnError: responses are missing that another try may bring, unless ``allow_missing``.
        """
        from medunlearn.generation.server import NEUTRAL, ServerPrompt, continue_on_server

        decision, material = self._decision(asking.material), asking.material
        lacking = continue_on_server(
            self.server,
            decision,
            [ServerPrompt(p.key, p.text, material.identifiers.get(p.record_id)) for p in asking.prompts],
            asking.decodings,
            store,
            asking.tokens,
            folder=store.folder.parent / "llm",
            budget=self.budget,
            samples=asking.samples,
            seed=asking.seed,
            max_new_tokens=asking.max_new_tokens,
            advance=advance,
        )
        counts = {"unanswered": len(lacking.reasons), "may_come": lacking.may_come}
        sent = {name: values[0] for name, values in NEUTRAL.items()}
        self._facts = {"guard": decision.to_json(), **counts, "sampling_fields": sent}
        expected = len(asking.keys())
        nothing = len(lacking.reasons) == expected
        if lacking.may_come and (nothing or not self.allow_missing):
            first = next(iter(lacking.reasons.values()))
            rest = "." if nothing else ", or finish without them: --allow-missing."
            raise MedunlearnError(
                f"{len(lacking.reasons)} of {expected} responses are missing. {first} Received responses "
                f"are stored. {next_step(lacking.permanent)}{rest}"
            )
        return lacking.reasons

    def rate(self, choices: Choices, store: ResponseStore, advance: Callable[[int], None]) -> Ratings | None:
        """Likelihoods of the options' tokens as the server echoes them, without the one that ends an answer.

        Raises:
            MedunlearnError: server or network failed on some, or the server gives no log-probabilities.
        """
        from medunlearn.generation.echoed_options import rate_on_server

        log_probs, reasons = rate_on_server(
            self.server,
            self._decision(choices.material),
            choices.questions,
            choices.rendering,
            folder=store.folder.parent / "llm",
            budget=self.budget,
            prompt_version=choices.variant,
            advance=advance,
        )
        return Ratings(log_probs, reasons, end=False)

    def tries_again(self, facts: Mapping[str, Any]) -> bool:
        return bool(facts.get("may_come")) and not self.allow_missing

    def _decision(self, material: Material) -> Any:
        address, use = self.server.base_url, material.data_use
        return decide(address, data_use=use, records=material.records, permitted=self.permitted)
