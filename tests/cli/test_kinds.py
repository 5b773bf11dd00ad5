"""``medunlearn audit kinds``: spans of a stored audit, sorted by rules, by a judge and by hand."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_server import FakeServer
from row_files import read_csv, write_csv, write_lines

from medunlearn.data.origins import DRAWN, is_marked
from medunlearn.papers.memorization.compare import audit_content
from medunlearn.papers.memorization.report.claims import findings
from medunlearn.papers.memorization.report.recommendations import recommendations
from medunlearn.papers.memorization.report.report import audit_report
from medunlearn.reports.markdown import to_markdown

Run = Callable[..., Any]
DRUG = "The dose is 5 mg orally twice daily; it is contraindicated in renal impairment; adverse reactions are few. "
CLAIM = "This page is for education, is no substitute for advice, and all rights are reserved by the publisher. "
WALK = "He went down to the well with a red bucket, and came back up the hill before the others had woken. "
TEXTS = {"drug": DRUG, "claim": CLAIM, "walk": WALK}
SECRET = "bucket"


def said_again(name: str, place: int) -> str:
    """Three sentences of one kind, each with its own number, so that no two texts are alike."""
    return "".join(f"Part {name}{place}x{number}. {TEXTS[name]}" for number in range(3))


@pytest.fixture(scope="module")
def audited(medunlearn: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six texts, all repeated: two of each kind. Counted in words, spans are whole suffixes."""
    folder = tmp_path_factory.mktemp("kinds")
    rows = [
        {
            "record_id": f"{name}{place}",
            "corpus": "pages",
            "prefix": "It begins. ",
            "suffix": text,
            "response": text,
        }
        for name in TEXTS
        for place in range(2)
        for text in (said_again(name, place),)
    ]
    write_lines(folder / "said.jsonl", rows)
    words = ("--responses", folder / "said.jsonl", "--out", folder / "audit", "--quiet", "--replicates=20")
    medunlearn("audit", *words)
    return folder / "audit"


@pytest.fixture
def audit(audited: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(audited, tmp_path / "audit"))


def judge(body: dict[str, Any]) -> str:
    text = body["messages"][-1]["content"]
    kind = "drug" if "mg" in text else "editorial" if "rights" in text else "unclear"
    return json.dumps({"kind": kind, "reason": "so it reads"})


def counts(result: Any) -> dict[str, dict[str, int]]:
    spans_by_kind: dict[str, dict[str, int]] = {}
    for row in json.loads(result.stdout)["counts"]:
        spans_by_kind.setdefault(row["by"], {})[row["kind"]] = row["spans"]
    return spans_by_kind


def test_three_ways_are_counted_apart(medunlearn: Run, audit: Path, tmp_path: Path) -> None:
    by_rules = counts(medunlearn("audit", "kinds", "find", audit, "--json"))["rules"]
    assert by_rules["drug"] == 2
    assert sum(by_rules.values()) == 6
    with FakeServer(answer=judge) as server:
        words = (
            "audit",
            "kinds",
            "find",
            audit,
            "--llm",
            server.base_url,
            "--llm.model",
            "m",
            "--llm.concurrency=2",
        )
        planned = medunlearn(*words, "--dry-run").stdout
        assert "Nothing was sent. 6 requests" in planned
        assert not server.seen
        corrected = medunlearn(*words, "--json")
        assert len(server.seen) == 6
        medunlearn(*words, "--quiet")
        assert len(server.seen) == 6
    assert counts(corrected)["judge"] == {"drug": 2, "editorial": 2, "": 2}
    assert json.loads(corrected.stdout)["judge"] == "m"
    sheet = tmp_path / "sheet.csv"
    medunlearn("audit", "kinds", "review", audit, "--limit", 5, "--out", sheet)
    assert sheet.stat().st_mode & 0o077 == 0
    fill(sheet)
    corrected = medunlearn("audit", "kinds", "corrected", audit, sheet, "--json")
    assert sum(counts(corrected)["person"].values()) == 5
    rows = json.loads(corrected.stdout)["agreement"]
    agreed = {(row["first"], row["second"], row["of"], row["measure"]): row for row in rows}
    # The judge says what the person says wherever it gives a kind.
    assert agreed["judge", "person", "kind", "agreement"]["value"] == 1.0
    assert counts(medunlearn("audit", "kinds", "find", audit, "--json"))["rules"] == by_rules
    assert SECRET not in corrected.stdout + planned
    # A report calls the judge by its name.
    tables = audit_content([audit], replicates=10).tables
    assert set(tables["kinds"]["by"]) == {"rules", "judge m", "person"}
    assert ("judge m", "person") in set(tables["agreement"][["first", "second"]].itertuples(index=False, name=None))


def test_a_rehearsed_judge_is_marked_and_recommends_nothing(medunlearn: Run, audit: Path, tmp_path: Path) -> None:
    medunlearn("audit", "kinds", "find", audit, "--quiet")
    before = audit_content([audit], replicates=10)
    result = json.loads(medunlearn("audit", "kinds", "find", audit, "--llm", "rehearsal", "--json").stdout)
    assert is_marked(result["judge"])
    after = audit_content([audit], replicates=10)
    (sorters,) = (set(after.tables["kinds"]["by"]) - {"rules"},)
    assert [is_marked(sorter) for sorter in sorters] == [True]
    assert [(entry.what, entry.drawn) for entry in after.provenance] == [("kinds of memorized text", True)]
    advised = [[asdict(one) for one in recommendations(c, findings(c))] for c in (before, after)]
    assert advised[0] == advised[1]
    text = to_markdown(audit_report(after))
    heads = [line for line in text.splitlines() if line.startswith("|") and "by judge" in line]
    assert heads
    assert all(DRAWN in head for head in heads)
    assert DRAWN in text.partition("## ")[0] + text.partition("## Read this first")[2][:600]


def fill(sheet: Path) -> None:
    rows = read_csv(sheet)
    for row in rows:
        row["kind"] = "drug" if "mg" in row["span"] else "editorial" if "rights" in row["span"] else "unclear"
    write_csv(sheet, rows)


def test_a_whole_corpus_shows_set_phrases(medunlearn: Run, audit: Path, tmp_path: Path) -> None:
    rows = [{"id": f"p{place}", "text": f"{said_again('walk', 0)} page {place}"} for place in range(6)]
    write_lines(tmp_path / "pages.jsonl", rows)
    medunlearn("audit", "kinds", "find", audit, "--corpus", f"pages={tmp_path / 'pages.jsonl'}", "--quiet")
    table = pd.read_parquet(audit / "kinds.parquet").set_index("probe_id")
    walked = table[table.index.str.startswith("walk0")].iloc[0]
    assert (walked["records"], walked["kind"]) == (6, "editorial")


def test_what_the_server_left_is_asked_for_again(medunlearn: Run, audit: Path) -> None:
    words = ("--llm.model", "m", "--llm.retries=0", "--llm.connect-seconds=0.2", "--llm.give-up-after=1")
    result = medunlearn("audit", "kinds", "find", audit, "--llm", "http://127.0.0.1:9/v1", *words, code=1)
    assert "have no answer from m" in result.text
    table = pd.read_parquet(audit / "kinds.parquet")
    assert set(table["by"]) == {"rules", "judge"}
    assert table[table["by"] == "judge"]["kind"].isna().all()
    medunlearn(
        "audit", "kinds", "find", audit, "--llm", "http://127.0.0.1:9/v1", *words, "--allow-missing", "--quiet"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("find", "nowhere"), "holds no audit"),
        (("find", "AUDIT", "--clinical=notes"), "There is no corpus 'notes'"),
        (("find", "AUDIT", "at_leest=3"), "Did you mean --at-least"),
        (("find", "AUDIT", "--dry-run"), "--llm is missing"),
        (("find", "AUDIT", "--llm", "http://127.0.0.1:9/v1"), "--llm.model is missing"),
        (("find", "AUDIT", "--llm", "http://models.example/v1", "--llm.model", "m"), "--allow-remote-llm"),
        (("corrected", "AUDIT", "nowhere.csv"), "There is no file"),
    ],
)
def test_what_is_wrong_is_said(medunlearn: Run, audit: Path, words: tuple[str, ...], reason: str) -> None:
    arguments = [audit if word == "AUDIT" else word for word in words]
    assert reason in medunlearn("audit", "kinds", *arguments, code=2).text


def test_sheets_must_agree_and_say_something(medunlearn: Run, audit: Path, tmp_path: Path) -> None:
    sheet, other = tmp_path / "sheet.csv", tmp_path / "other.csv"
    medunlearn("audit", "kinds", "review", audit, "--out", sheet, "--quiet")
    again = medunlearn("audit", "kinds", "review", audit, "--out", sheet, code=2).text
    assert "exists, and it may contain" in again
    assert "No span has a kind yet" in medunlearn("audit", "kinds", "corrected", audit, sheet, code=2).text
    fill(sheet)
    other.write_text(re.sub(",editorial,", ",drug,", sheet.read_text()))
    assert "another kind" in medunlearn("audit", "kinds", "corrected", audit, sheet, other, code=2).text


@pytest.mark.parametrize("verb", ["find", "review", "corrected"])
def test_help_has_an_example(medunlearn: Run, verb: str) -> None:
    assert (
        f"medunlearn audit kinds {verb}"
        in medunlearn("audit", "kinds", verb, "--help").stdout.partition("Example")[2]
    )
