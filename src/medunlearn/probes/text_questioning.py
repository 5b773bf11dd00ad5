"""Ask a benchmark's questions of a respondent that gives text alone: a server, or stored responses. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medunlearn.config import EvaluateSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.fact_ranks import FactRank
from medunlearn.data.records import Question
from medunlearn.data.responses import CUT_ELSEWHERE, LogProbs, Response, ResponseStore
from medunlearn.errors import InputError
from medunlearn.llm.requests import Message
from medunlearn.metrics.measure import Need
from medunlearn.models.chat import without_reasoning
from medunlearn.models.prompts import render
from medunlearn.models.sequences import Rendering
from medunlearn.probes.rank_plan import RankPlan
from medunlearn.probes.respondents import Asking, Material, ProbePrompt, Respondent, Text, recorded_gifts
from medunlearn.probes.run_stores import store_of
from medunlearn.progress import progress, remark
from medunlearn.results.runs import Run


@dataclass
class TextQuestioning:
    """A respondent's run with an evaluation's questions; asked only for responses that are not stored.

    Attributes:
        respondent: None where only the run was named: then nothing new can be asked.
        reasons: why questions have no response, by question.
    """

    run: Run
    benchmark: Benchmark
    settings: EvaluateSettings
    rendering: Rendering
    respondent: Respondent | None
    quiet: bool
    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def gives(self) -> frozenset[Need]:
        return recorded_gifts(self.run)

    @property
    def chat_template(self) -> str:
        """``used`` if questions are asked in the respondent's own chat template, else ``not used``."""
        return "used" if self.rendering.template == "chat" else "not used"

    @property
    def problems(self) -> tuple[str, ...]:
        return () if self.respondent is None else self.respondent.problems

    def ask(self, questions: Sequence[Question]) -> tuple[Path, dict[str, Response], dict[str, Any]]:
        """The store of responses, the responses that there are, and facts for the run's record.

        Raises:
            InputError: responses are missing, and nobody is named who could give them.
            MedunlearnError: the server left questions without a response.
            RemoteRefusedError: the questions may not leave this machine.
        """
        most = self.settings.max_new_tokens or most_tokens(self.benchmark)
        store = _AnswerStore.of(store_of(self.run, self.benchmark, self.settings, self.rendering, most))
        asking = self._asking(questions, most)
        keys, facts = asking.keys(), dict[str, Any]()
        stored = store.read()
        if not all(key in stored for key in keys):
            if self.respondent is None:
                address = "the server's address, http://HOST:PORT/v1"
                source = self.run.info.results["respondent"].get("source", address)
                raise InputError(
                    f"{self.run.folder} lacks responses, and holds no model. Name who answers instead of the run: "
                    f"{source}"
                )
            self.respondent.check(asking.material)
            if any(record.image for record in asking.material.records):
                remark(f"{self.run.label} is asked in text: images are not shown to it", quiet=self.quiet)
            with progress(f"{self.run.label}: responses", len(keys), quiet=self.quiet) as advance:
                reasons = self.respondent.answer(asking, store, advance)
            self.reasons = {question_id: reason for (question_id, *_), reason in reasons.items()}
            store.join()
            stored, facts = store.read(), {"respondent": self.respondent.facts()}
        self.reasons |= {
            key[0]: why for key in keys if key in stored and (why := reason_unscored(stored[key], most))
        }
        answers = {key[0]: stored[key] for key in keys if key in stored and key[0] not in self.reasons}
        return store.folder, answers, facts

    def rate(
        self, questions: Sequence[Question], metrics: Sequence[str]
    ) -> tuple[dict[str, LogProbs], dict[str, str]]:
        """Nothing: no likelihoods of options are given."""
        return {}, {}

    def rank(self, plan: RankPlan) -> tuple[dict[str, list[FactRank]], dict[str, list[FactRank]], dict[str, str]]:
        """Nothing: no ranks are given."""
        return {}, {}, {}

    def _asking(self, questions: Sequence[Question], most: int) -> Asking:
        record, used = self.benchmark.record, {question.record_id for question in questions}
        records = [record[name] for name in used]
        identifiers = {r.record_id: tuple(identifier.value for identifier in r.identifiers) for r in records}
        material = Material(records, identifiers, self.benchmark.data_use)
        prompts = [ProbePrompt(q.question_id, q.record_id, self._text(q)) for q in questions]
        return Asking(prompts, material, most, seed=self.settings.seed)

    def _text(self, question: Question) -> Text:
        note, how = self.benchmark.record[question.record_id].text, self.rendering
        if how.template == "chat" and question.kind != "completion":
            shown = f"{note}\n\n" if how.context == "note" else ""
            return (Message("user", f"{shown}{question.question}"),)
        template = "plain" if how.template == "chat" else how.template
        prompt = render(question, note, template=template, context=how.context)
        return f"{prompt.shared}{prompt.own}"


def reason_unscored(response: Response, asked: int) -> str:
    """Reason for which a reply is no whole answer; "" for an answer, if only of no words.

    Args:
        asked: tokens that were asked for at most. An answer that this limit ended is whole here, as it is for a
            model on this machine.
    """
    return response.unanswered or (CUT_ELSEWHERE if response.is_cut_before(asked) else "")


class _AnswerStore(ResponseStore):
    """A store of answers without spaces around them and without reasoning, as a model on this machine has them."""

    @staticmethod
    def of(store: ResponseStore) -> _AnswerStore:
        return _AnswerStore(store.folder, store.settings, data_use=store.data_use)

    def add(self, responses: Iterable[Response]) -> None:
        super().add(replace(response, response=without_reasoning(response.response)) for response in responses)


def most_tokens(benchmark: Benchmark) -> int:
    """Default of ``max_new_tokens`` without a tokenizer: room for the longest reference answer in any one.

    A word has at most two tokens, or one for three of its ASCII letters and for each other character: a record
    number is split digit by digit by many tokenizers.
    """
    return 1 + max((sum(map(_word_tokens, question.answer.split())) for question in benchmark.questions), default=0)


def _word_tokens(word: str) -> int:
    letters = sum(character.isascii() and character.isalpha() for character in word)
    return max(2, letters // 3 + len(word) - letters)
