"""Multiple-choice files: the published forms, what the answer may be written as, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medunlearn.errors import SourceError
from medunlearn.sources.multiple_choice import draw_sample, read_options

WriteFile = Callable[..., Path]
MEDQA = Path(__file__).parents[3] / "shared" / "data" / "medqa" / "questions.jsonl"


@pytest.fixture
def write_file(tmp_path: Path) -> WriteFile:
    def write(*rows: dict[str, Any] | str, name: str = "q.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    return write


def medmcqa(cop: int, **more: Any) -> dict[str, Any]:
    options = {"opa": "Aspirin", "opb": "Heparin", "opc": "Both", "opd": "None"}
    return {"question": "Which drug?", **options, "cop": cop, "subject_name": "Pharmacology", "exp": "...", **more}


def test_medqa(write_file: WriteFile) -> None:
    path = write_file(
        {
            "realidx": 7,
            "question": " Which drug? ",
            "answer": "Heparin",
            "options": {"B": "Heparin", "A": "Aspirin", "C": "Iron"},
            "answer_idx": "B",
        }
    )
    (question,) = read_options(path).questions
    assert (question.question_id, question.question, question.options) == (
        "7",
        "Which drug?",
        ("Aspirin", "Heparin", "Iron"),
    )
    assert (question.answer_index, question.gold, question.subject) == (1, "B", None)
    assert question.lines() == "A. Aspirin\nB. Heparin\nC. Iron"
    assert question.lines(without=1) == "A. Aspirin\nC. Iron"


@pytest.mark.parametrize(("numbers", "letters"), [((0, 3, 2), "ADC"), ((1, 4, 2), "ADB")])
def test_medmcqa_as_published_on_the_hub_and_by_its_authors(
    write_file: WriteFile, numbers: Any, letters: str
) -> None:
    questions = read_options(write_file(*(medmcqa(number, id=f"x{number}") for number in numbers))).questions
    assert "".join(str(question.gold) for question in questions) == letters
    assert questions[0].options == ("Aspirin", "Heparin", "Both", "None")
    assert {question.subject for question in questions} == {"Pharmacology"}


def test_numbers_that_may_count_from_0_or_1_must_be_said(write_file: WriteFile) -> None:
    path = write_file(medmcqa(1, id=1), medmcqa(2, id=2))
    with pytest.raises(SourceError, match=r"it is unknown whether A is 0 or 1\. Say it: --count-from 0"):
        read_options(path)
    assert [question.gold for question in read_options(path, count_from=0).questions] == ["B", "C"]
    assert [question.gold for question in read_options(path, count_from=1).questions] == ["A", "B"]
    # An answer that is the text of an option says nothing about where numbers start.
    doses = {"question": "How many?", "options": ["4", "6", "8", "9"], "answer": 4}
    with pytest.raises(SourceError, match="it is unknown whether A is 0 or 1"):
        read_options(write_file(medmcqa(1, id=1), doses))
    assert [question.gold for question in read_options(write_file(medmcqa(0, id=1), doses)).questions] == ["A", "A"]
    with pytest.raises(SourceError, match="some are 0 and some the number of options"):
        read_options(write_file(medmcqa(0, id=1), medmcqa(4, id=2)))


@pytest.mark.parametrize(
    ("row", "gold"),
    [
        ({"options": ["Yes", "No"], "answer": "No"}, "B"),
        ({"options": ["Yes", "No"], "answer": "b"}, "B"),
        ({"choices": {"text": ["Yes", "No"], "label": ["1", "2"]}, "answerKey": "A"}, "A"),
        ({"options": [{"key": "A", "value": "Yes"}, {"key": "B", "value": "No"}], "answer_idx": "A"}, "A"),
        ({"A": "Yes", "B": "No", "C": "", "answer": "B"}, "B"),
        ({"options": ["5", "12", "40"], "answer": 12}, "B"),
        ({"options": ["A", "B"], "answer": "B"}, "B"),
        ({"options": {"A": "Yes", "B": "No", "C": None}, "answer_idx": "B"}, "B"),
        ({"options": ["Yes", "No"]}, None),
    ],
)
def test_other_forms(write_file: WriteFile, row: dict[str, Any], gold: str | None) -> None:
    # A second question tells that whole numbers count from 0.
    other = {"id": "other", "question": "Which?", "options": ["x", "y"], "answer": 0}
    questions = read_options(write_file({"question": "Does it?", **row}, other)).questions
    assert (questions[0].question_id, questions[0].gold, questions[1].gold) == ("q00000", gold, "A")


def test_csv_and_parquet(write_file: WriteFile, tmp_path: Path) -> None:
    text = 'id,question,options,answer\n1,Does it?,"[""Yes"", ""No""]",B\n'
    (tmp_path / "q.csv").write_text(text)
    rows = {"id": ["1"], "question": ["Does it?"], "options": [{"A": "Yes", "B": "No", "C": None}], "answer": ["B"]}
    pq.write_table(pa.table(rows), tmp_path / "q.parquet")
    for name in ("q.csv", "q.parquet"):
        (question,) = read_options(tmp_path / name).questions
        assert (question.options, question.gold) == (("Yes", "No"), "B")


def test_json_lines_under_the_ending_of_json(write_file: WriteFile, tmp_path: Path) -> None:
    """As MedMCQA is published: one object a line, ``.json``."""
    lines = write_file(medmcqa(0, id=1), medmcqa(2, id=2))
    copy = tmp_path / "train.json"
    copy.write_text("\n" + lines.read_text())
    assert read_options(copy) == read_options(lines)
    copy.write_text(lines.read_text() + '{"id": 3, "question"')
    with pytest.raises(SourceError, match="a cut-off line"):
        read_options(copy)


BAD = [
    ({"question": " ", "options": ["a", "b"]}, "no text in question"),
    ({"question": "Q", "options": ["a"]}, "fewer than two options"),
    ({"question": "Q", "options": "a;b"}, "the options are not a JSON"),
    ({"question": "Q", "options": ["a", " "]}, "option B is empty"),
    ({"question": "Q", "options": {"A": "a", "B": None, "C": "c"}}, "option B is empty"),
    ({"question": "Q", "options": ["a", "b"], "answer": "9" * 5000}, "neither a letter, a number"),
    (
        {"question": "Q", "options": ["a", "b"], "answer": "c b"},
        "neither a letter, a number, nor one of the options",
    ),
    ({"question": "Q", "options": ["a", "b"], "answer": "E"}, "option 5 of 2"),
    (
        {"question": "Q", "options": {"A": "yes", "B": "no"}, "answer_idx": "A", "answer": "no"},
        "the answer is A, and another option's text",
    ),
    ("{not json", "no JSON"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_a_row_that_cannot_be_read_is_named_or_left_out(write_file: WriteFile, row: Any, reason: str) -> None:
    good = {"id": "good", "question": "Q", "options": ["a", "b"], "answer": "A"}
    path = write_file(good, row)
    with pytest.raises(SourceError, match="1 rows cannot be read") as caught:
        read_options(path)
    assert "q.jsonl:2: " in str(caught.value)
    assert reason in str(caught.value)
    options_file = read_options(path, skip_bad_rows=True)
    assert [question.question_id for question in options_file.questions] == ["good"]
    assert reason in options_file.skipped[0]


def test_an_id_twice_and_nothing_at_all(write_file: WriteFile) -> None:
    good = {"id": 1, "question": "Q", "options": ["a", "b"]}
    with pytest.raises(SourceError, match="'1' occurred before"):
        read_options(write_file(good, good))
    with pytest.raises(SourceError, match="holds no question"):
        read_options(write_file("{", name="bad.jsonl"), skip_bad_rows=True)
    with pytest.raises(SourceError, match="There is no file"):
        read_options(Path("nowhere.jsonl"))


def test_a_sample_does_not_depend_on_the_order(write_file: WriteFile) -> None:
    rows = [{"id": f"n{place}", "question": "Q", "options": ["a", "b"]} for place in range(30)]
    there, back = (read_options(write_file(*some)).questions for some in (rows, rows[::-1]))
    sample = {question.question_id for question in draw_sample(there, 7, 3)}
    assert sample == {question.question_id for question in draw_sample(back, 7, 3)}
    assert len(sample) == 7
    assert len(draw_sample(there, None, 0)) == len(draw_sample(there, 99, 0)) == 30
    assert sample != {question.question_id for question in draw_sample(there, 7, 4)}


@pytest.mark.skipif(not MEDQA.exists(), reason="the real MedQA file (../shared/data/medqa) is not here")
def test_the_real_medqa_file() -> None:
    options_file = read_options(MEDQA)
    assert len(options_file.questions) == 600
    assert not options_file.skipped
    assert {len(question.options) for question in options_file.questions} == {4}
    rows = [json.loads(line) for line in MEDQA.read_text().splitlines()]
    assert [question.gold for question in options_file.questions] == [row["answer_idx"] for row in rows]
