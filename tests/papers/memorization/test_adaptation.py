"""The paper's experiment in small: three steps, four models, and the report with the paper's tables and figures."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from pages import ROOT

import medunlearn as mu
from medunlearn.config.reading import merged
from medunlearn.errors import ConfigError
from medunlearn.papers.memorization.adaptation import BASE, Adapted, plan
from medunlearn.papers.memorization.report import findings
from medunlearn.results.runs import Run

FILE = ROOT / "examples" / "memorization-llama3-8b.yaml"
FEWER: dict[str, Any] = {
    "tiny": {"tiny_width": 32, "tiny_layers": 1, "tiny_vocabulary": 400},
    "steps.pretrained.train.pretrain_epochs": 1,
    "steps.instructed.train.epochs": 1,
    "steps.instructed.options": {"limit": 8, "max_new_tokens": 4, "prompts": ["another"], "replicates": 20},
    "steps.diagnosing.train.epochs": 1,
    "steps.diagnosing.train.watch": {"new_tokens": 31, "replicates": 20, "limit": 4},
    "audit.identifiers": None,  # tests/audit/identifiers has them; their recall alone takes seconds
    "audit.limit": 3,
    "audit.max_new_tokens": 50,
    "audit.replicates": 20,
    "audit.measures": ["run_30", "run_50", "rouge_l"],
    "audit.decodings": ["greedy", "top_k=2"],
}


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Adapted:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        done: Any = mu.run(FILE, scale="tiny", out=tmp_path_factory.mktemp("adapted"), quiet=True, **FEWER)
    return done


def test_each_step_starts_from_the_model_before(adapted: Adapted) -> None:
    assert list(adapted.models) == [BASE, "pretrained", "instructed", "diagnosing"]
    folders = list(adapted.models.values())
    assert [Run.open(folder).info["lineage"][0] for folder in folders[1:]] == folders[:-1]


def test_every_table_and_figure_is_there_or_named_as_missing(adapted: Adapted) -> None:
    text = adapted.report.with_suffix(".md").read_text(encoding="utf-8")
    titles = "\n".join(re.findall(r"^#+ .*$", text.partition("What the paper published")[0], re.MULTILINE))
    missing = {name: how for name, how in adapted.content.missing if name != "Comparison with baselines"}
    named = {f"{kind} {n}" for kind, last in (("Table", 10), ("Figure", 8)) for n in range(1, last + 1)}
    shown = {name for name in named if re.search(rf"{name}\b", titles)}
    lacking = {name for name in named for part in missing if re.search(rf"{name}\b", part)}
    assert shown | lacking == named
    assert not shown & lacking
    assert lacking == {"Table 9", "Table 10"}, "identifiers are not searched here"


def test_a_model_is_judged_on_the_texts_that_it_was_trained_on(adapted: Adapted) -> None:
    """Texts of later steps are unseen, and a claim on training compares with a model that never saw the text."""
    steps = ["pretrained", "instructed", "diagnosing"]
    own = {
        screen.extraction.label: [corpus.corpus for corpus in screen.extraction.corpora]
        for screen in adapted.content.screens
    }
    assert {label: set(corpora) for label, corpora in own.items()} == {
        step: set(steps[: place + 1]) for place, step in enumerate(steps)
    }
    (finding,) = [each for each in findings(adapted.content) if each.name == "above baseline"]
    cases = {(*case.labels["model"].split(" − "), case.labels["where"].partition(",")[0]) for case in finding.cases}
    assert cases == {
        *((step, BASE, corpus) for step, corpora in own.items() for corpus in corpora),
        *((after, before, after) for before, after in pairwise(steps)),
    }


def test_members_and_non_members(adapted: Adapted) -> None:
    """Table 6: the mean over all questions is that over members and non-members, weighted by their numbers."""
    table = adapted.content.tables["answers"]
    rates = table[(table["measure"] == "accuracy_letter") & (table["model"] == "instructed")].set_index("group")
    assert rates.loc["member", "n"] + rates.loc["non-member", "n"] == rates.loc["all", "n"] == 8
    parts = sum(rates.loc[group, "value"] * rates.loc[group, "n"] for group in ("member", "non-member"))
    assert parts == pytest.approx(8 * rates.loc["all", "value"])


def test_diagnoses_are_in_the_same_report(adapted: Adapted) -> None:
    accuracy: pd.DataFrame = adapted.content.tables["accuracy"]
    assert set(accuracy["k"]) == {1, 2, 3}
    assert set(accuracy["model"]) == {"instructed", "diagnosing"}


def test_the_paper_s_training_is_in_4_bits() -> None:
    adaptation = plan(merged(FILE, {}))
    assert {training.quantize for training in adaptation.trainings.values()} == {"nf4"}
    assert adaptation.trainings["instructed"].trainable == "lora:16:64"
    cost = adaptation.forecast()
    assert 5e9 < cost.capacity.needed(cost.total.memory) < 80e9
    assert not [stage.name for stage in cost.stages if stage.name.startswith("train") and not stage.cost.flops]


def test_mistakes_are_told_before_anything_runs() -> None:
    values = merged(FILE, {"relations.baselines": {}, "audit.limti": 3, "steps.instructed.train.lr": -1})
    values["steps"]["pretrained"] = {"benchmark": {}, "train": {"model": "x"}}
    with pytest.raises(ConfigError) as refused:
        plan(values)
    problems = "\n".join(refused.value.problems)
    for words in ("relations.baselines follows", "audit: ", "limit", "steps.instructed.train: lr", "leave it out"):
        assert words in problems
    with pytest.raises(ConfigError, match="has no experiment of its own"):
        mu.plan({**values, "paper": "lume"})
