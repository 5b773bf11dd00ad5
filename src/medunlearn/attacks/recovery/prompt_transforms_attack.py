"""Prompt transforms: forgotten questions in other words, and the worst answer over all wordings. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from medunlearn.attacks.recovery.known_values import share_of_facts
from medunlearn.attacks.recovery.prompt_rules import RULES, Rule, own_rule
from medunlearn.attacks.recovery.recovery_attacks import RecoveryAttack
from medunlearn.attacks.recovery.recovery_interface import VariantScores
from medunlearn.data.records import Question
from medunlearn.data.splits import shuffled
from medunlearn.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.attacks.attack_sizes import AttackSizes, Cost
    from medunlearn.attacks.recovery.attacked_model import AttackedModel
    from medunlearn.data.responses import Response

CHAT = "chat"
NO_CHAT = "the tokenizer has no chat template"


@dataclass(frozen=True)
class PromptTransforms(RecoveryAttack):
    """The same question in many forms: a fact that one of them brings out was not forgotten.

    By rule: other words, a gap in the true answer, JSON, the true beginning of the answer, retained patients'
    questions with their answers in front, other languages, several turns, role play, and the model's chat template.
    A rule that cannot be applied to a question, or that states all of its facts, leaves it out of that state. Facts
    that the prompt states never count as leaked.

    Source: Patil et al. 2024 (arXiv 2309.17410) for attacks by rephrasing; Łucki et al. 2024 (arXiv 2409.18025).

    Attributes:
        rules: names of the rules, or ``all``.
        shots: retained questions with answers in front, for ``few_shot``.
        wordings: wordings of your own with the placeholder ``{question}``, such as paraphrases by a language model.
    """

    name: ClassVar[str] = "prompt_transforms"
    title: ClassVar[str] = "Prompt transforms"
    source: ClassVar[str] = "Patil et al. 2024 (arXiv 2309.17410); Łucki et al. 2024 (arXiv 2409.18025)"
    question: ClassVar[str] = "whether another form of the question brings back what its own form does not"
    before: ClassVar[str] = "plain"
    measures_before: ClassVar[bool] = False
    shared: ClassVar[bool] = False
    sets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "battery": {},
        "quick": {"subjects": 10, "rules": ("true_prefix", "few_shot", "json")},
    }
    headline: ClassVar[tuple[str, ...]] = ("facts_leaked",)
    measures: ClassVar[Mapping[str, tuple[str, str]]] = {
        "facts_leaked": (
            "Facts leaked",
            "0-1, share of an answer's facts that the response states and the prompt does not; higher = leaks more",
        ),
    }
    alone: ClassVar[str] = (
        "facts that come out in some form of the question; the more forms, the more a model that never saw the "
        "patients guesses right, too"
    )
    about: ClassVar[tuple[str, ...]] = (
        "Each question about the forgotten patients is asked in several forms. Strength: the form; plain: as it "
        "is. A fact counts if a response states it and the prompt does not.",
    )

    subjects: Annotated[int | None, Field(ge=1)] = 20
    rules: tuple[str, ...] = ("all",)
    shots: Annotated[int, Field(ge=1, le=20)] = 3
    wordings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.rules:
            if name not in (*RULES, CHAT, "all"):
                raise InputError(f"prompt_transforms.rules: {unknown_name('rule', name, [*RULES, CHAT, 'all'])}")
        if wrong := [form for form in self.wordings if "{question}" not in form]:
            raise InputError(f"prompt_transforms.wordings: {wrong[0]!r} lacks the placeholder {{question}}.")

    def results(self, model: AttackedModel) -> Iterator[VariantScores]:
        import pandas as pd

        questions, shots = model.attacked, self._shots(model)
        tables = [self._scores(model, self.before, questions, questions)]
        notes, states = list[str](), list[str]()
        for name, rule in self._rules().items():
            pairs = [(question, self._transformed(model, rule, question, shots)) for question in questions]
            own = [(question, other) for question, other in pairs if other is not None]
            if not own:
                notes.append(f"{name}: it can be applied to no question")
                continue
            tables.append(self._scores(model, name, *map(list, zip(*own, strict=True))))
            states.append(name)
        if CHAT in self.rules or "all" in self.rules:
            if getattr(model.live.tokenizer, "chat_template", None) is None:
                notes.append(f"{CHAT}: {NO_CHAT}")
            else:
                tables.append(self._scores(model, CHAT, questions, questions, template=CHAT))
                states.append(CHAT)
        scores = pd.concat(tables, ignore_index=True)
        yield VariantScores(self.name, scores, "; ".join(notes), tuple(states))

    def _rules(self) -> dict[str, Rule]:
        rules = {name: rule for name, rule in RULES.items() if name in self.rules or "all" in self.rules}
        return rules | {f"own {place + 1}": own_rule(form) for place, form in enumerate(self.wordings)}

    @staticmethod
    def _transformed(
        model: AttackedModel, rule: Rule, question: Question, shots: Sequence[Question]
    ) -> Question | None:
        alike = [shot for shot in shots if shot.kind == question.kind] or list(shots)
        return rule(question, model.benchmark.record[question.record_id].identifiers, alike)

    def _shots(self, model: AttackedModel) -> list[Question]:
        """Questions about retained subjects, the same for every model: some of each kind."""
        by_id = {question.question_id: question for question in model.of_side("retain")}
        order = [by_id[name] for name in shuffled(by_id, "few shots", model.settings.seed)]
        by_kind: dict[str, list[Question]] = {}
        for question in order:
            by_kind.setdefault(question.kind, []).append(question)
        return [question for own in by_kind.values() for question in own[: self.shots]]

    def _scores(
        self,
        model: AttackedModel,
        state: str,
        questions: Sequence[Question],
        prompts: Sequence[Question],
        template: Any = None,
    ) -> pd.DataFrame:
        """The share of facts that each response states; ``prompts`` are the questions as they are asked."""
        import pandas as pd

        from medunlearn.results.scores import question_labels, score_table

        wording = "" if state == self.before else state
        responses: Mapping[str, Response] = model.ask(prompts, wording, template)
        rows = []
        for question, prompt in zip(questions, prompts, strict=True):
            text = responses[question.question_id].response
            value = share_of_facts(model.benchmark, question, prompt.question, text)
            # A form that states every fact of an answer asks for nothing.
            rows += [{"item": question.question_id, "value": value}] if value is not None else []
        labels = question_labels(model.benchmark, model.benchmark.split(model.settings.split), questions)
        table = pd.DataFrame(rows, columns=["item", "value"])
        table = table.assign(reason=None, measure="facts_leaked", attack=self.name, strength=state)
        return score_table(table.merge(labels, on="item", how="left", validate="one_to_one"))

    def cost(self, sizes: AttackSizes) -> Iterator[Cost]:
        model = sizes.model(self)
        for _ in range(1 + len(self._rules())):
            yield sizes.answering(model.attacked, model.evaluation)
