"""The reconstruction attack's contexts and numbers, worked out by hand; on a hierarchy of 2 x 2 x 2."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from medunlearn.attacks.reconstruction.contexts import ContextLevel, NodeNames, attacked_questions
from medunlearn.attacks.reconstruction.reconstruction_results import (
    compare_models,
    context_scores,
    reported,
    summarize_contexts,
)
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question, Record
from medunlearn.data.splits import Split, request
from medunlearn.errors import InputError

LEVELS = ("institution", "patient", "section")
NODES = [f"{i}{p}{s}" for i in "AB" for p in "12" for s in "xy"]


def benchmark() -> Benchmark:
    """Institutions A and B, two patients each, two sections each; a question on every section."""
    records, questions = [], []
    for node in NODES:
        groups = {"institution": node[0], "patient": node[:2], "section": node}
        records.append(Record(node, f"Section {node} says {node}.", groups))
        questions.append(Question(f"q{node}", node, "train", "generation", "section", f"What of {node[2]}?", node))
    made = Benchmark("b", "own", LEVELS, "patient", tuple(records), tuple(questions), {})
    split = request(made.hierarchy, "gone", "patient", ["A1"])
    return Benchmark("b", "own", LEVELS, "patient", tuple(records), tuple(questions), {"gone": split})


def test_names_come_one_level_at_a_time_and_the_finest_only_where_it_is_the_subject() -> None:
    bench = benchmark()
    found = NodeNames.of(bench)
    contexts = found.contexts()
    assert [one.name for one in contexts] == ["none", "patient", "institution"]
    assert [one.identifiers for one in contexts] == ["", "patient", "institution + patient"]
    question = bench.questions[0]
    shown = [found.in_front(question, one).question for one in contexts]
    assert shown == ["What of x?", "For patient A1: What of x?", "For institution A, patient A1: What of x?"]
    assert found.in_front(question, contexts[0]) is question


def test_names_that_identity_questions_tell_are_taken_for_those_of_the_nodes() -> None:
    bench = benchmark()
    told = {"Elm Hospital": {"institution": "A"}, "Pat Doe": {"institution": "A", "patient": "A1"}}
    records = [Record(f"who {name}", name, groups) for name, groups in told.items()]
    asked = [
        Question(f"i {name}", f"who {name}", "train", "identity", [*groups][-1], "?", name)
        for name, groups in told.items()
    ]
    records, questions = (*bench.records, *records), (*bench.questions, *asked)
    full = replace(bench, subject_level="institution", records=records, questions=questions)
    names, questions, left_out = attacked_questions(full, full.split("gone"), ("forget", "retain"))
    assert names.levels == ("institution", "patient")
    # Who somebody is is no question of the attack.
    assert [question.question_id for question in questions] == [f"q{node}" for node in NODES]
    assert left_out == 0
    last = names.contexts()[-1]
    assert names.in_front(full.questions[0], last).question == (
        "For institution Elm Hospital, patient Pat Doe: What of x?"
    )


def test_a_disease_and_its_patients_are_named_by_their_nodes() -> None:
    notes = [Record(f"n{p}", "note", {"disease": "Cancer", "patient": p}) for p in ("p1", "p2")]
    bench = Benchmark("b", "amnesia", ("disease", "patient"), "patient", tuple(notes), (), {})
    assert [one.identifiers for one in NodeNames.of(bench).contexts()] == ["", "patient", "disease + patient"]


def test_what_cannot_be_attacked_is_refused() -> None:
    bench = benchmark()
    flat = Benchmark("b", "own", ("section",), "patient", bench.records, bench.questions, {})
    with pytest.raises(InputError, match="nothing to name"):
        attacked_questions(flat, flat.split("patient=A1"), ("forget",))
    silent = Benchmark("b", "own", LEVELS, "patient", bench.records, (), bench.splits)
    with pytest.raises(InputError, match="no question"):
        attacked_questions(silent, silent.split("gone"), ("forget",))


NONE, PATIENT = ContextLevel(()), ContextLevel(("patient",))
LABELS = pd.DataFrame(
    {
        "item": ["a", "b", "c"],
        "subject": ["p", "p", "q"],
        "side": "forget",
        "fold": "train",
        "kind": ["cloze", "cloze", "cloze"],
    }
)
GONE = Split("gone", "study", ("s1",), ("s2",))


def scores(*columns: list[float | None]) -> pd.DataFrame:
    """Exact match of three questions with nothing in front, and with the patient."""
    tables = [
        pd.DataFrame({"question_id": ["a", "b", "c"], "metric": "exact_match"}).assign(
            value=pd.array(values, dtype="Float64"),
            reason=[None if value is not None else "why" for value in values],
        )
        for values in columns
    ]
    return pd.concat(
        [context_scores(table, LABELS, level) for table, level in zip(tables, (NONE, PATIENT), strict=True)],
        ignore_index=True,
    )


def test_rows_are_those_that_the_package_promises() -> None:
    found = scores([0.0, 0.0, None], [1.0, 0.0, 1.0])
    assert list(found) == [
        *("item", "subject", "measure", "value", "reason"),
        *("side", "fold", "kind", "given", "identifiers", "attack"),
    ]
    summary = summarize_contexts(found, GONE, replicates=50, seed=0)
    assert list(summary) == [
        *("split", "forgotten_level", "side", "fold", "kind", "context", "identifiers", "measure"),
        *("value", "low", "high", "n_scored", "n_unscored", "n_subjects"),
        *("change", "change_low", "change_high", "change_p"),
    ]
    assert set(summary["forgotten_level"]) == {"study"}


def test_means_and_changes_by_hand() -> None:
    found = summarize_contexts(scores([0.0, 0.0, None], [1.0, 0.0, 1.0]), GONE, replicates=50, seed=0)
    rows = {row["context"]: row for row in reported(found).to_dict("records")}
    assert rows["none"]["value"] == 0.0
    assert rows["patient"]["value"] == pytest.approx(2 / 3)
    assert (rows["none"]["n_scored"], rows["none"]["n_unscored"], rows["none"]["n_subjects"]) == (2, 1, 1)
    # Only a and b have a score with nothing in front: (1 - 0 + 0 - 0) / 2.
    assert rows["patient"]["change"] == pytest.approx(0.5)
    assert pd.isna(rows["none"]["change"])


def test_models_are_compared_on_the_questions_that_both_were_asked() -> None:
    ours, theirs = scores([1.0, 0.0, 1.0], [1.0, 1.0, 1.0]), scores([0.0, 0.0, 1.0], [1.0, 0.0, None])
    rows = reported(compare_models(ours, theirs, replicates=50, seed=0)).to_dict("records")
    found = {row["context"]: (row["difference"], row["n_pairs"]) for row in rows}
    assert found == {"none": (pytest.approx(1 / 3), 3), "patient": (pytest.approx(1 / 2), 2)}


def test_a_change_is_read_against_the_other_model_s_own() -> None:
    """Ours rises by one half under the longer prompt where theirs falls by one half; c has no score of theirs."""
    ours, theirs = scores([1.0, 0.0, 1.0], [1.0, 1.0, 1.0]), scores([1.0, 0.0, 1.0], [0.0, 0.0, None])
    rows = reported(compare_models(ours, theirs, replicates=50, seed=0)).to_dict("records")
    found = {row["context"]: row["change_difference"] for row in rows}
    assert found["patient"] == pytest.approx(1.0)
    assert pd.isna(found["none"])
    plain = [table[table["given"] == "none"] for table in (ours, theirs)]
    assert compare_models(*plain, replicates=50, seed=0)["change_difference"].isna().all()


def test_each_kind_of_question_is_reported_by_its_own_measure() -> None:
    kinds = ["cloze", "cloze", "generation", "factual", "factual", "all"]
    metrics = ["exact_match", "rouge_l", "rouge_l_f", "rouge_l", "option_accuracy", "rouge_l"]
    table = pd.DataFrame({"kind": kinds, "measure": metrics})
    assert reported(table)["measure"].tolist() == ["exact_match", "rouge_l_f", "rouge_l"]
