"""An audit's measures asked of a benchmark's questions: tokens and choices along the true answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.metrics.overlap import bleu, extraction_strength
from medunlearn.metrics.verbatim import longest_run
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.sequences import question_sequence
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.study.rescore import score

NAMES = ("longest_run", "run_30", "bleu", "extraction_strength", "em")


def test_an_unlearned_model_is_asked_as_an_audit_asks(
    hospital: Benchmark, copy: Callable[..., Run], tmp_path: Path
) -> None:
    """By hand from the stored responses; scored with the evaluation or later, the numbers are the same."""
    benchmark, run = Benchmark.load(hospital.save(tmp_path / "bench")), copy()
    values = {"split": "random_10", "replicates": 20, "max_new_tokens": 12, "allow_broken": True}
    settings = check(EvaluateSettings, {**values, "metrics": NAMES})
    evaluated = evaluate_one(run, benchmark, settings, quiet=True)
    tokenizer, rendering = load_tokenizer(run.model), run.rendering(None, None)
    table = evaluated.table.set_index(["measure", "item"])
    for name, response in evaluated.responses.items():
        question = benchmark.question[name]
        sequence = question_sequence(question, benchmark.record[question.record_id], tokenizer, rendering)
        tokens, reply = sequence.ids[sequence.scored_from : -1], response.response_tokens
        assert tokenizer.decode(tokens).strip() == question.answer
        assert table["value"]["longest_run", name] == longest_run(reply, tokens).length
        assert table["value"]["bleu", name] == bleu([reply[:100]], [tokens[:100]])[0]
        hits = list(response.answer_hits or ())
        assert len(hits) == len(tokens) + 1
        assert table["value"]["extraction_strength", name] == extraction_strength(hits[:-1])
        if len(tokens) < 30:
            assert table["reason"]["run_30", name] == "the reference has fewer than 30 tokens"
    assert table.loc["longest_run", "value"].max() >= 1
    later = copy("later")
    evaluate_one(later, benchmark, check(EvaluateSettings, {**values, "metrics": ["rouge_l"]}), quiet=True)
    again = score(later, measures=",".join(NAMES), allow_broken=True)
    assert isinstance(again, Evaluated)
    rows = again.table[again.table["measure"].isin(NAMES)].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, evaluated.table)
