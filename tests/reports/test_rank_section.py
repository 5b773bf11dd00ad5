"""The section on what models still know: shares by fold, subjects that are told, and calibration."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from medunlearn.reports.blocks import Bullets, Figure, Section, Table
from medunlearn.reports.content import Ranks, ReportContent
from medunlearn.reports.rank_tables import rank_section

CHECKED = {"distance": 0.4, "p": 0.011, "facts": 108, "subjects": 6, "first": 0.148, "uniform": False}


def shown(content: ReportContent, least: float, *, told: int | None = 2, beside: bool = False) -> Section:
    """The section where each model ranks half of the facts first."""

    def with_row(summary: pd.DataFrame) -> pd.DataFrame:
        row = summary[(summary["side"] == "forget") & (summary["kind"] == "all")].iloc[:1]
        return pd.concat([summary, row.assign(measure="ranked_first", value=0.5, low=0.4, high=0.6)])

    models = tuple(replace(model, summary=with_row(model.summary)) for model in content.models)
    table = pd.DataFrame(
        [{"model": model.label, "subjects": 6, "told": told, "median_p": 0.031} for model in content.models]
    )
    table = table.astype({"told": "Int64"})
    ranks = Ranks(table, {**CHECKED, "uniform": not beside}, 50, 0.05, least, beside)
    section = rank_section(replace(content, models=models, ranks=ranks))
    assert section is not None
    return section


def last_column(section: Section) -> list[str]:
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    return [row[-1].text for row in table.rows]


def sentences(section: Section) -> str:
    return " ".join(item for block in section.blocks if isinstance(block, Bullets) for item in block.items)


def test_nothing_is_shown_of_models_that_were_not_ranked(content: ReportContent) -> None:
    assert rank_section(content) is None


def test_subjects_are_counted_where_their_p_can_tell(content: ReportContent) -> None:
    enough, few = shown(content, 0.027), shown(content, 0.054, told=None)
    assert set(last_column(enough)) == {"2 of 6"}
    assert set(last_column(few)) == {"–"}
    assert "cannot be below 0.054" in sentences(few)
    assert "--alternatives 99" in sentences(few)
    assert "tells nobody" not in sentences(enough)


def test_what_is_not_uniform_is_read_beside_unseen_subjects(content: ReportContent) -> None:
    beside = sentences(shown(content, 1 / 7, told=None, beside=True))
    assert "They are not uniform" in beside
    assert "that takes 19 unseen subjects" in beside
    assert "They are not uniform" not in sentences(shown(content, 0.027))


def test_every_model_has_its_bar(content: ReportContent) -> None:
    (figure,) = (block for block in shown(content, 0.027).blocks if isinstance(block, Figure))
    assert [bar["y"] for bar in figure.spec["data"]] == [[0.5]] * len(content.models)
