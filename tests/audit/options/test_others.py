"""Servers and stored responses: what is sent, what may not be, what is kept, and what has no score."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from row_files import write_lines

from medunlearn.audit.options.option_audit import audit_options
from medunlearn.audit.options.option_prompts import remove_one
from medunlearn.errors import ConfigError, InputError, MedunlearnError, SourceError
from medunlearn.sources.multiple_choice import read_options


@pytest.fixture
def removed(question_file: Path) -> dict[str, str]:
    """Question's text -> the option that is removed from it."""
    return {
        removal.question.question: removal.text for removal in remove_one(read_options(question_file).questions)
    }


def knows(removed: dict[str, str], *grades: int) -> Any:
    """A model that has memorized the options of some questions, and says something else otherwise."""

    def answer(body: dict[str, Any]) -> str:
        text = str(body["prompt"]) if "prompt" in body else body["messages"][-1]["content"]
        (question, grade), *_ = re.findall(r"(What helps against \w+ of grade (\d+)\?)", text)
        return f"It is {removed[question]}, of course." if int(grade) in grades else "Nothing."

    return answer


class TestServer:
    def test_chat(self, question_file: Path, removed: dict[str, str], tmp_path: Path) -> None:
        with FakeServer(answer=knows(removed, 1, 4)) as server:
            llm = {"base_url": server.base_url, "model": "m"}
            result = audit_options(None, question_file, out=tmp_path / "a", llm=llm, prompts="another", quiet=True)
            assert server.count == 20
            body = server.seen[0][0]
            again = audit_options(None, question_file, out=tmp_path / "a", llm=llm, prompts="another", quiet=True)
            assert server.count == 20
        assert body["messages"][0]["role"] == "user"
        assert (body["temperature"], body["max_tokens"]) == (0.0, 32)
        table = result.table().set_index(["prompt", "measure"])
        assert table.loc[("another", "relaxed"), "value"] == pytest.approx(2 / 20)
        assert table.loc[("another", "exact"), "value"] == 0.0
        assert table.loc[("", "accuracy_text.no_end"), "n_unscored"] == 20
        assert ("", "accuracy_text") not in table.index
        assert set(result.choices["reason"]) == {"api=chat gives no probabilities of options"}
        assert again.options.equals(result.options)
        assert result.label == "m"

    def test_chat_takes_instructions_alone(self, question_file: Path, tmp_path: Path) -> None:
        llm = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
        with pytest.raises(
            ConfigError, match="prompts=continue: a prompt that is continued needs --api completions"
        ):
            audit_options(None, question_file, out=tmp_path / "a", llm=llm, prompts="another,continue", quiet=True)

    def test_completions_with_the_options_probabilities(
        self, question_file: Path, removed: dict[str, str], tmp_path: Path
    ) -> None:
        with FakeServer(answer=knows(removed)) as server:
            llm = {"base_url": server.base_url, "model": "m"}
            how: dict[str, Any] = {"api": "completions", "limit": 4, "prompts": "in_place", "quiet": True}
            result = audit_options(None, question_file, out=tmp_path / "a", llm=llm, **how)
            bodies = [body for body, _ in server.seen]
        assert len(bodies) == 4 + 2 * 4 * 4
        echoed = [body for body in bodies if body.get("echo")]
        assert {(body["max_tokens"], body["logprobs"]) for body in echoed} == {(0, 0)}
        # The pretended server parts tokens at spaces, so that none begins where an option does.
        assert set(result.choices["reason"]) == {"the server's tokens do not part where an option begins"}

    def test_what_is_read_of_an_echo(self) -> None:
        from medunlearn.generation.echoed_options import option_log_probs
        from medunlearn.llm import LogProbs

        # "Q:" and " big dog", then what the server said itself.
        log_probs = LogProbs(("Q", ":", " big", " dog", "."), (None, -1.0, -2.0, -4.0, -9.0), (0, 1, 2, 6, 10))
        assert option_log_probs(log_probs, 2, 8) == (-2.0, -4.0)
        assert option_log_probs(log_probs, 3, 8) == ()
        assert option_log_probs(None, 2, 8) == ()

    def test_a_server_that_fails_ends_the_run_and_it_goes_on(
        self, question_file: Path, removed: dict[str, str], tmp_path: Path
    ) -> None:
        llm = {"model": "m", "retries": 0, "concurrency": 1, "give_up_after": 1}
        how: dict[str, Any] = {"out": tmp_path / "a", "limit": 5, "prompts": "fill_in", "quiet": True}
        how["allow_broken"] = True  # it says "Nothing." to each
        with (
            FakeServer(["well", "well", "error_500"], answer=knows(removed)) as server,
            pytest.raises(MedunlearnError, match=r"3 of 5 responses are missing"),
        ):
            audit_options(None, question_file, llm={**llm, "base_url": server.base_url}, **how)
        with FakeServer(answer=knows(removed)) as server:
            result = audit_options(None, question_file, llm={**llm, "base_url": server.base_url}, **how)
            assert server.count == 3
        assert result.options["exact"].notna().all()

    def test_questions_that_are_not_said_to_be_open_stay_here(self, question_file: Path, tmp_path: Path) -> None:
        llm = {"base_url": "https://models.example/v1", "model": "m"}
        with pytest.raises(InputError, match="it stays here"):
            audit_options(None, question_file, out=tmp_path / "a", llm=llm)
        assert not (tmp_path / "a").exists()


class TestStored:
    def put(self, path: Path, rows: list[dict[str, Any]]) -> Path:
        write_lines(path, rows)
        return path

    def test_each_row_is_scored_against_its_own_question(self, question_file: Path, tmp_path: Path) -> None:
        removals = remove_one(read_options(question_file).questions)
        other = "B" if removals[3].letter == "A" else "A"
        rows = [
            {"question_id": removals[0].question.question_id, "response": removals[0].text.upper()},
            {"question_id": removals[1].question.question_id, "response": f"perhaps {removals[1].text}?"},
            {"question_id": removals[2].question.question_id, "response": None},
            {"question_id": removals[3].question.question_id, "response": "x", "removed": other},
            {"question_id": removals[4].question.question_id, "response": "x", "removed": removals[4].letter},
        ]
        stored = self.put(tmp_path / "said.jsonl", rows[::-1])
        result = audit_options(None, question_file, out=tmp_path / "a", responses=stored, quiet=True)
        table = result.options.set_index("question_id")
        assert len(table) == 20
        names = [removal.question.question_id for removal in removals]
        assert [tuple(table.loc[name, ["exact", "relaxed"]]) for name in names[:2]] == [(True, True), (False, True)]
        assert table.loc[names[4], "exact"] == False  # noqa: E712
        assert table.loc[names[2:4], "reason"].tolist() == [
            "there is no response",
            "another option was removed than seed=0 draws",
        ]
        assert set(table.loc[names[5:], "reason"]) == {"there is no response"}
        assert set(result.options["prompt"]) == {"stored"}
        whole = result.table().set_index("measure")
        assert (whole.loc["exact", "n"], whole.loc["exact", "n_unscored"]) == (3, 17)
        assert whole.loc["exact", "value"] == pytest.approx(1 / 3)

    def test_several_prompts_and_what_is_refused(self, question_file: Path, tmp_path: Path) -> None:
        rows = [{"question_id": "i00", "response": "x", "prompt": name} for name in ("one", "two")]
        stored = self.put(tmp_path / "said.jsonl", rows)
        result = audit_options(None, question_file, out=tmp_path / "a", responses=stored, prompts="two", quiet=True)
        assert set(result.options["prompt"]) == {"two"}
        stored = self.put(tmp_path / "said.jsonl", [*rows, rows[1]])
        with pytest.raises(SourceError, match=r"said\.jsonl:3: question 'i00' is answered twice for prompt 'two'"):
            audit_options(None, question_file, out=tmp_path / "b", responses=stored, quiet=True)
        stored = self.put(tmp_path / "said.jsonl", [{"question_id": "i00"}])
        with pytest.raises(SourceError, match="lacks the columns response"):
            audit_options(None, question_file, out=tmp_path / "c", responses=stored, quiet=True)
        with pytest.raises(SourceError, match="There is no file"):
            audit_options(None, question_file, out=tmp_path / "d", responses=tmp_path / "none.csv", quiet=True)
