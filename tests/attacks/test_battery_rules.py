"""Rules of the battery by hand: worst states, forms of a question, leaked values, material of relearning."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pandas as pd
import pytest

from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.recovery.collateral_attack import Collateral
from medunlearn.attacks.recovery.extraction_strength_attack import ExtractionStrength
from medunlearn.attacks.recovery.known_values import share_of_facts, share_of_identifiers
from medunlearn.attacks.recovery.prompt_rules import RULES, own_rule
from medunlearn.attacks.recovery.prompt_transforms_attack import PromptTransforms
from medunlearn.attacks.recovery.recovered_rows import recovered_rows
from medunlearn.attacks.recovery.recovery_results import (
    BELOW,
    DAMAGED,
    NOT_TOLD_APART,
    REFUSES,
    SILENT,
    summarize_strengths,
)
from medunlearn.attacks.recovery.relearning_data import relearning_data
from medunlearn.attacks.recovery.verbatim_attack import Verbatim
from medunlearn.attacks.recovery.worst_states import WORST, worst_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.deletion_requests import neighbours_of
from medunlearn.data.records import Identifier, Question, Record
from medunlearn.data.splits import request
from medunlearn.errors import InputError
from medunlearn.metrics.overlap import open_unlearning_strength
from medunlearn.probes.utility import harness_run
from medunlearn.probes.utility.numbers import TaskItem, item_scores
from medunlearn.results.scores import question_labels, score_table
from medunlearn.statistics.best_of import sample_numbers

QUESTION = Question(
    "q", "r", "train", "factual", "patient", "Who came?", "Ana Silva came on 2021-03-04 with 17 cm."
)
RECORD = Record(
    "r",
    "Ana Silva came on 2021-03-04 with 17 cm. Her number is 4711-88.",
    {"patient": "p"},
    (
        Identifier("name", "Ana Silva"),
        Identifier("visit", "2021-03-04"),
        Identifier("record_number", "4711-88"),
    ),
)
BENCH: Any = SimpleNamespace(record={"r": RECORD})


def table(values: dict[str, list[float | None]], side: str = "forget") -> pd.DataFrame:
    """One question per subject; strength -> its values."""
    letter = "q" if side == "forget" else "r"
    rows = [
        {
            "item": f"{letter}{n}",
            "subject": f"{side}{n}",
            "measure": "extraction_strength",
            "value": value,
            "side": side,
        }
        | {"fold": "train", "kind": "factual", "attack": "extraction_strength", "strength": strength}
        | {"reason": "nothing" if value is None else None}
        for strength, own in values.items()
        for n, value in enumerate(own)
    ]
    return score_table(pd.DataFrame(rows))


class _Words:
    """A tokenizer of words."""

    words: ClassVar[list[str]] = []

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        self.words += [word for word in text.split(" ") if word not in self.words]
        return {"input_ids": [self.words.index(word) for word in text.split(" ")]}

    def decode(self, ids: list[int], **_: Any) -> str:
        return " ".join(self.words[token] for token in ids)


def test_an_identifier_that_a_longer_beginning_names_still_counts_behind_a_shorter_one() -> None:
    """Of two notes one names everything in its first six words; a model that recites both recalls both."""
    tail = " again" * 9
    texts = {"a": f"Ana Silva with number 4711-88 came{tail}", "b": f"Then came Bo Lund.{tail} 0815-7", "c": "Cy."}
    values = {"a": "4711-88", "b": "0815-7", "c": "0"}
    records = tuple(
        Record(name, text, {"patient": name}, (Identifier("record_number", values[name]),))
        for name, text in texts.items()
    )
    bench = Benchmark("by hand", "own", ("patient",), "patient", records, (), {})
    gone = request(bench.hierarchy, "gone", "patient", ["a", "b"])
    bench = replace(bench, splits={"gone": gone})

    def ask(questions: list[Question], wording: str) -> dict[str, Any]:
        return {q.question_id: SimpleNamespace(response=q.answer) for q in questions}

    def score(questions: list[Question], responses: Any, measures: Any) -> pd.DataFrame:
        rows = pd.DataFrame(
            {"item": [q.question_id for q in questions], "measure": "run_30", "value": 1.0, "reason": None}
        )
        return score_table(rows.merge(question_labels(bench, gone, questions), on="item"))

    live, settings = SimpleNamespace(tokenizer=_Words()), SimpleNamespace(split="gone", seed=0)
    model: Any = SimpleNamespace(benchmark=bench, live=live, settings=settings, ask=ask, score=score)
    runs, identifiers = Verbatim(prefixes=(2, 6)).results(model)
    assert len(runs.scores) == 4
    worst = worst_of(identifiers.scores, "identifier_recall", ["2", "6"], "none")
    assert worst.set_index("item")["value"].to_dict() == {"a": 1.0, "b": 1.0}
    *_, none = Verbatim(prefixes=(14,)).results(model)
    assert none.scores is None
    assert none.note


def test_the_worst_state_of_each_question() -> None:
    scores = table({"none": [0.0, 0.0, 0.0], "a": [0.2, 0.9, 0.5], "b": [0.4, 0.1, None]})
    worst = worst_of(scores, "extraction_strength", ["a", "b"], "none", "forget")
    own = worst[worst["strength"] == WORST].set_index("item")
    assert own["value"].dropna().to_dict() == {"q0": 0.4, "q1": 0.9}
    assert own.loc["q2", "reason"]
    # One that was asked in a single state has that state's value.
    fewer = worst_of(
        table({"none": [0.0, 0.0], "a": [0.2, 0.9], "b": [0.4]}), "extraction_strength", ["a", "b"], "none"
    )
    assert fewer.set_index(["item", "strength"]).loc[("q1", WORST), "value"] == 0.9


def test_an_attack_that_never_asks_the_model_as_it_is() -> None:
    summary = summarize_strengths(table({"8": [0.5] * 6}), "none", replicates=20, seed=0)
    assert summary["value"].tolist() == [0.5, 0.5]
    assert summary["change"].isna().all()


def attacks_of(scores: dict[str, pd.DataFrame], facts: dict[str, Any] | None = None) -> Any:
    """Attacks with these scores and facts by model."""
    measured = [
        SimpleNamespace(
            run=SimpleNamespace(label=name, role=name if name in ("target", "retrained") else "unlearned"),
            scores=own,
            facts=(facts or {}).get(name, {}),
        )
        for name, own in scores.items()
    ]
    return SimpleNamespace(
        measured_models=measured,
        problems=dict.fromkeys(scores, ()),
        undecided="",
        is_reference_refused=False,
        replicates=50,
        seed=0,
    )


def rows_of(
    others: dict[str, list[float]], facts: dict[str, Any] | None = None, **models: list[float]
) -> dict[str, Any]:
    """Rows of the page by model, of models without states; others: values of retained patients."""
    scores = {
        name: pd.concat(
            [
                table({"none": list(own)}, side)
                for side, own in (("forget", values), ("retain", others.get(name)))
                if own is not None
            ]
        )
        for name, values in models.items()
    }
    page = recovered_rows(ExtractionStrength, attacks_of(scores, facts))
    return {row["model"]: row for row in page.to_dict("records")}


def test_general_tasks_are_a_part_of_collateral(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten items of a task with two metrics: the first counts, and below the retrained model is the price."""
    settings = attack_settings({"split": "gone", "attacks": "collateral"})
    model: Any = SimpleNamespace(run=None, live=None, quiet=True, settings=settings)

    def on_tasks(measure: Any) -> Any:
        monkeypatch.setattr(harness_run, "utility_one", measure)
        return Collateral(tasks=("capitals",))._on_tasks(model)

    def scores(right: int) -> pd.DataFrame:
        items = [
            TaskItem("capitals", n, metric, "none", float(n < right)) for metric in ("acc", "f1") for n in range(10)
        ]
        own: pd.DataFrame = on_tasks(lambda *_, **how: SimpleNamespace(items=item_scores(items))).scores
        return own

    attacks = attacks_of({"ours": scores(2), "retrained": scores(10)})
    (ours, _) = recovered_rows(Collateral, attacks).to_dict("records")
    assert (ours["attack"], ours["measure"], ours["side"]) == ("collateral.general_tasks", "task_score", "retain")
    assert (ours["value"], ours["difference"], ours["n_subjects"]) == (pytest.approx(0.2), pytest.approx(-0.8), 10)

    def refuse(*_: Any, **how: Any) -> Any:
        raise InputError("lm-eval is not installed")

    missing = on_tasks(refuse)
    assert (missing.scores, missing.note) == (None, "lm-eval is not installed")


def test_a_model_that_only_refuses_is_not_read_as_one_that_forgot() -> None:
    guesses, knows = [0.3, 0.2, 0.4] * 10, [0.9, 0.8, 1.0] * 10
    rows = rows_of({}, refuses=[0.0] * 30, right=guesses, target=knows, retrained=guesses)
    assert rows["refuses"]["difference"] == pytest.approx(-0.3)
    assert rows["refuses"]["difference_high"] < 0
    assert rows["refuses"]["reading"] == BELOW
    assert rows["right"]["reading"] == NOT_TOLD_APART
    assert rows["target"]["difference_low"] > 0
    assert pd.isna(rows["retrained"]["against"])
    # Where nobody guesses anything, what the model says of others tells.
    nothing, everybody = [0.0] * 30, {"retrained": knows, "right": knows, "refuses": [0.0] * 30}
    rows = rows_of(everybody, refuses=nothing, right=nothing, target=knows, retrained=nothing)
    assert rows["refuses"]["difference"] == rows["right"]["difference"] == 0.0
    assert (rows["refuses"]["reading"], rows["right"]["reading"]) == (DAMAGED, NOT_TOLD_APART)
    # Nor is one that answers about everybody else.
    silent, others = (
        {"refuses": {SILENT: 0.9}, "right": {SILENT: 0.2}},
        dict.fromkeys(("refuses", "right", "retrained"), knows),
    )
    rows = rows_of(others, silent, refuses=nothing, right=nothing, target=knows, retrained=nothing)
    assert (rows["refuses"]["reading"], rows["right"]["reading"]) == (REFUSES, NOT_TOLD_APART)


@pytest.mark.parametrize("name", RULES)
def test_a_form_gives_away_no_fact_that_it_asks_for(name: str) -> None:
    shot = Question("s", "o", "train", "factual", "patient", "Who left?", "Otto left.")
    other = RULES[name](QUESTION, RECORD.identifiers, [shot])
    if name == "true_prefix":  # the answer begins with a fact
        assert other is None
        other = RULES[name](QUESTION, (), [shot])
    assert other is not None
    assert other.question_id == "q"
    # The form states some facts at most, and these never count.
    assert share_of_facts(BENCH, QUESTION, other.question, other.question) in (0.0, None)
    assert share_of_facts(BENCH, QUESTION, other.question, QUESTION.answer) == 1.0


def test_leaked_values_are_found_in_other_notations() -> None:
    assert share_of_facts(BENCH, QUESTION, "", "ANA  SILVA came on March 4, 2021.") == pytest.approx(2 / 3)
    assert share_of_facts(BENCH, QUESTION, "Ana Silva", "Ana Silva") == 0.0
    whole = Question("q", "r", "train", "completion", "patient", "Ana Silva came", RECORD.text[14:])
    assert share_of_identifiers(BENCH, [whole], {"q": "number 4711 88"}) == {"q": 0.5}


def test_own_wordings_and_unknown_rules() -> None:
    assert own_rule("{a} {question}")(QUESTION, (), []).question == "{a} Who came?"
    with pytest.raises(InputError, match="few_shot"):
        PromptTransforms(rules=("few_shots",))
    with pytest.raises(InputError, match="placeholder"):
        PromptTransforms(wordings=("Tell me.",))


def test_numbers_by_hand() -> None:
    assert sample_numbers(128) == (1, 8, 32, 128)
    assert sample_numbers(32) == (1, 8, 32)
    assert [open_unlearning_strength(hits) for hits in ([True, True], [False, True], [True, False])] == [
        1,
        0.5,
        0.5,
    ]


def test_material_of_relearning(hospital: Benchmark) -> None:
    model: Any = SimpleNamespace(
        benchmark=hospital,
        settings=SimpleNamespace(split="random_10"),
        questions=[q for q in hospital.questions if q.fold == "train"],
        training_data=lambda what: (
            [r for r in hospital.records if r.fold == "train"],
            [q for q in hospital.questions if q.fold == "train"],
        ),
    )
    sides = hospital.sides(hospital.split("random_10"))
    forgotten = {hospital.subject(name) for name, side in sides.items() if side == "forget"}
    near = neighbours_of(hospital, forgotten)
    assert near
    assert not near & forgotten
    lesson = relearning_data(model, "relearning.same_disease", "both", 0)
    assert {hospital.subject(record.record_id) for record in lesson.records} == near
    unrelated = relearning_data(model, "relearning.unrelated", "both", 0)
    assert unrelated.records
    assert not {record.record_id for record in unrelated.records} & {*hospital.record}
    redrawn = relearning_data(model, "relearning.syntax", "both", 0)
    by_id = {record.record_id: record for record in redrawn.records}
    assert {hospital.subject(name) for name in by_id} == forgotten
    for name, record in by_id.items():
        own = hospital.record[name]
        assert record.text != own.text
        assert not [one for one in own.identifiers if one.type == "name" and one.value in record.text]
