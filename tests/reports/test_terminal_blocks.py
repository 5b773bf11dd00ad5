"""Tables as text: whole lines off a terminal, whole words on one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pandas as pd
import pytest
from click.testing import CliRunner

from medunlearn.cli.listing import TABLES, first_sentence
from medunlearn.cli.main import app
from medunlearn.cli.output import Output
from medunlearn.errors import MedunlearnError
from medunlearn.reports.blocks import Cell, Facts, Figure, Section, Table, Text
from medunlearn.reports.terminal_blocks import block_lines, table_lines
from medunlearn.reports.view import ResultView, plain_table

NAME = "truth_ratio_utility.published_code"
LONG = plain_table(
    ("name", "settings", "what"),
    [(NAME, "alpha=0.5 (above 0)", "a sentence of many words " * 9), ("em", "", "short")],
)
NOTED = Table(
    (Cell("Model"), Cell("Utility", "of the retain set, in words")),
    ((Cell("A"), Cell("0.790", "[0.755, 0.818]")), (Cell("B"), Cell("0.1"))),
)


def test_off_a_terminal_a_row_is_a_line() -> None:
    lines = table_lines(LONG)
    assert len(lines) == 3
    assert [line.split()[0] for line in lines] == ["name", NAME, "em"]
    assert lines[1].endswith("many words")
    assert table_lines(NOTED)[1] == "A      0.790 [0.755, 0.818]"


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_no_word_is_ever_broken(width: int) -> None:
    lines = table_lines(LONG, width)
    words = " ".join(lines).split()
    assert NAME in words
    assert words.count("sentence") == 9
    assert max(len(line) for line in lines) <= max(width, len(NAME))


def test_a_narrow_terminal_has_numbers_without_intervals() -> None:
    assert table_lines(NOTED, 80)[1] == "A      0.790 [0.755, 0.818]"
    assert table_lines(NOTED, 20) == ["Model  Utility", "A      0.790", "B      0.1"]


@pytest.mark.parametrize("what", TABLES)
def test_every_list_is_readable(what: str) -> None:
    """Piped: one line for each name, which begins it."""
    runner = CliRunner()
    rows = json.loads(runner.invoke(app, ["list", what, "--json"]).stdout)
    lines = runner.invoke(app, ["list", what]).stdout.splitlines()
    assert len(lines) >= 2 + len(rows)
    assert all(line.startswith(f"{row['name']} ") for line, row in zip(lines[2:], rows, strict=False))
    table = plain_table(("name", "what"), [(row["name"], first_sentence(row["what"])) for row in rows])
    narrow = table_lines(table, 80)
    assert max(map(len, narrow)) <= 80
    words = {word for line in narrow for word in line.split()}
    assert {part for row in rows for part in row["name"].split()} <= words
    one = runner.invoke(app, ["list", what, rows[-1]["name"]])
    assert one.exit_code == 0
    assert " ".join(rows[-1]["what"].split()) in " ".join(one.stdout.split())


def test_a_name_that_is_not_there_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(app, ["list", "attacks", "relearnin"])
    assert result.exit_code == 2
    assert "Did you mean 'relearning'?" in result.output


def test_a_section_without_lines_is_left_out() -> None:
    figure = Figure({"data": []}, "a figure")
    assert list(block_lines(Section("Figures", (figure,)))) == []
    assert list(block_lines(Section("Numbers", (figure, Text("one two"))), 5)) == ["Numbers", "one", "two"]
    assert list(block_lines(Facts((("a path", "with words"),)), 5)) == ["a path: with words"]


def test_a_view_is_printed_or_is_data(capsys: pytest.CaptureFixture[str]) -> None:
    """Blocks are not made where JSON is printed, nor data where text is; a failure ends both."""

    def refuse() -> Iterator[str]:
        raise AssertionError
        yield ""

    table = pd.DataFrame({"value": [0.5, None]})
    Output(json=True).show(ResultView(lambda: {"table": table}, refuse(), ["a warning"], ["a note"]))
    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err) == ({"table": [{"value": 0.5}, {"value": None}]}, "")
    with pytest.raises(MedunlearnError, match="half"):
        Output().show(ResultView(lambda: next(refuse()), ["text", None, ""], ["a warning"], ["a note"], "half"))
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("WARNING: a warning\ntext\n", "> a note\n")
    Output(quiet=True).show(ResultView(blocks=refuse(), notes=["a note"]))
    assert capsys.readouterr() == ("", "")
