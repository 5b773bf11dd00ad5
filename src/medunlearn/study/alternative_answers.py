"""Answers that a method learns instead of the true ones: made before the first step, and stored for the run.

A method's ``answers`` names where they come from:

- ``strangers``: the target's answers about people it never saw (:mod:`medunlearn.generation.counterfactuals`);
- ``refusal``: refusals of our own words (:mod:`medunlearn.data.refusals`), after a question, or after the sentence
  of a note that names the patient;
- the name of a JSONL file, an answer a row: ``{"question_id": ..., "answer": ...}``, or ``{"question": ...}`` with
  the question's text; several rows on one question are several answers. Notes have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from medunlearn.data.alternatives import pool_of
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.refusals import TEXTS
from medunlearn.data.storage import make_folder, read_table, sha256_of, write_table
from medunlearn.errors import ConfigError, InputError
from medunlearn.generation.counterfactuals import Counterfactuals, answer_sequences, counterfactuals
from medunlearn.generation.forget_passages import ForgetPassage, passage_of
from medunlearn.generation.value_caps import VERSION as CAPS
from medunlearn.methods.protocol import REFUSAL, STRANGERS, AlternativesMethod, answers_of
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import Rendering, TokenSequence
from medunlearn.probes.material import record_of
from medunlearn.progress import progress, remark
from medunlearn.seeds import generator
from medunlearn.sources.table_files import read_rows

SIDE = "alternatives"
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("caps", pa.list_(pa.float64())),
        ("floors", pa.list_(pa.float64())),
        ("ids", pa.list_(pa.list_(pa.int64()))),
        ("shared", pa.list_(pa.int32())),
        ("scored_from", pa.list_(pa.int32())),
    ]
)
"""One row per forget sequence; the last three have one entry per alternative. Ids of picture tokens take 64 bits.
"""

Partners = Mapping[str, Sequence[TokenSequence]]


class NoAlternativesError(InputError):
    """A method that learns alternative answers has none for the whole forget set."""


def check_rendering(method: object, rendering: Rendering, name: str) -> None:
    """Refuse a method that learns answers about strangers if the prompt contains the true ones.

    Raises:
        InputError: names a suitable context.
    """
    strange = isinstance(method, AlternativesMethod) and answers_of(method) == STRANGERS
    if strange and rendering.context == "note":
        raise InputError(
            f"{name} learns answers about strangers, and in note context the patient's own note is in the prompt. "
            "Use --context closed_book."
        )


def with_alternatives(
    forget: Sequence[TokenSequence],
    benchmark: Benchmark,
    method: AlternativesMethod,
    language_model: LanguageModel,
    rendering: Rendering,
    *,
    seed: int,
    keep_in: Path | None = None,
    title: str = "",
    quiet: bool = True,
) -> tuple[list[TokenSequence], Partners]:
    """The forget sequences, with caps if the method uses them, and the alternatives of each.

    Sequences without alternatives are dropped, with a message.

    Args:
        language_model: the target.
        keep_in: file that stores the result, and from which a resumed run reads it.

    Raises:
        NoAlternativesError: no sequence has an alternative.
    """
    answers = None if keep_in is None or not keep_in.exists() else _read(keep_in)
    if answers is None:
        passages = [_passage(sequence, benchmark, language_model) for sequence in forget]
        with progress(f"{title}: alternative answers", len(passages), quiet=quiet) as advance:
            make = _MAKERS.get(answers_of(method), _from_file)
            answers = make(_Wanted(passages, benchmark, method, language_model, rendering, seed, advance))
        if keep_in is not None:
            _write(keep_in, answers)
    capped = [
        replace(s, caps=answers.caps.get(s.key, ()), floors=answers.floors.get(s.key, ()))
        for s in forget
        if answers.alternatives[s.key]
    ]
    if not capped:
        raise NoAlternativesError(f"{title}: no alternative answers are possible: {_why_none(method)}")
    if missing := len(forget) - len(capped):
        remark(f"{title}: {missing} of {len(forget)} forget sequences have no alternative answer.")
    return capped, {sequence.key: answers.alternatives[sequence.key] for sequence in capped}


@dataclass(frozen=True)
class _Wanted:
    """Passages to make answers for, and what answers are made from."""

    passages: Sequence[ForgetPassage]
    benchmark: Benchmark
    method: AlternativesMethod
    language_model: LanguageModel
    rendering: Rendering
    seed: int
    advance: Callable[[int], None]

    def learned(self, texts_of: Callable[[ForgetPassage], Sequence[str]]) -> Counterfactuals:
        """Answers with the texts of each passage, without caps."""
        sequences: dict[str, tuple[TokenSequence, ...]] = {}
        for passage in self.passages:
            texts = texts_of(passage)
            key = passage.sequence.key
            sequences[key] = answer_sequences(self.language_model, self.rendering, passage, texts)
            self.advance(1)
        return Counterfactuals(sequences, {}, {})


def _strangers(wanted: _Wanted) -> Counterfactuals:
    method = wanted.method
    return counterfactuals(
        wanted.language_model,
        wanted.passages,
        pool_of(wanted.benchmark, max(method.alternatives, 9)),
        wanted.rendering,
        method.alternatives,
        capped=method.capped,
        whole_values=_has_whole_values(method),
        seed=wanted.seed,
        advance=wanted.advance,
    )


def _refusals(wanted: _Wanted) -> Counterfactuals:
    """Refusals in an order of each passage's own, begun again where more are wanted than there are."""

    def texts_of(passage: ForgetPassage) -> list[str]:
        order = generator("refusals", wanted.seed, passage.sequence.key).permutation(len(TEXTS)).tolist()
        return [TEXTS[order[place % len(order)]] for place in range(wanted.method.alternatives)]

    return wanted.learned(texts_of)


def _from_file(wanted: _Wanted) -> Counterfactuals:
    """The first answers of a user's file for each question."""
    texts = read_answers(Path(answers_of(wanted.method)))

    def texts_of(passage: ForgetPassage) -> Sequence[str]:
        question = passage.question
        if question is None:
            return ()
        answers = texts.get(question.question_id) or texts.get(question.question) or ()
        return answers[: wanted.method.alternatives]

    return wanted.learned(texts_of)


_MAKERS: Mapping[str, Callable[[_Wanted], Counterfactuals]] = {STRANGERS: _strangers, REFUSAL: _refusals}


def read_answers(path: Path) -> dict[str, list[str]]:
    """Answers of a user's file, by the id or the text of their question, in the file's order.

    Raises:
        InputError: no such file, or a row without question or answer.
    """
    answers: dict[str, list[str]] = {}
    for place, row in read_rows(path):
        values = row if isinstance(row, Mapping) else {}
        name, text = values.get("question_id") or values.get("question"), values.get("answer")
        if not isinstance(name, str) or not isinstance(text, str) or not text.strip():
            raise InputError(f'{place}: a row must be {{"question_id": ..., "answer": ...}}, both texts.')
        answers.setdefault(name, []).append(text.strip())
    return answers


def answers_inputs(method: object, name: str) -> dict[str, str]:
    """The digest of a method's file of answers, or the version of its whole-value caps, for the key of a run.

    Raises:
        ConfigError: neither a word nor a file, or caps are wanted of answers that are not about strangers.
    """
    if not isinstance(method, AlternativesMethod):
        return {}
    if answers_of(method) == STRANGERS:
        return {"caps": str(CAPS)} if _has_whole_values(method) else {}
    if method.capped:
        raise ConfigError([f"{name}.answers must be {STRANGERS}: its caps are likelihoods for strangers"])
    if answers_of(method) in _MAKERS:
        return {}
    path = Path(answers_of(method))
    if not path.is_file():
        words = " or ".join(_MAKERS)
        raise ConfigError([f"{name}.answers={str(path)!r} is neither {words} nor a file of answers"])
    read_answers(path)
    return {"answers": sha256_of(path)}


def _has_whole_values(method: AlternativesMethod) -> bool:
    return bool(getattr(method, "whole_values", False))


def _why_none(method: AlternativesMethod) -> str:
    if answers_of(method) in _MAKERS:
        return (
            "no prompt names a person, and no answer has a value. Choose another method, or build the benchmark "
            "with identifiers."
        )
    return f"no question of the forget set is in {answers_of(method)}. Its rows name questions by id or text."


def _passage(sequence: TokenSequence, benchmark: Benchmark, language_model: LanguageModel) -> ForgetPassage:
    question, record = benchmark.question.get(sequence.key), benchmark.record[record_of(sequence, benchmark)]
    return passage_of(sequence, record, question, language_model.tokenizer)


def _write(path: Path, answers: Counterfactuals) -> None:
    make_folder(path.parent)
    rows = [
        {
            "key": key,
            "caps": list(answers.caps.get(key, ())),
            "floors": list(answers.floors.get(key, ())),
            "ids": [list(sequence.ids) for sequence in alternatives],
            "shared": [sequence.shared for sequence in alternatives],
            "scored_from": [sequence.scored_from for sequence in alternatives],
        }
        for key, alternatives in answers.alternatives.items()
    ]
    write_table(path, rows, _SCHEMA)


def _read(path: Path) -> Counterfactuals:
    alternatives = dict[str, tuple[TokenSequence, ...]]()
    caps, floors = dict[str, tuple[float, ...]](), dict[str, tuple[float, ...]]()
    for row in read_table(path, _SCHEMA):
        key, columns = row["key"], zip(row["ids"], row["shared"], row["scored_from"], strict=True)
        caps[key], floors[key] = tuple(row["caps"]), tuple(row["floors"])
        alternatives[key] = tuple(
            TokenSequence(f"{key}~{place}", tuple(ids), shared, scored_from)
            for place, (ids, shared, scored_from) in enumerate(columns)
        )
    return Counterfactuals(alternatives, caps, floors)
