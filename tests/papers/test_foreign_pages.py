"""No page names a paper that its benchmark is not of: every builder, runs and sweeps, with and without attacks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_folders import write_run
from sweep_folders import Model, SweepFolder, own_part

from medunlearn.attacks import attack_class, families
from medunlearn.attacks.recovery.recovery_results import subject_means, summarize_strengths
from medunlearn.config import EvaluateSettings, check
from medunlearn.config.clinical_notes import NotesSettings
from medunlearn.data.benchmark import Benchmark
from medunlearn.notes.note_benchmark import build as build_notes
from medunlearn.paper import installed_papers, paper_of
from medunlearn.papers.amnesia.build import build as build_amnesia
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.papers.lume.invented import build as build_lume
from medunlearn.papers.lume.settings import LumeNewSettings
from medunlearn.papers.medforget.build import build as build_medforget
from medunlearn.papers.medforget.settings import MedforgetSettings
from medunlearn.papers.muse.build import build as build_muse
from medunlearn.papers.muse.settings import MuseSettings
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.papers.sweeps.report import sweep_report
from medunlearn.papers.tofu.build import build as build_tofu
from medunlearn.papers.tofu.settings import TofuSettings
from medunlearn.probes.score import write_tables
from medunlearn.reports.blocks import Choice, Table, figures_of
from medunlearn.reports.write import write_report
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.scores import measured, question_labels, write_scores
from medunlearn.seeds import generator
from medunlearn.study.report.gather import gather

METHODS = ("npo", "graddiff")
RELEARNED = (attack_class("relearning").before, "8 steps")
SHARES = {"target": 0.9, "retrained": 0.3, "unlearned": 0.4}
NAMES = {
    "amnesia": ("AMNESIA", "LLaMA-3-8B", "8,820 patients", "scispaCy", "PubMedBERT"),
    "medforget": ("MedForget", "Lingshu", "MIMIC-CXR", "Gen Score"),
    "lume": ("LUME", "SemEval"),
    "tofu": ("TOFU", "forget quality", "locuslab"),
    "muse": ("MUSE", "PrivLeak", "Harry Potter"),
    "memorization": ("Memorization in", "MIMIC-IV"),
}
"""Words that only a page on the paper's own benchmark may hold, besides its sentences and published numbers."""
FILES = ("report", "published", "findings", "claims", "diagnosis", "recommendations")


class AnyFolder(SweepFolder):
    """Models of any benchmark, with every measure that its paper scores."""

    attacked = False
    summarized = False  # here, but by write_more
    titles = {"npo": "NPO", "graddiff": "GradDiff"}  # noqa: RUF012

    def scores(self, meta: pd.DataFrame, model: Model) -> pd.DataFrame:
        rng = generator("foreign", model.role, model.method, model.asked, model.seed)
        known = 0.9 if model.role != "target" else SHARES["target"]
        share = meta["side"].map({"forget": SHARES[model.role], "retain": known})
        measures = (*paper_of(self.benchmark.builder).measures[:5], "ranked_first")
        rows = [
            pd.DataFrame(
                {
                    "question_id": meta["question_id"],
                    "metric": measure,
                    "value": (share + rng.normal(0, 0.05, len(meta))).clip(0, 1),
                }
            )
            for measure in measures
        ]
        return pd.concat(rows, ignore_index=True)

    def write_more(self, run: Path, meta: pd.DataFrame, model: Model, label: str) -> None:
        """The evaluation's tables as `score` writes them, and scores of models under a recovery attack."""
        split = self.benchmark.split(model.asked)
        questions = [q for q in self.benchmark.questions if q.question_id in set(meta["question_id"])]
        labels = question_labels(self.benchmark, split, questions)
        settings = EvaluateSettings(split=model.asked, replicates=20)
        own = self.scores(meta, model)
        record = run / "evaluations" / f"{model.asked}-{model.context}"
        own = own.assign(value=own["value"].astype("Float64"), reason=pd.array([None] * len(own), dtype="string"))
        write_tables(record, self.benchmark, settings, measured(own, labels))
        if not self.attacked:
            return
        folder, inputs = run / "attacks" / model.asked, {"benchmark": self.benchmark.fingerprint}
        config = {"split": model.asked, "attacks": ["relearning"], "arguments": {}, "seed": 0, "weights": "fp32"}
        results = {"relearning": {"strengths": list(RELEARNED[1:])}}
        write_run(folder, "attack", label, config=config, results=results, inputs=inputs)
        own = own[own["metric"].isin(["rouge_l", "exact_match", "em"])]
        states = [
            measured(own.assign(value=(own["value"] + 0.3 * place).clip(0, 1)), labels).assign(
                attack="relearning", strength=strength
            )
            for place, strength in enumerate(RELEARNED)
        ]
        scores, family = pd.concat(states, ignore_index=True), families()["relearning"]
        write_scores(folder, scores)
        summarize_strengths(scores, RELEARNED[0], replicates=20, seed=0).to_parquet(folder / family.summary_file)
        subject_means(scores).to_parquet(folder / family.subjects_file)


@pytest.fixture(scope="module")
def notes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        f'{number},"Mr. Arno Field{number} was admitted on 2021-03-{10 + number} with a heart rate of '
        f'{60 + number} beats per minute. He was given metoprolol {number + 5} mg and left on day {number}."'
        for number in range(1, 13)
    ]
    path = tmp_path_factory.mktemp("notes") / "notes.csv"
    path.write_text("patient,note\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


Build = Callable[[pytest.FixtureRequest], Benchmark]
BUILDS: dict[str, Build] = {
    "amnesia": lambda _: build_amnesia(AmnesiaSettings(synthetic=24)),
    "medforget": lambda _: build_medforget(
        MedforgetSettings(synthetic=8, institutions=4, studies=1, percents=(50,), text_only=True)
    ),
    "lume": lambda _: build_lume(
        check(
            LumeNewSettings,
            {"stories": 8, "personal_biographies": 8, "public_biographies": 8, "nonmembers": 4},
        )
    ),
    "tofu": lambda request: build_tofu(
        TofuSettings(released=str(request.getfixturevalue("tofu_files")), questions_an_author=4)
    ),
    "muse": lambda request: build_muse(MuseSettings(released=str(request.getfixturevalue("muse_files")))),
    "notes": lambda request: build_notes(NotesSettings(notes=str(request.getfixturevalue("notes_file")))),
    "haiku": lambda _: replace(build_amnesia(AmnesiaSettings(synthetic=24)), builder="haiku", name="Haiku"),
}


def sentences(value: Any) -> Iterator[str]:
    """Texts of at least four words in nested data."""
    if isinstance(value, dict):
        for item in value.values():
            yield from sentences(item)
    elif isinstance(value, list):
        for item in value:
            yield from sentences(item)
    elif isinstance(value, str) and len(value.split()) >= 4 and "{" not in value:
        yield " ".join(value.split())


def foreign_words(builder: str) -> set[str]:
    """Names, sentences and settings of published numbers of every paper but the benchmark's own."""
    words: set[str] = set()
    for paper in installed_papers():
        if paper.name == builder:
            continue
        words |= set(NAMES.get(paper.name, ()))
        for name in FILES:
            if (file := paper.file(f"{name}.yaml")) is not None and file.is_file():
                words |= set(sentences(paper_yaml(paper.name, name)))
    own = {" ".join(text.split()) for text in _own_sentences(builder)}
    return words - own


def _own_sentences(builder: str) -> Iterator[str]:
    for name in FILES:
        if (file := paper_of(builder).file(f"{name}.yaml")) is not None and file.is_file():
            yield from sentences(paper_yaml(builder, name))


def text_of(folder: Path) -> str:
    """The three files' texts without the plotting library and styles."""
    page = own_part((folder / "report.html").read_text("utf-8"))
    page = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", page, flags=re.DOTALL)
    others = (folder / "report.md").read_text("utf-8") + (folder / "report.json").read_text("utf-8")
    return " ".join((page + others).split())


@dataclass(frozen=True)
class Pages:
    """Models of a builder on two splits, made once, and pages of them."""

    folder: Path
    benchmark: Benchmark
    models: tuple[Evaluated, ...]

    @property
    def splits(self) -> list[str]:
        return list(self.benchmark.splits)[:2]

    def write(self, way: str) -> Any:
        """The report of the first split's runs, or of a sweep over both, written into a folder of its own."""
        if way == "run":
            own = [model for model in self.models if model.record.info.split == self.splits[0]]
            report: Any = gather("A report", own, self.benchmark, replicates=20)
        else:
            report = sweep_report(self.models, self.benchmark, title="A sweep", replicates=20).report
        write_report(report, self.folder / way)
        return report


@pytest.fixture(scope="module")
def pages_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Pages]:
    """Pages by builder, with or without attacks."""
    made: dict[tuple[str, bool], Pages] = {}

    def of(builder: str, request: pytest.FixtureRequest, *, attacked: bool) -> Pages:
        if (builder, attacked) not in made:
            benchmark, folder = BUILDS[builder](request), tmp_path_factory.mktemp(builder)
            files = AnyFolder(folder / "runs", benchmark)
            files.attacked = attacked
            models = files.all(list(benchmark.splits)[:2], METHODS)
            made[builder, attacked] = Pages(folder, benchmark, tuple(models))
        return made[builder, attacked]

    return of


# The report of a run is one for all papers: two see the words of each.
WAYS = [*((builder, "sweep", True) for builder in BUILDS), ("lume", "run", True), ("notes", "run", True)]
WAYS += [("lume", "sweep", False)]


@pytest.mark.parametrize(("builder", "way", "attacked"), WAYS)
def test_no_page_names_another_paper(
    builder: str, way: str, attacked: bool, pages_of: Callable[..., Pages], request: pytest.FixtureRequest
) -> None:
    pages = pages_of(builder, request, attacked=attacked)
    assert pages.benchmark.builder == builder
    report = pages.write(way)
    text = text_of(pages.folder / way)
    assert "NPO" in text
    assert "GradDiff" in text
    lower = text.lower()
    assert [
        (word, text[max(0, at - 60) : at + 60])
        for word in sorted(foreign_words(builder))
        if (at := lower.find(word.lower())) >= 0
    ] == []
    if attacked:
        assert "Relearning" in text
        assert "8 steps" in text
    if way == "sweep" and builder in ("amnesia", "medforget", "haiku"):
        _shows_ranks_distance_and_what_brings_it_back(pages, report)


def _shows_ranks_distance_and_what_brings_it_back(pages: Pages, report: Any) -> None:
    """In all three files, of every split; the page of a paper has the same first screen as any other."""
    folder = pages.folder / "sweep"
    choice = next(block for block in report.blocks if isinstance(block, Choice))
    assert [name for name, _ in choice.options] == pages.splits
    firsts = [next(block for block in inside if isinstance(block, Table)) for _, inside in choice.options]
    markdown = (folder / "report.md").read_text("utf-8")
    data = json.loads((folder / "report.json").read_text("utf-8"))["parts"]
    for split, table in zip(pages.splits, firsts, strict=True):
        assert [cell.text for cell in table.columns] == [
            *("Model", "Utility", "Forgetting", "Ranked first", "Distance", "CPU s", "What brings it back"),
        ]
        rows = {row["model"]: row for row in data[split]["standings"]}
        assert set(rows) == {"target", "retrained", "NPO", "GradDiff"}
        for cells in table.rows:
            label, row = cells[0].text, rows[cells[0].text]
            assert cells[3].text == f"{row['ranked_first']['value']:.3f}"
            assert cells[4].text == ("reference" if label == "retrained" else f"{row['distance']:.3f}")
            assert (cells[5].text, row["cpu_seconds"]) == ("2.5", 2.5)
            assert cells[3].text in markdown
        assert rows["target"]["ranked_first"]["value"] > rows["retrained"]["ranked_first"]["value"] + 0.3
        assert all(rows[label]["brought_back"] for label in ("NPO", "GradDiff"))
    names = {figure.name for figure in figures_of([choice])}
    assert {"trade-off", "ranked-first"} <= names
    assert "no case" not in markdown.lower()


def test_foreign_words_are_told() -> None:
    """The test would see AMNESIA's page on another benchmark."""
    words = foreign_words("lume")
    assert {"AMNESIA", "LLaMA-3-8B", "8,820 patients"} <= words
    assert any(word in words for word in sentences(paper_yaml("amnesia", "report")))
    assert "LUME" not in words
    assert len(foreign_words("haiku")) > len(words)
