"""``build lume --new``, ``build tofu`` and ``build muse`` on the command line, and evaluating what they built."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from row_files import write_lines

from medunlearn.data.benchmark import Benchmark

Medunlearn = Callable[..., Any]
SMALL = ("--stories=4", "--personal-biographies=4", "--public-biographies=4", "--nonmembers=2")
SHORT = ("--epochs=2", "--pretrain-epochs=0", "--precision=fp32")
TINY = ("--model=tiny", "--tiny-width=32", "--tiny-layers=2", *SHORT)
QUICK = ("--replicates=20", "--max-new-tokens=4", "--allow-broken")


@pytest.fixture(scope="module")
def tofu_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four invented authors of three questions; the last is to be forgotten."""
    folder = tmp_path_factory.mktemp("published") / "tofu"
    full = [
        {"question": f"What did author {a} write in year {n}?", "answer": f"Book {a}{n}."}
        for a in range(4)
        for n in range(3)
    ]
    more = [
        {**r, "paraphrased_answer": f"It was {r['answer']}", "perturbed_answer": ["Film 1.", "A song."]}
        for r in full
    ]
    write_lines(folder / "full.json", full)
    write_lines(folder / "forget01.json", full[-3:])
    write_lines(folder / "forget01_perturbed.json", more[-3:])
    write_lines(folder / "retain_perturbed.json", more[:6])
    for name in ("real_authors", "world_facts"):
        rows = [
            {"question": f"{name} {n}?", "answer": f"Yes {n}", "perturbed_answer": ["No", "Never"]}
            for n in range(3)
        ]
        write_lines(folder / f"{name}_perturbed.json", rows)
    return folder


@pytest.fixture(scope="module")
def tofu(medunlearn: Medunlearn, tofu_files: Path) -> Path:
    out = tofu_files.parent / "bench"
    medunlearn("build", "tofu", "--released", tofu_files, "--out", out, "--questions-an-author=3")
    for name, more in (("target", ()), ("retrained", ("--without", "forget01"))):
        medunlearn("train", out, "--out", out.parent / name, *TINY, "--train-on=questions", *more)
    return out


def test_tofu_is_evaluated_by_its_own_measures(medunlearn: Medunlearn, tofu: Path) -> None:
    target, retrained = tofu.parent / "target", tofu.parent / "retrained"
    words = ("--split", "forget01", "--against", retrained, "--folds=train,utility", *QUICK)
    command = ("evaluate", target, tofu, *words)
    rows = json.loads(medunlearn(*command, "--json").stdout)["tofu"]
    values = {(row["model"], row["measure"]): row for row in rows}
    for left_out, name in (
        (".geometric", "model utility"),
        ("truth_ratio_utility", "model utility, TOFU's released code"),
    ):
        parts = [
            row["value"]
            for row in rows
            if row["model"] == "target" and ": " in row["measure"] and not row["measure"].endswith(left_out)
        ]
        assert len(parts) == 9
        utility = 0.0 if 0.0 in parts else 9 / sum(1 / part for part in parts)
        assert values["target", name]["value"] == pytest.approx(utility)
    assert 0.0 <= values["target", "forget quality"]["value"] <= 1.0
    assert values["retrained", "forget quality"]["note"] == "the reference"
    assert "forget quality" in medunlearn(*command).stdout
    report = ("report", target, retrained, "--split", "forget01", "--out", tofu.parent / "report")
    medunlearn(*report, "--benchmark", tofu)
    published = json.loads((tofu.parent / "report" / "report.json").read_text())["published"]
    own = {(row["model"], row["measure"]): row["value"] for row in published["table"]}
    assert {key: own[key] for key in values} == {key: row["value"] for key, row in values.items()}
    page = (tofu.parent / "report" / "report.html").read_text()
    assert all(text in page for text in ('id="published"', "forget quality", "truth ratio on forget"))
    medunlearn(*report)
    assert "need the benchmark" in (tofu.parent / "report" / "report.md").read_text()


def test_tofu_with_parts_missing_is_not_called_model_utility(medunlearn: Medunlearn, tofu: Path) -> None:
    command = ("evaluate", tofu.parent / "target", tofu, "--split", "forget01", *QUICK, "--json")
    rows = json.loads(medunlearn(*command).stdout)["tofu"]
    names = {row["measure"]: row for row in rows}
    assert "model utility" not in names
    assert names["harmonic mean of 3 of 9 parts"]["n"] == 3
    assert names["world_facts: rouge_l"]["value"] is None
    assert "no retrained model" in names["forget quality"]["note"]


def test_alternatives_are_rated_once(medunlearn: Medunlearn, tofu: Path) -> None:
    """Truth ratios of the table are those of the stored log-probabilities, worked out here."""
    import math

    from medunlearn.data.responses import ResponseStore

    run = tofu.parent / "target"
    command = ("evaluate", run, tofu, "--split", "forget01", "--folds=train", "--metrics=truth_ratio", *QUICK)
    medunlearn(*command)
    stores = (run / "responses").iterdir()
    settings = {path: ResponseStore.settings_of(path) for path in stores}
    (store,) = (path for path, of in settings.items() if of["max_new_tokens"] == 0 and "alternatives" not in of)
    parts = sorted(store.glob("part-*.parquet"))
    medunlearn(*command, "--metrics=truth_ratio,em")
    assert sorted(store.glob("part-*.parquet")) == parts
    stored = ResponseStore(store, ResponseStore.settings_of(store)).read()
    tables = [pd.read_parquet(path) for path in run.glob("evaluations/*/scores.parquet")]
    scores = pd.concat(tables).query("measure == 'truth_ratio' and item == 'author-003-q01'")["value"]
    of = [stored["author-003-q01", "closed_book", place].answer_log_probs for place in range(3)]
    right, *wrong = (math.exp(sum(log_probs) / len(log_probs)) for log_probs in of if log_probs)
    assert float(scores.iloc[0]) == pytest.approx(sum(wrong) / 2 / right, rel=1e-5)


def test_muse_groups_are_verbatim_and_knowledge_memorization(medunlearn: Medunlearn, tmp_path: Path) -> None:
    for name in ("forget", "retain2", "holdout"):
        write_lines(
            tmp_path / "m" / "raw" / f"{name}.json", [{"text": f"{name} {n} is a bridge."} for n in range(3)]
        )
    write_lines(
        tmp_path / "m" / "verbmem" / "forget.json",
        [{"prompt": f"forget {n} is", "gt": "a bridge."} for n in range(3)],
    )
    for side in ("forget", "retain"):
        write_lines(
            tmp_path / "m" / "knowmem" / f"{side}_qa.json",
            [{"question": f"{side} {n}?", "answer": "A"} for n in range(3)],
        )
    medunlearn("build", "muse", "--released", tmp_path / "m", "--out", tmp_path / "b")
    medunlearn("train", tmp_path / "b", "--out", tmp_path / "r", *TINY, "--train-on=records")
    medunlearn("evaluate", tmp_path / "r", tmp_path / "b", "--split", "forget", *QUICK)
    (path,) = (tmp_path / "r").glob("evaluations/*/groups.parquet")
    groups = pd.read_parquet(path)
    rows = {(row["node"], row["measure"], row["n_scored"]) for row in groups.to_dict("records")}
    assert rows == {("forget", "VerbMem", 3), ("forget", "KnowMem", 3), ("retain", "KnowMem", 3)}
    assert dict(zip(groups["measure"], groups["metric"], strict=True)) == {
        "VerbMem": "rouge_l_f.verbmem",
        "KnowMem": "rouge_l_f.knowmem",
    }
    medunlearn("report", tmp_path / "r", "--out", tmp_path / "report")
    page = (tmp_path / "report" / "report.md").read_text()
    assert "## MUSE" in page
    assert "KnowMem on retain without in-context examples" in page
    output = medunlearn("inspect", tmp_path / "b").stdout
    assert "licence: cc-by-4.0; data use: open" in output
    assert "never trained on" in output


@pytest.fixture(scope="module")
def anew(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("anew") / "bench"
    result = medunlearn("build", "lume", "--new", "--review", "--out", out, *SMALL)
    assert "14 records, 14 subjects" in result.text
    assert "annotate.html: label each document" in result.text
    return out


def test_lume_anew(medunlearn: Medunlearn, anew: Path) -> None:
    benchmark = Benchmark.load(anew)
    assert set(benchmark.splits) == {"half"}
    facts = json.loads(medunlearn("build", "lume", "--new", "--out", anew, *SMALL, "--json").stdout)
    assert facts["fingerprint"] == benchmark.fingerprint
    assert facts["build"]["settings"]["stories"] == 4


def test_knowledge_by_field(medunlearn: Medunlearn, anew: Path) -> None:
    """Each identifier type has its own knowledge, and none of them counts what another was asked."""
    run = anew.parent / "run"
    medunlearn("train", anew, "--out", run, *TINY, "--train-on=questions")
    medunlearn("evaluate", run, anew, "--split", "half", "--folds=train", *QUICK)
    (path,) = run.glob("evaluations/*/groups.parquet")
    groups = pd.read_parquet(path)
    fields = groups[groups["level"] == "identifier"]
    assert set(fields["node"]) == {"birth_date", "ssn", "phone", "email", "address"}
    assert set(fields["measure"]) == {"knowledge"}
    assert set(fields["n_scored"]) == {2}, "four people, half of them a side"
    tasks = groups[(groups["level"] == "task") & (groups["node"] == "personal_biography")]
    whole = tasks[tasks["measure"] == "knowledge"].set_index("side")["value"]
    for side in ("forget", "retain"):
        assert fields[fields["side"] == side]["value"].mean() == pytest.approx(whole[side])
    medunlearn("report", run, "--out", anew.parent / "report")
    assert "birth date" in (anew.parent / "report" / "report.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give either RELEASED"),
        (("--new", "--released", "x"), "give either RELEASED"),
        (("--released", "x", "--review"), "RELEASED (the released files) needs no --review"),
        (("--released", "x", "--articles", "a.csv"), "There is no setting 'articles'"),
        (("--new", "--skip-bad-rows"), "There is no setting 'skip_bad_rows'"),
        (("--new", "--stories=1", "aliek=2"), "2 settings are wrong"),
        (("--new", "--email-domain=No Domain"), "email_domain"),
        (("--new", "--articles", "none.csv"), "There is no file none.csv"),
        (("--new", "--llm", "http://127.0.0.1:9/v1"), "--llm.model NAME is missing"),
        (("--new", "--llm=https://api.example.com/v1", "--llm.model=m", "--verifiers=none.yaml"), "none.yaml"),
    ],
)
def test_refusals(medunlearn: Medunlearn, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = medunlearn("build", "lume", "--out", tmp_path / "b", *words, code=2)
    assert message in result.text
    assert not (tmp_path / "b").exists()


def test_missing_files_end_with_2(medunlearn: Medunlearn, tmp_path: Path) -> None:
    for builder in ("tofu", "muse"):
        result = medunlearn("build", builder, "--released", tmp_path / "no", "--out", tmp_path / "b", code=2)
        assert "There is no folder" in result.text
