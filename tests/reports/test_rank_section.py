"""The section on what models still know: shares by fold, subjects that are told, and calibration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from medunlearn.reports.blocks import Bullets, Figure, Section, Table
from medunlearn.reports.content import RankReading, Ranks, ReportContent
from medunlearn.reports.rank_tables import rank_section

CHECKED = {"distance": 0.4, "p": 0.011, "facts": 108, "subjects": 6, "first": 0.148, "low": 0.2, "due": 0.02}


def shown(
    content: ReportContent,
    least: float,
    *,
    told: int | None = 2,
    tellable: int = 6,
    beside: bool = False,
    unused: bool = False,
    **more: Any,
) -> Section:
    """The section where each model ranks half of the facts first."""

    def with_row(summary: pd.DataFrame) -> pd.DataFrame:
        row = summary[(summary["side"] == "forget") & (summary["kind"] == "all")].iloc[:1]
        return pd.concat([summary, row.assign(measure="ranked_first", value=0.5, low=0.4, high=0.6)])

    models = tuple(replace(model, summary=with_row(model.summary)) for model in content.models)
    table = pd.DataFrame(
        [
            {
                "model": model.label,
                "context": "closed_book",
                "subjects": 6,
                "exact": 12,
                "exact_first": 0.5,
                "due": 0.017,
                "tellable": tellable,
                "told": told,
                "median_p": 0.031,
            }
            for model in content.models
        ]
    )
    table = table.astype({"told": "Int64"})
    checked = {**CHECKED, "uniform": not beside}
    reading = RankReading("closed_book", checked, of=50, least_p=least, beside_unseen=beside, **more)
    ranks = Ranks(table, (reading,), 0.05, ("plain",), unused)
    section = rank_section(replace(content, models=models, ranks=ranks))
    assert section is not None
    return section


def last_column(section: Section) -> list[str]:
    _, table = (block for block in section.blocks if isinstance(block, Table))
    return [row[-1].text for row in table.rows]


def sentences(section: Section) -> str:
    return " ".join(item for block in section.blocks if isinstance(block, Bullets) for item in block.items)


def test_nothing_is_shown_of_models_that_were_not_ranked(content: ReportContent) -> None:
    assert rank_section(content) is None


def test_subjects_are_counted_where_their_p_can_tell(content: ReportContent) -> None:
    enough, few = shown(content, 0.027), shown(content, 0.054, told=None, tellable=0)
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


def test_the_context_is_named_and_a_chat_template_that_was_not_used_once(content: ReportContent) -> None:
    unused = sentences(shown(content, 0.027, unused=True))
    assert unused.count("chat template that was not used") == 1
    assert "template plain" in unused
    assert "nothing of the note in the prompt" in unused
    assert "chat template" not in sentences(shown(content, 0.027))


def test_what_the_target_never_knew_is_said_with_its_numbers(content: ReportContent) -> None:
    nothing = {
        "p": 0.62,
        "least_p": 0.016,
        "first": 0.03,
        "unseen_first": 0.02,
        "subjects": 6,
        "verdict": "nothing",
        "beside": "retrained",
        "unseen": 0,
    }
    assert "Nothing to forget" in sentences(shown(content, 0.027, known=nothing))
    assert "0.030" in sentences(shown(content, 0.027, known=nothing))
    assert "Too few subjects" in sentences(shown(content, 0.027, known={**nothing, "verdict": "open"}))
    assert "Nothing to forget" not in sentences(shown(content, 0.027, known={**nothing, "verdict": "known"}))


def test_subjects_who_cannot_be_told_are_counted_apart(content: ReportContent) -> None:
    section = shown(content, 0.027, told=2, tellable=4)
    assert set(last_column(section)) == {"2 of 4"}
    _, table = (block for block in section.blocks if isinstance(block, Table))
    assert all("2 more could not be told" in str(row[-1].note) for row in table.rows)
    assert all("0.500 of 12 facts first" in str(row[-1].note) for row in table.rows)


def test_a_target_without_comparison_is_no_comfort(content: ReportContent) -> None:
    unscored = {
        **dict.fromkeys(("p", "least_p", "unseen_first", "beside")), "first": 0.9, "subjects": 6, "unseen": 0,
        "verdict": "unscored",
    }  # fmt: skip
    text = sentences(shown(content, 0.027, known=unscored))
    assert "is not told" in text
    assert "Nothing to forget" not in text


def test_usual_and_inexact_facts_are_counted(content: ReportContent) -> None:
    text = sentences(shown(content, 0.027, usual={"its value is usual": 4}, inexact={"too few others": 5}))
    assert "4: its value is usual" in text
    assert "5: too few others" in text


def test_one_fact_a_patient_is_said(content: ReportContent) -> None:
    assert "it cannot be below 1 / 50 = 0.020" in sentences(shown(content, 0.02, single=True))


def test_reasons_of_facts_without_a_rank_are_counted(content: ReportContent) -> None:
    assert "3: it is not hers alone" in sentences(shown(content, 0.027, unscored={"it is not hers alone": 3}))
