"""A server and stored responses are evaluated like a model on this machine, as far as text goes."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from fake_server import FakeServer

import medunlearn as mu
from medunlearn.data import responses, storage
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import ResponseStore
from medunlearn.errors import ConfigError, InputError, MedunlearnError, SourceError, StorageError
from medunlearn.results.evaluated import Evaluated, Evaluation
from medunlearn.study.report.gather import gather
from medunlearn.study.rescore import score

MOST = 8
HOW: dict[str, Any] = {
    "split": "random_10",
    "replicates": 20,
    "limit": 1,
    "max_new_tokens": MOST,
    "template": "plain",
}
"""Of tables: none is written over."""
QUIET: dict[str, Any] = {**HOW, "allow_broken": True, "quiet": True}
TEXT = ("rouge_l", "token_f1", "exact_match")
MORE = ("em", "te", "ranked_first")


@pytest.fixture(scope="module")
def here(tiny_base: Any, hospital: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """A model that answers each question in another way, evaluated on this machine."""
    folder = tmp_path_factory.mktemp("here")
    tiny_base.save(folder / "model")
    run = mu.adopt(folder / "model", hospital, out=folder / "run", sample=1, allow_broken=True, quiet=True)
    [one] = mu.evaluate(run, hospital, metrics=(*TEXT, *MORE), **QUIET).models
    assert len({response.response for response in one.responses.values()}) > len(one.responses) / 2
    return one


@pytest.fixture(scope="module")
def says(tiny_base: Any) -> Callable[[dict[str, Any]], str]:
    """The same model as a server runs it: it continues a text, or answers in its chat template."""
    from medunlearn.generation.decode import decode
    from medunlearn.models.chat import fill_template
    from medunlearn.models.sequences import begin_tokens, encode

    model = tiny_base

    def answer(body: dict[str, Any]) -> str:
        if "messages" in body:
            ids = encode(model.tokenizer, fill_template(model.tokenizer, body["messages"][0]["content"]))
        else:
            ids = [*begin_tokens(model.tokenizer), *encode(model.tokenizer, body["prompt"])]
        [[(_, answer)]] = decode(model, [ids], max_new_tokens=body["max_tokens"], batch_size=1)
        return str(model.tokenizer.decode(list(answer.tokens), skip_special_tokens=True))

    return answer


def rows_of(here: Evaluated) -> list[dict[str, Any]]:
    return [{"question_id": name, "response": given.response} for name, given in here.responses.items()]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def evaluated(source: object, hospital: Benchmark, folder: Path, **settings: Any) -> Evaluation:
    how = {**QUIET, "metrics": (*TEXT, *MORE), **settings}
    return mu.evaluate(str(source), hospital, out=folder / "table.csv", overwrite=True, **how)


def assert_text_is_equal(one: Evaluated, here: Evaluated) -> None:
    """Equal values of text measures; a row with a reason for everything else, in the same order."""
    texts = [{name: given.response for name, given in each.responses.items()} for each in (one, here)]
    assert texts[0] == texts[1]
    ours, theirs = one.scores, here.scores
    assert ours[["question_id", "measure"]].equals(theirs[["question_id", "measure"]])
    is_text = ours["measure"].isin(TEXT)
    assert is_text.sum() == 3 * len(here.responses)
    assert ours[is_text].equals(theirs[is_text])
    assert ours[~is_text]["value"].isna().all()
    assert ours[~is_text]["reason"].str.contains("text alone").all()
    numbers = [each.summary[each.summary["measure"].isin(TEXT)].reset_index(drop=True) for each in (one, here)]
    pd.testing.assert_frame_equal(*numbers, check_exact=True)


def test_a_served_model_has_the_text_measures_of_the_same_model_here(
    here: Evaluated, hospital: Benchmark, says: Any, tmp_path: Path
) -> None:
    with FakeServer(answer=says) as server:
        how = {"model_name": "m", "llm": {"concurrency": 2}}
        evaluation = evaluated(server.base_url, hospital, tmp_path, **how)
        asked = server.count
        evaluated(server.base_url, hospital, tmp_path, **how)
        assert server.count == asked == len(here.responses)
    [one] = evaluation.models
    assert_text_is_equal(one, here)
    assert one.record.info.results["respondent"]["guard"]["on_this_machine"]
    assert any("text alone (server)" in caveat for caveat in evaluation.caveats)
    [chat] = mu.evaluate(here.run, hospital, metrics=(*TEXT, *MORE), **{**QUIET, "template": "chat"}).models
    with FakeServer(answer=says) as server:
        evaluation = evaluated(server.base_url, hospital, tmp_path, model_name="m", template="chat")
    assert chat.scores["value"].tolist() != here.scores["value"].tolist()
    assert_text_is_equal(evaluation.models[0], chat)
    # The run alone is scored again and stands on the page of runs; it cannot answer anything new.
    again = score(one.run.folder, measures="te,rouge_l", allow_broken=True, benchmark=hospital)
    assert again.scores[again.scores["measure"] == "te"]["value"].isna().all()
    content = gather("Both", [here, one], hospital)
    assert any("text alone (server)" in caveat for caveat in content.caveats)
    with pytest.raises(InputError, match="holds no model"):
        evaluated(one.run.folder, hospital, tmp_path, limit=2)


def test_a_disk_that_fills_in_the_middle_of_a_join_loses_no_answer(
    here: Evaluated, hospital: Benchmark, says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list[int]()

    def refuse(part: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(part))

    class Filling(pq.ParquetWriter):  # type: ignore[misc]
        def write_table(self, table: Any, *how: Any, **more: Any) -> None:
            super().write_table(table, *how, **more)
            rows.append(len(table))
            patch.setattr(storage, "_create", refuse)  # nothing else fits either
            refuse(Path(str(self.where)))

    with FakeServer(answer=says) as server:
        how = {"model_name": "m", "llm": {"concurrency": 2}}
        with monkeypatch.context() as patch:
            patch.setattr(responses, "JOINED_FROM", 1)
            patch.setattr(pq, "ParquetWriter", Filling)
            with pytest.raises(StorageError, match="disk is full"):
                evaluated(server.base_url, hospital, tmp_path, **how)
        assert rows
        assert server.count == len(here.responses)
        [one] = evaluated(server.base_url, hospital, tmp_path, **how).models
        assert server.count == len(here.responses)
    assert_text_is_equal(one, here)
    assert not [*tmp_path.rglob(".*.part")]


def test_stored_responses_have_the_text_measures_of_the_same_model_here(
    here: Evaluated, hospital: Benchmark, tmp_path: Path
) -> None:
    file = write(tmp_path / "responses.jsonl", rows_of(here))
    [one] = evaluated(file, hospital, tmp_path).models
    assert_text_is_equal(one, here)
    table = pd.DataFrame(rows_of(here)).rename(columns={"question_id": "id", "response": "output"})
    table.iloc[::-1].to_parquet(tmp_path / "b.parquet")
    against = mu.evaluate(
        here.run, hospital, against=[tmp_path / "b.parquet"], out=tmp_path / "t.csv", metrics=TEXT, **QUIET
    )
    assert not against.comparisons["difference"].any()


def test_stored_responses_are_evaluated_without_torch(here: Evaluated, hospital: Benchmark, tmp_path: Path) -> None:
    write(tmp_path / "responses.jsonl", rows_of(here))
    hospital.save(tmp_path / "bench")
    script = (
        "import sys, medunlearn as mu\n"
        f"mu.evaluate('responses.jsonl', 'bench', metrics='rouge_l,em', **{QUIET!r})\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [*rows, {**rows[0], "question_id": "nobody/1"}], "1 rows of .* name no question"),
        (lambda rows: [*rows, rows[0]], "answered twice"),
        (lambda rows: [{"question_id": rows[0]["question_id"]}], "has no response"),
        (lambda rows: [{"response": "yes"}], "has no question_id"),
    ],
)
def test_responses_that_do_not_fit_the_benchmark_are_refused(
    here: Evaluated, hospital: Benchmark, tmp_path: Path, change: Any, message: str
) -> None:
    file = write(tmp_path / "responses.jsonl", change(rows_of(here)))
    with pytest.raises(SourceError, match=message):
        evaluated(file, hospital, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["responses.jsonl"]


def test_responses_to_other_probes_alone_are_refused(here: Evaluated, hospital: Benchmark, tmp_path: Path) -> None:
    asked = {*here.responses}
    other = next(q.question_id for q in hospital.questions if q.question_id not in asked)
    file = write(tmp_path / "responses.jsonl", [{"question_id": other, "response": "yes"}])
    with pytest.raises(SourceError, match="none of the"):
        evaluated(file, hospital, tmp_path)


def test_probes_without_a_response_are_unscored(here: Evaluated, hospital: Benchmark, tmp_path: Path) -> None:
    rows = rows_of(here)
    empty, gone = rows[0]["question_id"], rows[1]["question_id"]
    file = write(tmp_path / "responses.jsonl", [{**rows[0], "response": None}, *rows[2:]])
    evaluation = evaluated(file, hospital, tmp_path)
    [one] = evaluation.models
    scores = one.scores[one.scores["measure"] == "rouge_l"].set_index("question_id")
    assert list(scores.index) == list(here.scores[here.scores["measure"] == "rouge_l"]["question_id"])
    assert scores["value"].isna().sum() == 2
    assert "holds no response" in scores.loc[empty, "reason"]
    assert "no row of this probe" in scores.loc[gone, "reason"]
    assert any("2 questions without a response" in caveat for caveat in evaluation.caveats)
    again = score(one.run.folder, measures="rouge_l,exact_match", allow_broken=True, benchmark=hospital).scores
    assert again[again["measure"] == "rouge_l"].set_index("question_id").equals(scores)
    assert mu.verify([one.run.folder]).wrong == []


def test_what_no_measure_can_use_is_said_before_anything_is_asked(hospital: Benchmark, tmp_path: Path) -> None:
    with FakeServer() as server:
        with pytest.raises(ConfigError, match=r"metrics=em: .*choices under teacher forcing"):
            evaluated(server.base_url, hospital, tmp_path, model_name="m", metrics=MORE)
        with pytest.raises(ConfigError, match="image_control"):
            evaluated(server.base_url, hospital, tmp_path, model_name="m", image_control=True)
        with pytest.raises(ConfigError, match="--model-name is missing"):
            evaluated(server.base_url, hospital, tmp_path)
        assert server.count == 0


def test_a_server_that_fails_is_asked_again_for_the_rest(
    here: Evaluated, hospital: Benchmark, says: Any, tmp_path: Path
) -> None:
    first = next(iter(here.responses))
    wording = hospital.question[first].question

    def behave(body: dict[str, Any], nth: int) -> str:
        return "error_500" if wording in body["prompt"] else "well"

    llm = {"retries": 0, "backoff_seconds": 0}
    with FakeServer(behave, answer=says) as server:
        how: dict[str, Any] = {"model_name": "m", "llm": llm}
        with pytest.raises(MedunlearnError, match="--allow-missing"):
            evaluated(server.base_url, hospital, tmp_path, **how)
        asked = server.count
        evaluation = evaluated(server.base_url, hospital, tmp_path, allow_missing=True, **how)
        assert server.count == asked + 1
    [one] = evaluation.models
    missing = {hospital.question[name].question for name in one.without_response}
    assert missing == {wording}
    with FakeServer(answer=says) as server:
        [whole] = evaluated(server.base_url, hospital, tmp_path, model_name="m").models
        assert server.count == len(one.without_response)
    assert whole.record.folder == one.record.folder
    assert whole.without_response == {}
    assert_text_is_equal(whole, here)


def test_what_a_server_filters_is_no_answer(hospital: Benchmark, tmp_path: Path) -> None:
    """Refused replies are unscored, where an answer without words has a recall of 0."""
    nth = iter(range(100))

    def behave(body: dict[str, Any], again: int) -> str:
        return ("refusal", "well")[next(nth) % 2]

    with FakeServer(behave, answer=lambda body: "") as server:
        llm = {"retries": 0, "corrections": 0, "concurrency": 1}
        how: dict[str, Any] = {"model_name": "m", "llm": llm, "allow_missing": True, "metrics": "rouge_l"}
        [one] = evaluated(server.base_url, hospital, tmp_path, **how).models
    assert 0 < len(one.without_response) < one.record.info.results["probe_set"]["count"]
    scores = one.scores.set_index("question_id")
    refused = [*one.without_response]
    assert scores.loc[refused, "value"].isna().all()
    assert set(scores.drop(index=refused)["value"]) == {0.0}


def test_protected_questions_stay_on_this_machine(hospital: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="allow-remote-llm"):
        evaluated("https://llm.example.org/v1", hospital, tmp_path, model_name="m")
    assert not [*tmp_path.rglob("part-*.parquet")]


def test_the_store_of_a_run_is_a_table_of_responses(here: Evaluated, hospital: Benchmark, tmp_path: Path) -> None:
    stored = ResponseStore.read_complete(here.responses_folder)
    [part] = here.responses_folder.glob("part-*.parquet")
    [one] = evaluated(part, hospital, tmp_path).models
    assert len(one.responses) == len(stored)
    assert_text_is_equal(one, here)
