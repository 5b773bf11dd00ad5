"""``attack``: the forget set against patients whom no model saw; what it refuses; what a report shows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from medunlearn.attacks import expand

Medunlearn = Callable[..., Any]
TINY = ("--model", "tiny", "--tiny-width=32", "--tiny-layers=2", "--epochs=1", "--precision=fp32", "--quiet")
SPLIT = ("--split", "random_25")
CHEAP = ("loss,zlib,min_k,min_k_pp", "--replicates=50")


@pytest.fixture(scope="module")
def outside(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight patients, two of them in ``random_25``, and six whom no model is trained on; models beside it."""
    out = tmp_path_factory.mktemp("outside") / "bench"
    medunlearn("build", "amnesia", "--synthetic", 8, "--nonmember-patients=6", "--out", out)
    medunlearn("train", out, "--out", out.parent / "target", *TINY)
    medunlearn("train", out, "--without", "random_25", "--out", out.parent / "retrained", *TINY)
    unlearn = ("--method", "ga", "--out", out.parent / "ga", "--epochs=1", "--precision=fp32", "--quiet")
    medunlearn("unlearn", out.parent / "target", out, *SPLIT, *unlearn)
    return out


def attack(medunlearn: Medunlearn, bench: Path, run: str, *more: object, code: int = 0) -> Any:
    return medunlearn("attack", bench.parent / run, bench, *SPLIT, *more, code=code)


def test_a_run_and_those_that_it_is_compared_with(medunlearn: Medunlearn, outside: Path, tmp_path: Path) -> None:
    runs = ("--against", outside.parent / "target", "--against", outside.parent / "retrained")
    words = ("--attacks", "membership", *runs, "--replicates=50", f"--reference={outside.parent / 'retrained'}")
    payload = json.loads(attack(medunlearn, outside, "ga", *words, "--json").stdout)
    whole = pd.DataFrame(payload["table"])
    assert set(whole["attack"]) == {*expand(["membership"])}
    # This attack takes non-members for its prefix, and six are too few to lose any.
    is_short = whole["attack"] == "conditional_ratio"
    assert whole[is_short]["value"].isna().all()
    table = whole[~is_short]
    areas = table[table["measure"] == "auc"]
    assert set(areas["model"]) == {"GA", "target", "retrained"}
    assert areas["value"].between(0, 1).all()
    assert (areas["n_members"] == 2).all()
    assert (areas["n_nonmembers"] == 6).all()
    # A model has no likelihood ratio to itself.
    own = areas[(areas["model"] == "retrained") & (areas["attack"] == "reference")]
    assert own["value"].tolist() == [0.5]
    # Without evaluations nobody knows whether the retrained model is a reference; with them, this one is none.
    assert payload["caveats"]
    assert "against the retrained model" in payload["caveats"][0]
    pairs = {(row["model"], row["against"]) for row in payload["comparisons"]}
    assert pairs == {("GA", "target"), ("GA", "retrained"), ("target", "retrained")}
    rates = table[table["measure"] == "tpr_at_1pct_fpr"]
    assert rates["value"].isna().all()
    assert rates["reason"].str.contains("takes 100 non-members, not 6").all()
    result = attack(medunlearn, outside, "ga", *words, "--out", tmp_path / "table.csv").stdout
    assert "Documents: 2 members, 6 non-members" in result
    assert "area under the ROC curve" in result
    assert "not measurable" in result
    assert len(pd.read_csv(tmp_path / "table.csv")) == len(whole)


def test_what_is_kept_and_not_done_again(medunlearn: Medunlearn, outside: Path, monkeypatch: Any) -> None:
    from medunlearn.attacks import model_holder
    from medunlearn.attacks.membership import membership_run as membership

    attack(medunlearn, outside, "target", "--attacks", *CHEAP, "--quiet")
    (folder,) = [
        path.parent
        for path in (outside.parent / "target" / "attacks").glob("*/run.json")
        if json.loads(path.read_text())["config"]["attacks"] == CHEAP[0].split(",")
    ]
    info = json.loads((folder / "run.json").read_text())
    assert info["verb"] == "attack"
    assert info["results"]["members"] == 2
    scores = pd.read_parquet(folder / "scores.parquet")
    assert len(scores) == 8 * 4
    assert scores["value"].notna().all()

    def never(*args: object, **more: object) -> None:
        raise AssertionError("the model was loaded again")

    monkeypatch.setattr(membership, "load_model", never)
    monkeypatch.setattr(model_holder, "load_model", never)
    assert attack(medunlearn, outside, "target", "--attacks", *CHEAP, "--quiet").stdout == ""
    # Cut off after the pass: its tokens are kept, and only the scores are made again.
    (folder / "run.json").write_text(json.dumps({**info, "status": "interrupted"}))
    (folder / "scores.parquet").unlink()
    attack(medunlearn, outside, "target", "--attacks", *CHEAP, "--quiet")
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "scores.parquet"), scores)


def test_settings_of_an_attack(medunlearn: Medunlearn, outside: Path) -> None:
    """All tokens are 100% of the tokens: Min-K% is then the loss."""
    words = ("--attacks", "loss,min_k", "--min_k.k=1", "--replicates=20", "--json")
    table = pd.DataFrame(json.loads(attack(medunlearn, outside, "target", *words).stdout)["table"])
    areas = table[table["measure"] == "auc"].set_index("attack")["value"]
    assert areas["loss"] == areas["min_k"]


def test_without_a_reference_it_is_unscored_and_says_why(medunlearn: Medunlearn, outside: Path) -> None:
    words = ("--attacks", "membership", "--replicates=20", "--json")
    table = pd.DataFrame(json.loads(attack(medunlearn, outside, "target", *words).stdout)["table"])
    rows = table[table["attack"] == "reference"]
    assert rows["value"].isna().all()
    assert rows["reason"].str.contains("--reference FOLDER").all()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--attacks", "reference"), ["needs --reference MODEL"]),
        (
            ("--attacks", "min_k", "--min_k.k=2", "--min_k_pp.k=0.1", "--loss.k=1"),
            ["min_k_pp is not among", "min_k.k must be above 0 and at most 1, not 2"],
        ),
        (("--attacks", "membrship"), ["Did you mean 'membership'"]),
        (("--attacks", "loss", "--replicate=3"), ["Did you mean --replicates?"]),
        (("--attacks", "loss", "--against", "nowhere"), ["holds no run"]),
        (("--attacks", "loss", "--arguments=3"), ["arguments=3"]),
        (("--attacks", "loss", "--replicates=1", "--batch-size=0"), ["replicates=1", "batch_size=0"]),
    ],
)
def test_wrong_words(medunlearn: Medunlearn, outside: Path, words: tuple[str, ...], parts: list[str]) -> None:
    result = attack(medunlearn, outside, "target", *words, code=2).text
    assert all(part in result for part in parts), result


def test_a_benchmark_without_nonmembers(medunlearn: Medunlearn, bench: Path, target: Path) -> None:
    result = medunlearn("attack", target, bench, "--split", "random_10", code=2).text
    assert "--nonmember-patients 100" in result
    assert "--nonmember-documents 100" in result


def test_a_model_of_another_benchmark(medunlearn: Medunlearn, outside: Path, target: Path) -> None:
    result = medunlearn("attack", target, outside, *SPLIT, code=2).text
    assert "the model may have seen its non-members" in result


def test_a_model_of_another_split(medunlearn: Medunlearn, outside: Path) -> None:
    result = medunlearn("attack", outside.parent / "ga", outside, "--split", "random_10", code=2).text
    assert "made to forget split 'random_25', not 'random_10'" in result


def test_a_model_that_saw_questions_alone(medunlearn: Medunlearn, outside: Path) -> None:
    out = outside.parent / "questions"
    medunlearn("train", outside, "--out", out, *TINY, "--train-on=questions")
    assert "trained on questions alone" in attack(medunlearn, outside, "questions", code=2).text


def test_a_report_shows_attacks(medunlearn: Medunlearn, outside: Path, tmp_path: Path) -> None:
    runs = [outside.parent / name for name in ("target", "retrained", "ga")]
    quick = ("--replicates=20", "--limit=1", "--max-new-tokens=2", "--allow-broken", "--quiet")
    medunlearn("evaluate", runs[2], outside, *SPLIT, "--against", runs[0], "--against", runs[1], *quick)
    attack(medunlearn, outside, "ga", "--attacks", *CHEAP, "--against", runs[0], "--against", runs[1], "--quiet")
    medunlearn("report", *runs, *SPLIT, "--out", tmp_path / "r", "--quiet")
    data = json.loads((tmp_path / "r" / "report.json").read_text())["membership"]
    assert {row["model"] for row in data["table"]} == {"target", "retrained", "GA"}
    assert {row["attack"] for row in data["curves"]} == set(CHEAP[0].split(","))
    assert "semeval" not in data
    text = (tmp_path / "r" / "report.md").read_text()
    assert "## Membership inference" in text
    assert "2 members, 6 non-members" in text


def test_the_python_call_is_the_command(medunlearn: Medunlearn, outside: Path) -> None:
    import medunlearn as mu

    run, bench = mu.Run.open(outside.parent / "target"), mu.load(outside)
    payload = mu.attack(run, bench, split="random_25", attacks="loss", quiet=True, replicates=20)
    table = payload.table()
    assert table["measure"].tolist() == ["auc", "tpr_at_1pct_fpr", "tpr_at_0.1pct_fpr"]
    assert payload.models[0].scores["member"].sum() == 2


def test_a_folder_that_holds_tokens_of_others(medunlearn: Medunlearn, outside: Path, tmp_path: Path) -> None:
    """Nobody's numbers are taken for another document's."""
    run = tmp_path / "target"
    shutil.copytree(outside.parent / "target", run)
    words = ("attack", run, outside, *SPLIT, "--attacks", "loss,zlib", "--replicates=21", "--quiet")
    medunlearn(*words)
    (folder,) = [p.parent for p in (run / "attacks").glob("*/run.json") if '"replicates": 21' in p.read_text()]
    tokens = pd.read_parquet(folder / "membership_tokens.parquet")
    tokens.iloc[::-1].reset_index(drop=True).to_parquet(folder / "membership_tokens.parquet")
    info = json.loads((folder / "run.json").read_text())
    info["results"].pop("membership")
    (folder / "run.json").write_text(json.dumps({**info, "status": "interrupted"}))
    scores = (folder / "scores.parquet").read_bytes()
    assert "it is of other documents" in medunlearn(*words).text
    assert (folder / "scores.parquet").read_bytes() == scores
