"""What models, records and file names say stays text: in spreadsheets, Markdown, on the terminal, in JSON."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from medunlearn import api, progress
from medunlearn.audit.kinds.sorting import kind_sheet
from medunlearn.cli.output import Output, print_error
from medunlearn.data.card import card
from medunlearn.data.escaping import csv_of_frame, escape_formula, markdown_cell, unescape_formula
from medunlearn.errors import InputError
from medunlearn.judging.labels import LabelSheet, rows_of
from medunlearn.judging.sheet import as_csv
from medunlearn.judging.tasks import JudgingCase, get_task
from medunlearn.reports.blocks import (
    Bar,
    Bars,
    Block,
    Bullets,
    Cell,
    Choice,
    Columns,
    Details,
    Facts,
    Headline,
    Notice,
    Quotes,
    Report,
    Section,
    Statement,
    Table,
    Text,
)
from medunlearn.reports.markdown import to_markdown
from medunlearn.reports.view import ResultView
from medunlearn.terminal import printable, printable_line

FORMULAS = (
    *("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1", '"=1', "'=1", "''=1"),
    *("' \"=1", "\u00a0=1", "\ufeff=1", "＝1+1", "＋1", "－1", "＠SUM(1)", "-", "+", "+1 555 0100", "-inf", "-5a"),
)
PLAIN = ("-5", "+5", "-0.25", "-1,5", "-1e-05", "+.5", "-12%", "5=5", "a=1", "", "'", "' '", "x-ray", "'-5")
TRIGGERS = tuple("=+-@＝＋－＠")
ATTACKS = (
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x9b31mC1",
    "\u202egpj.exe\u202c",
    "\u2066isolate\u2069",
    "a\u200bb\u2060c\ufeffd\u00ade",
    "\U000e0041\U000e007f",
    "over\rwritten\b\b\x7f",
    "\ud800 half",
    "nul\x00",
)
MARKUP = ("[red]red[/]", "[link=https://evil.example]x[/link]", "[/]", "[bold", "\\[b]", ":skull:", "trailing\\")
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
some_text = st.text() | st.lists(st.sampled_from("'\"= +-@\t\r\n\u00a0\ufeff1a,.;|\\")).map("".join)


def unsafe(text: str) -> list[str]:
    return [char for char in text if unicodedata.category(char) in UNSAFE and char not in "\n\t"]


# Spreadsheets


@pytest.mark.parametrize("cell", FORMULAS)
def test_a_formula_is_escaped(cell: str) -> None:
    assert escape_formula(cell) == f"'{cell}"


@pytest.mark.parametrize("cell", PLAIN)
def test_a_number_and_plain_text_are_not(cell: str) -> None:
    assert escape_formula(cell) == cell


@given(some_text)
@example("'=1")
@example("''-5")
def test_any_text_comes_back(text: str) -> None:
    escaped = escape_formula(text)
    assert unescape_formula(escaped) == text
    stripped = escaped.strip()
    if stripped.startswith(TRIGGERS):
        assert float(stripped.replace(",", ".").rstrip("%")) is not None


@given(st.lists(st.tuples(some_text, some_text), max_size=4))
def test_any_cells_come_back_from_a_sheet(tmp_path_factory: pytest.TempPathFactory, cells: list[Any]) -> None:
    path = tmp_path_factory.mktemp("sheet") / "sheet.csv"
    LabelSheet({}, ("text",), ("label",)).write(path, cells)
    assert [(row["case_id"], row["text"]) for _, row in rows_of(path)] == cells


def fill_as_a_spreadsheet(blank: str, path: Path, column: str, label: str) -> Path:
    rows = list(csv.DictReader(io.StringIO(blank.removeprefix("\ufeff"), newline="")))
    assert [cell for row in rows for cell in row.values() if cell.startswith((*TRIGGERS, "\t", "\r"))] == []
    with path.open("w", encoding="utf-8", newline="") as file:
        sheet = csv.DictWriter(file, rows[0])
        sheet.writeheader()
        sheet.writerows(row | {column: label} for row in rows)
    return path


def test_sheets_of_judges_and_of_spans_come_back(tmp_path: Path) -> None:
    task = get_task("label")
    ids = {f"{text} {number}": text for number, text in enumerate(FORMULAS)}
    cases = [JudgingCase(name, "s", "g", dict.fromkeys(task.shows, text)) for name, text in ids.items()]
    labels = fill_as_a_spreadsheet(as_csv(task, cases), tmp_path / "labels.csv", "label", "Yes")
    assert set(task.sheet.read_people([labels], ids)["labels"]) == set(ids)
    spans = {f"{text}/greedy/0/{number}": text for number, text in enumerate(FORMULAS)}
    blank = kind_sheet().text(spans.items())
    assert list(
        kind_sheet().read([fill_as_a_spreadsheet(blank, tmp_path / "spans.csv", "kind", "unclear")], spans)
    ) == [*spans]


def test_tables_that_users_open_hold_no_formula_and_the_same_numbers(tmp_path: Path) -> None:
    numbers = {"a": [-0.5, 1e-20], "b": pd.array([-1, None], dtype="Int64"), "c": pd.array([None, -2.5], "Float64")}
    frame = pd.DataFrame({"=model": ["=1+1", "-3"], **numbers, "kind": pd.Categorical(["@x", "y"])})
    assert csv_of_frame(frame).splitlines() == ["'=model,a,b,c,kind", "'=1+1,-0.5,-1,,'@x", "-3,1e-20,,-2.5,y"]
    api._write_csv(tmp_path / "t.csv", lambda: pd.DataFrame({"label": list(FORMULAS)}))
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        assert [unescape_formula(label) for (label,) in csv.reader(file)] == ["label", *FORMULAS]


# Markdown


@given(some_text)
@example("a\\|b")
@example("![x](https://example.org/x.png)")
def test_a_cell_stays_in_its_cell(text: str) -> None:
    cell = markdown_cell(text)
    assert unsafe(cell) == []
    assert not set(cell) & set("<\n\t")
    assert "](" not in cell
    # A pipe belongs to the cell where an odd number of backslashes stands before it.
    for place, char in enumerate(cell):
        before = cell[:place]
        assert char != "|" or (len(before) - len(before.rstrip("\\"))) % 2


def test_reports_and_cards_hold_text(benchmark_manifest: dict[str, Any]) -> None:
    hostile = "a|b\n# heading <img src=x onerror=alert(1)> ![p](https://evil.example/p.png) \x1b[2J\u202e"
    table = Table((Cell(hostile),), ((Cell(hostile),), (Cell("plain"),)))
    output = to_markdown(Report(hostile, (table, Quotes(((hostile, hostile),))), facts=((hostile, hostile),)))
    of_card = card(benchmark_manifest | {"name": hostile, "source": hostile, "notes": {hostile: hostile}}, [])
    assert unsafe(output + of_card) == []
    assert yaml.safe_load(of_card.split("---")[1])["pretty_name"] == printable_line(hostile)
    output += of_card.split("---", 2)[2]
    outside = [line for line in output.splitlines() if not line.startswith("    ")]
    assert [line for line in outside if "<img" in line or "](https" in line or line.startswith("# heading")] == []


@pytest.fixture
def benchmark_manifest() -> dict[str, Any]:
    texts = dict.fromkeys(("name", "licence", "builder", "source", "data_use", "subject_level"), "x")
    return {**texts, "seed": 0, "levels": ["patient"], "counts": {"records": 1}, "notes": {}}


# Terminal


@given(st.text(st.characters()))
def test_nothing_printable_is_obeyed_or_hidden(text: str) -> None:
    visible = printable(text)
    # Signs of Arabic, Syriac, Kaithi and hieroglyphs are of the same class and seen.
    assert [char for char in unsafe(visible) if unicodedata.category(char) != "Cf"] == []
    assert "\n" not in printable_line(text)
    assert printable(visible) == visible
    assert json.loads(printable(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("attack", [*ATTACKS, *MARKUP])
@pytest.mark.parametrize("forced", [False, True])
def test_no_output_lets_it_through(
    attack: str, forced: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    if forced:  # as on a terminal
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TTY_INTERACTIVE", "1")
    output = Output()
    writers: dict[str, Callable[[], object]] = {
        "say": lambda: output.say(attack),
        **{f"block {n}": partial(output.block, block) for n, block in enumerate(blocks_with(attack))},
        "warning": lambda: output.show(ResultView(warnings=[attack])),
        "error": lambda: print_error(InputError(attack)),
        "file": lambda: print_error(PermissionError(13, "denied", attack)),
        "remark": lambda: progress.remark(attack),
        "bar": lambda: _bar(attack),
    }
    for name, write in writers.items():
        write()
        printed = "".join(capsys.readouterr())
        if forced:
            assert not any(piece in printed for piece in ATTACKS), name
            assert "https://evil.example\x1b" not in printed, name
            assert not [char for char in unsafe(printed) if char not in "\x1b\r"], name
        else:
            assert unsafe(printed) == [], name
            if name not in ("file", "bar"):
                assert printable(attack) in printed, name


def blocks_with(attack: str) -> list[Block | str]:
    """A block of each kind that a terminal shows."""
    text, table = Text(attack), Table((Cell("x"),), ((Cell("y", attack),),))
    return [
        attack,
        text,
        table,
        replace(table, title=attack),
        Table((Cell(attack),), ()),
        Bullets((attack,)),
        Facts(((attack, "x"),)),
        Quotes((("x", attack),)),
        Headline("x", attack),
        Notice(attack, ("x",)),
        Bars("x", (Bar(attack, "x", 0.5),)),
        Section(attack, (text,)),
        Details(attack, (text,)),
        Statement("x", "open", attack, attack, (text,)),
        Choice("x", ((attack, (text,)),)),
        Columns((text,), (table,)),
    ]


def _bar(attack: str) -> None:
    with progress.progress(attack, 2) as advance:
        advance(note=attack)
        with progress.progress(attack, 2) as inner:
            inner(note=attack)
        progress.remark(attack)


@pytest.mark.parametrize("attack", [*ATTACKS, *MARKUP])
def test_json_is_exact_and_harmless(attack: str, capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=True).show(ResultView({attack: [attack]}))
    output = capsys.readouterr().out
    assert unsafe(output) == []
    assert json.loads(output) == {attack: [attack]}
