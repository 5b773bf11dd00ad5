"""Recovery attacks on a run's model, one by one: applied in memory, measured, and undone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from medunlearn.attacks.model_holder import ModelHolder
from medunlearn.attacks.recovery.recovery_attacks import Quantization, RecoveryAttack, Relearning, RepeatedSampling
from medunlearn.attacks.recovery.recovery_results import (
    SUBJECTS,
    SUMMARY,
    facts_said,
    subject_means,
    summarize_strengths,
)
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.records import Question
from medunlearn.data.responses import Response
from medunlearn.data.storage import write_together
from medunlearn.errors import InputError
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.respond import sample_responses
from medunlearn.metrics.text import rouge_l_recalls
from medunlearn.models.quantization import round_weights
from medunlearn.pipeline.attacking.measuring import StateMeasurer, restored
from medunlearn.pipeline.attacking.relearning_run import items_of, rate_of, relearn
from medunlearn.pipeline.questioning import longest_answer, store_of
from medunlearn.progress import progress
from medunlearn.results.runs import Recording
from medunlearn.results.scores import question_labels, replace_scores, score_table
from medunlearn.statistics.best_of import any_of, best_of, extraction_probability

NO_ANSWER = "the reference answer has no token"
NOT_A_NUMBER = "the model gives no number (NaN)"
NOTHING_TO_ATTACK = "Nothing can be attacked by {}: {}."


def attack_recovery(holder: ModelHolder, attack: RecoveryAttack, recording: Recording) -> None:
    """Run one attack on a run's model and write its tables to the recording's folder.

    Raises:
        InputError: no question or no subject to attack; training that diverged is also an error.
    """
    settings, measurer = holder.settings, _open_measurer(holder, attack)
    folder, tables, notes = recording.folder, list[pd.DataFrame](), dict[str, str]()
    with recording.stage(attack.kind):
        for label, table, note in _states(measurer, attack):
            if note:
                notes[label] = note
            if table is not None:
                replace_scores(folder, table, attack=[label])
                tables.append(table)
    if not tables:
        raise InputError(NOTHING_TO_ATTACK.format(attack.kind, "; ".join(notes.values())))
    scores = score_table(pd.concat(tables, ignore_index=True))
    how: dict[str, Any] = {"replicates": settings.replicates, "seed": settings.seed}
    with recording.stage(f"score {attack.kind}"):
        summary = summarize_strengths(scores, attack.before, **how)
        subjects = subject_means(scores)
        files = {SUMMARY.format(attack.kind): summary, SUBJECTS.format(attack.kind): subjects}
        write_together({folder / name: frame.to_parquet for name, frame in files.items()})
    health, states = recording.info.results["health"], dict(measurer.problems)
    own = [problem for name in [*states] if name.endswith(f" {attack.before}") for problem in states.pop(name)]
    health["problems"] = list(dict.fromkeys([*health["problems"], *holder.model.problems, *own]))
    recording.info.results[attack.kind] = {
        "questions": int(scores["item"].nunique()),
        "subjects": int(scores["subject"].nunique()),
        "context": measurer.rendering.context,
        "notes": notes,
        "problems": {name: list(problems) for name, problems in states.items()},
        **_facts(measurer, attack),
    }


def ask_share(holder: ModelHolder, attack: RecoveryAttack) -> None:
    """Process this rank's share of an attack's questions, and store the answers for :func:`attack_recovery`.

    All questions on a record go to one process. Relearning has no share: rank 0 alone trains and asks.
    """
    if isinstance(attack, Relearning):
        return
    measurer, processes = _open_measurer(holder, attack), holder.processes
    records = list(dict.fromkeys(question.record_id for question in measurer.questions))
    share = {*records[processes.rank :: processes.world]}
    measurer.questions = [question for question in measurer.questions if question.record_id in share]
    if isinstance(attack, Quantization) and measurer.questions:
        _quantization_scores(measurer, attack)
    elif isinstance(attack, RepeatedSampling) and measurer.attacked:
        _sampled_responses(measurer, attack)


def _open_measurer(holder: ModelHolder, attack: RecoveryAttack) -> StateMeasurer:
    return StateMeasurer(holder.run, holder.benchmark, attack, holder.settings, holder.model, holder.silent)


def _facts(measurer: StateMeasurer, attack: RecoveryAttack) -> dict[str, Any]:
    if isinstance(attack, Relearning):
        taught = {"lr": rate_of(measurer.run, attack), "items": items_of(measurer.run, attack)}
        return {**taught, "steps": attack.steps, "batch_size": attack.batch_size}
    if isinstance(attack, RepeatedSampling):
        return {"samples": attack.samples, "temperature": attack.temperature, "top_p": attack.top_p}
    return {}


def _states(measurer: StateMeasurer, attack: RecoveryAttack) -> Iterator[tuple[str, pd.DataFrame | None, str]]:
    """Label, score table and note of each variant of an attack.

    Raises:
        InputError: a plug-in attack of one of these kinds that is not derived from ours.
    """
    if isinstance(attack, Relearning):
        yield from relearn(measurer, attack)
    elif isinstance(attack, Quantization):
        yield attack.kind, _quantization_scores(measurer, attack), ""
    elif isinstance(attack, RepeatedSampling):
        yield attack.kind, _sampling_scores(measurer, attack), ""
    else:
        raise InputError(
            f"{type(attack).__name__} is not a supported attack of kind {attack.kind}: derive it from ours."
        )


def _quantization_scores(measurer: StateMeasurer, attack: Quantization) -> pd.DataFrame:
    """Scores of both sides with the model's own weights and with rounded ones."""
    tables = [measurer.measure(measurer.questions, attack.kind, attack.before)]
    for kind in attack.strengths:
        with restored(measurer.live):
            round_weights(measurer.live.model, kind)
            tables.append(measurer.measure(measurer.questions, attack.kind, kind))
    return pd.concat(tables, ignore_index=True)


def _sampling_scores(measurer: StateMeasurer, attack: RepeatedSampling) -> pd.DataFrame:
    """Scores of the forget set: best of k, facts stated in k samples, and probability of the verbatim answer in k
    samples.
    """
    questions, benchmark = measurer.attacked, measurer.benchmark
    responses = _sampled_responses(measurer, attack)
    rows = [
        {"item": question.question_id, "attack": attack.kind, "strength": str(k), **row}
        for question in questions
        for k, row in _of_samples(question, responses[question.question_id], attack, benchmark)
    ]
    labels = question_labels(benchmark, benchmark.split(measurer.settings.split), questions)
    return score_table(pd.DataFrame(rows).merge(labels, on="item", how="left", validate="many_to_one"))


def _sampled_responses(measurer: StateMeasurer, attack: RepeatedSampling) -> dict[str, list[Response]]:
    questions, benchmark, live = measurer.attacked, measurer.benchmark, measurer.live
    limit = attack.max_new_tokens or longest_answer(live.tokenizer, benchmark)
    decoding = Decoding(attack.temperature, None, attack.top_p if attack.top_p < 1 else None)
    store = store_of(
        measurer.run,
        benchmark,
        measurer.evaluation,
        measurer.rendering,
        limit,
        folder=measurer.folder,
        decoding=f"{decoding.name}, seed {attack.seed}",
    )
    total = attack.samples * len(questions)
    with progress(f"{measurer.run.label}: samples", total, quiet=measurer.quiet) as advance:
        return sample_responses(
            live,
            questions,
            benchmark.record,
            store,
            measurer.rendering,
            decoding,
            samples=attack.samples,
            seed=attack.seed,
            max_new_tokens=limit,
            batch_size=measurer.settings.batch_size,
            advance=advance,
        )


def _of_samples(
    question: Question, responses: list[Response], attack: RepeatedSampling, benchmark: Benchmark
) -> Iterator[tuple[int, dict[str, Any]]]:
    texts = [response.response for response in responses]
    recalls = rouge_l_recalls(texts, [question.answer] * len(texts))
    hits = facts_said(question, benchmark.record[question.record_id].identifiers, texts)
    (*tokens, _) = responses[0].answer_log_probs or (0.0,)
    scored = [value for value in recalls if value is not None]
    for k in attack.numbers:
        yield k, _row("rouge_l", best_of(scored, k) if scored else None, NO_ANSWER)
        shares = [any_of(count, len(texts), k) for count in hits]
        yield k, _row("facts_said", sum(shares) / len(shares), "")
        yield k, _row("extraction", extraction_probability(sum(tokens), k) if tokens else None, NO_ANSWER)


def _row(measure: str, value: float | None, reason: str) -> dict[str, Any]:
    if value is not None and value != value:
        value, reason = None, NOT_A_NUMBER
    return {"measure": measure, "value": value, "reason": None if value is not None else reason}
