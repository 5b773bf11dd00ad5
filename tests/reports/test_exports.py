"""Tables and figures as files for a paper."""

from __future__ import annotations

import csv
import io
import re
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from medunlearn.errors import ConfigError, InputError
from medunlearn.reports.blocks import Cell, Choice, Figure, Report, Span, Table, section
from medunlearn.reports.content import ReportContent
from medunlearn.reports.exports import check_formats, csv_text, export_files, latex_text, pdf_bytes, svg_bytes
from medunlearn.reports.figures import layout, plot
from medunlearn.reports.unlearning import unlearning_report
from medunlearn.reports.write import write_report

TABLE = Table(
    (Cell("Model"), Cell("Utility", "50% of R_1"), Cell("Plain")),
    ((Cell("A & B"), Cell("−0.500", "[−0.6, −0.4]"), Cell("–")), (Cell("C"), Cell("1"), Cell("x_1"))),
    "A {title}",
)


def test_csv_has_numbers_that_parse_and_notes_of_their_own() -> None:
    head, first, second = csv.reader(io.StringIO(csv_text(TABLE)))
    assert head == ["Model", "Utility", "Utility (50% of R_1)", "Plain"]
    assert first == ["A & B", "-0.500", "[-0.6, -0.4]", ""]
    assert float(first[1]) == -0.5
    assert second == ["C", "1", "", "x_1"]


def test_latex_is_escaped_and_complete() -> None:
    text = latex_text(TABLE, "one")
    assert r"A \& B & $-$0.500 {\scriptsize [$-$0.6, $-$0.4]} & -- \\" in text
    assert r"\caption{A \{title\}}" in text
    assert r"\label{tab:one}" in text
    assert r"50\% of R\_1" in text
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
    assert begun == ended[::-1] == ["table", "tabular"]
    long = Table(TABLE.columns, TABLE.rows * 30)
    assert r"\begin{longtable}{lll}" in latex_text(long)
    best = Table((Cell("M"), Cell("LS")), ((Cell("A"), Cell.of(Span("1.0", "lowest"), Span(" (2)"))),))
    assert r"A & \textbf{1.0} (2) \\" in latex_text(best)


def test_every_table_and_figure_is_written_once(content: ReportContent, tmp_path: Path) -> None:
    write_report(content, tmp_path / "report", tables=("csv", "tex"), figures=("svg",))
    tables, figures = (sorted((tmp_path / "report" / name).iterdir()) for name in ("tables", "figures"))
    names = {path.stem for path in tables}
    assert {path.suffix for path in tables} == {".csv", ".tex"}
    assert len(tables) == 2 * len(names)
    assert {"models", "every-metric"} <= names
    text = (tmp_path / "report" / "tables" / "models.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["Model"]: float(row["Utility"]) for row in rows}["NPO"] == 0.71
    assert [path.stem for path in figures if "trade" in path.stem] == ["trade-off"]
    for path in figures:
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_parts_of_a_choice_have_files_of_their_own() -> None:
    options = tuple((name, (Table((Cell("M"),), ((Cell(name),),), name="models"),)) for name in ("random_05", "b"))
    part = section("Splits", Choice("Split", options))
    assert part is not None
    files = export_files(Report("R", (part, TABLE, TABLE)), ("csv",), ())
    assert set(files) == {
        "tables/random-05-models.csv",
        "tables/b-models.csv",
        "tables/a-title.csv",
        "tables/a-title-2.csv",
    }
    assert files["tables/b-models.csv"] == b"M\nb\n"


@pytest.mark.parametrize(("tables", "figures"), [(("xls",), ()), ((), ("png", "bmp"))])
def test_unknown_formats_are_refused(tables: tuple[str, ...], figures: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refused:
        check_formats(tables, figures)
    assert len(refused.value.problems) == len(tables + figures)


def _figure() -> Figure:
    point = {"type": "scatter", "mode": "markers", "name": "A", "x": [0.5], "y": [0.5], "marker": {"color": "--m1"}}
    return Figure(plot([point], layout(None, "x", "y"), labels=True), "a point", "Title")


def test_pdf_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("svglib") is not None:
        assert pdf_bytes(_figure()).startswith(b"%PDF")
        monkeypatch.setattr("medunlearn.reports.exports.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"medunlearn\[figures\]"):
        check_formats((), ("pdf",))
    with pytest.raises(InputError, match=r"medunlearn\[figures\]"):
        pdf_bytes(_figure())
    check_formats(("csv", "tex"), ("svg",))


def test_a_file_has_colours_of_white_paper() -> None:
    text = svg_bytes(_figure()).decode()
    assert "var(" not in text
    assert "#2f6fb3" in text
    assert "Helvetica" in text


def test_text_that_may_not_be_shown_is_in_no_file(content: ReportContent) -> None:
    from dataclasses import replace

    report = unlearning_report(replace(content, show_text=False))
    everything = b"".join(export_files(report, ("csv", "tex"), ("svg",)).values())
    assert b"Vantreese" not in everything
