"""``build medforget`` and ``inspect`` on what it builds; every command of docs/papers.md on it."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pages import Page
from PIL import Image

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.images import read_image
from medunlearn.synthetic.mimic_layout import write_mimic_layout

Medunlearn = Callable[..., Any]
PAGE = Page.read("papers/medforget.md", "MedForget build")
OPENI = Path(__file__).parents[3] / "shared" / "data" / "openi"
SIZE = ("--institutions", 2, "--studies", 2)
TINY = (*SIZE, "--image-size=48")
SAME = ["question_id", "fold", "kind", "level", "question", "answer", "answer_index"]


@pytest.fixture(scope="module")
def invented(medunlearn: Medunlearn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("medforget") / "bench"
    medunlearn("build", "medforget", "--synthetic", 4, *TINY, "--out", out)
    return out


@pytest.fixture(scope="module")
def mimic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mimic_layout(tmp_path_factory.mktemp("layout"), patients=4, studies=2, image_size=48)


def questions(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "questions.parquet")[SAME]


def test_every_record_has_an_image_that_is_there(invented: Path) -> None:
    bench = Benchmark.load(invented)
    images = {record.image for record in bench.records}
    assert len(images) == 2 * 2 * 2 * 2
    views = [read_image(invented / str(image)) for image in images]
    assert {image.shape for image in views} == {(48, 48)}
    assert len({image.tobytes() for image in views}) == len(images)
    turned = {record.image for record in bench.records if record.fold == "rephrase"}
    assert all(str(image).endswith("-turned.png") for image in turned)
    table = pd.read_parquet(invented / "images.parquet")
    assert set(table["angle"]) <= {0, -30, -15, 15, 30}
    assert set(table.loc[table["view"] == "turned", "angle"]) <= {-30, -15, 15, 30}


def test_all_folds_have_one_resolution_and_no_image_more_pixels(
    medunlearn: Medunlearn, mimic: Path, tmp_path: Path
) -> None:
    build = ("build", "medforget", "--mimic-cxr", mimic, *SIZE, "--patients", 2, "--out")
    medunlearn(*build, tmp_path / "small", "--max-pixels", 1100)
    bench = Benchmark.load(tmp_path / "small")
    shapes = {r.fold: set[tuple[int, ...]]() for r in bench.records}
    for record in bench.records:
        shapes[record.fold].add(read_image(tmp_path / "small" / str(record.image)).shape)
    assert shapes == {"train": {(33, 33)}, "rephrase": {(33, 33)}}
    # Images that have fewer stay where they are.
    medunlearn(*build, tmp_path / "large", "--max-pixels", 48 * 48)
    own = {r.image for r in Benchmark.load(tmp_path / "large").records if r.fold == "train"}
    assert all(str(image).startswith("..") for image in own)


def test_the_same_again_is_left_as_it_is_and_another_is_refused(medunlearn: Medunlearn, invented: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in invented.rglob("*") if path.is_file()}
    medunlearn("build", "medforget", "--synthetic", 4, *TINY, "--out", invented)
    result = medunlearn("build", "medforget", "--synthetic", 4, *TINY, "--seed", 1, "--out", invented, code=2)
    assert "contains another benchmark" in result.text
    assert before == {path: path.stat().st_mtime_ns for path in invented.rglob("*") if path.is_file()}


def test_the_same_seed_gives_the_same_bytes(medunlearn: Medunlearn, invented: Path, tmp_path: Path) -> None:
    medunlearn("build", "medforget", "--synthetic", 4, *TINY, "--out", tmp_path / "b")
    for name in ("records.parquet", "questions.parquet", "splits.parquet", "images.parquet"):
        assert (invented / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_inspect_shows_levels_counts_and_partitions(medunlearn: Medunlearn, invented: Path) -> None:
    payload = json.loads(medunlearn("inspect", invented, "--json").stdout)
    assert payload["images"] == 16
    rows = {row["split"]: row for row in payload["partitions"]}
    assert set(rows) == {"institution_25", "patient_25", "study_25", "section_25", "flat_25"}
    assert rows["institution_25"]["forget"] == 2 * 2 * (4 * 3 + 3)
    assert rows["patient_25"]["forget"] == 2 * (4 * 3 + 2)
    result = medunlearn("inspect", invented).stdout
    assert "16 images are there" in result
    assert "institution" in result


def test_inspect_finds_an_image_that_was_changed_or_lost(medunlearn: Medunlearn, tmp_path: Path) -> None:
    out = tmp_path / "b"
    small = ("--institutions", 1, "--studies", 1, "--image-size=32")
    medunlearn("build", "medforget", "--synthetic", 2, *small, "--out", out)
    image = out / str(Benchmark.load(out).records[0].image)
    whole = image.read_bytes()
    image.write_bytes(whole[:-1])
    assert "was changed after" in medunlearn("inspect", out, code=2).text
    image.unlink()
    assert f"{image.name} of" in medunlearn("inspect", out, code=2).text


def test_mimic_cxr_made_of_invented_files_builds_what_was_invented(
    medunlearn: Medunlearn, invented: Path, mimic: Path, tmp_path: Path
) -> None:
    out = tmp_path / "b"
    medunlearn("build", "medforget", "--mimic-cxr", mimic, *SIZE, "--patients", 2, "--out", out)
    assert questions(out).equals(questions(invented))
    own, read = Benchmark.load(invented), Benchmark.load(out)
    assert [(r.record_id, r.text, r.groups) for r in read.records] == [
        (r.record_id, r.text, r.groups) for r in own.records
    ]
    assert read.splits == own.splits
    assert (read.data_use, own.data_use) == ("credentialed", "open")
    for own_record, other in zip(own.records, read.records, strict=True):
        if own_record.fold == "train":
            # Credentialed images stay where they are.
            assert (out / str(other.image)).resolve().is_relative_to(mimic.resolve())
            phantom, photo = (
                read_image(f / str(r.image)).astype(int) for f, r in ((invented, own_record), (out, other))
            )
            assert np.abs(phantom - photo).mean() < 4
    assert len(list((out / "images").iterdir())) == 8
    studies = pd.read_parquet(out / "studies.parquet")
    assert set(studies["source_patient"]) == {path.name for path in (mimic / "files" / "p10").iterdir()}
    assert "Pleural Effusion" in " ".join(studies["labels"])


def test_images_are_copied_where_that_is_asked(medunlearn: Medunlearn, mimic: Path, tmp_path: Path) -> None:
    out = tmp_path / "b"
    words = (*SIZE, "--patients", 2, "--copy-images", "--views=same", "--out", out)
    medunlearn("build", "medforget", "--mimic-cxr", mimic, *words)
    assert {str(record.image).split("/")[0] for record in Benchmark.load(out).records} == {"images"}
    assert len(list((out / "images").iterdir())) == 8


def test_a_truncated_image_is_left_out_and_counted(medunlearn: Medunlearn, tmp_path: Path) -> None:
    folder = write_mimic_layout(tmp_path / "m", patients=3, studies=1, image_size=32)
    words = ("--mimic-cxr", folder, "--institutions", 1, "--studies", 1, "--patients")
    medunlearn("build", "medforget", *words, 2, "--out", tmp_path / "whole")
    table = pd.read_parquet(tmp_path / "whole" / "images.parquet")
    assert set(table["position"]) <= {"PA", "AP"}
    image = (tmp_path / "whole" / table["image"][0]).resolve()
    image.write_bytes(image.read_bytes()[:-40])
    # Another patient is drawn in place of the one whose only study cannot be shown.
    medunlearn("build", "medforget", *words, 2, "--out", tmp_path / "b")
    reasons = ["its image cannot be read to its end", "has 0 of the 1 studies needed"]
    assert list(pd.read_parquet(tmp_path / "b" / "excluded.parquet")["reason"]) == reasons
    studies = pd.read_parquet(tmp_path / "b" / "studies.parquet")
    assert len(set(studies["source_patient"]) - {image.parts[-3]}) == 2
    result = medunlearn("build", "medforget", *words, 3, "--out", tmp_path / "c", code=2)
    assert "1 x study: its image cannot be read to its end" in result.text
    assert not (tmp_path / "c" / "benchmark.yaml").exists()


def test_a_truncated_general_image_costs_its_row(medunlearn: Medunlearn, tmp_path: Path) -> None:
    general_files(tmp_path / "pmc-vqa")
    for number in range(3):
        (tmp_path / "pmc-vqa" / "images" / f"{number}.png").write_bytes(b"\x89PNG")
    words = ("--synthetic", 2, "--institutions", 1, "--studies", 1, "--image-size", 32, "--general-rows", 58)
    general = tmp_path / "pmc-vqa" / "test.csv"
    medunlearn("build", "medforget", *words, "--general", general, "--out", tmp_path / "b")
    excluded = pd.read_parquet(tmp_path / "b" / "excluded.parquet")
    assert list(excluded["reason"]) == ["its image cannot be read to its end"] * 3
    assert sum(record.fold == "utility" for record in Benchmark.load(tmp_path / "b").records) == 57


def test_studies_without_image_are_left_out_and_counted(medunlearn: Medunlearn, tmp_path: Path) -> None:
    folder = write_mimic_layout(tmp_path / "m", patients=3, studies=2, image_size=0)
    size = ("--institutions", 1, "--patients", 3, "--studies", 2)
    result = medunlearn("build", "medforget", "--mimic-cxr", folder, *size, "--out", tmp_path / "b", code=2)
    assert "6 x study: it has no image" in result.text
    assert "--text-only" in result.text
    medunlearn("build", "medforget", "--mimic-cxr", folder, *size, "--text-only", "--out", tmp_path / "b")
    assert not any(record.image for record in Benchmark.load(tmp_path / "b").records)


def openi_files(folder: Path, count: int) -> None:
    folder.mkdir()
    names = ("uid", "MeSH", "Problems", "image", "indication", "comparison", "findings", "impression")
    with (folder / "indiana_reports.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(names)
        for n in range(count):
            texts = (f"Pain for {n} days", "None.", f"Nodule of {n} mm. XXXX clear.", f"Granuloma number {n}.")
            rows.writerow((n, "normal", "normal", f"Chest film {n}, PA", *texts))


def own_files(folder: Path) -> None:
    with (folder / "images.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("patient", "study", "image", "report"))
        for n in range(4):
            shade = np.random.default_rng(n).integers(0, 255, (40, 32)).astype(np.uint8)
            Image.fromarray(shade).save(folder / f"{n}.png")
            text = f"EXAMINATION: Film {n}.\nINDICATION: Pain {n}.\nFINDINGS: Scar {n}.\nIMPRESSION: Old scar {n}."
            rows.writerow((f"p{n // 2}", f"s{n}", f"{n}.png", text))


def general_files(folder: Path) -> None:
    (folder / "images").mkdir(parents=True)
    with (folder / "test.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("Figure_path", "Question", "Answer", *(f"Choice {x}" for x in "ABCD"), "Answer_label"))
        for n in range(60):
            Image.fromarray(np.full((8, 8), n, dtype=np.uint8)).save(folder / "images" / f"{n}.png")
            rows.writerow((f"{n}.png", f"What is {n}?", "bone", "A:lung", "B:bone", "C:heart", "D:skin", "B"))


def test_the_page_runs(medunlearn: Medunlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["--institutions", "1", "--studies", "2", "--image-size=32"]
    openi_files(tmp_path / "openi", 9)
    own_files(tmp_path)
    general_files(tmp_path / "pmc-vqa")
    write_mimic_layout(tmp_path / "mimic-cxr", patients=2, studies=2, image_size=0)
    write_mimic_layout(tmp_path / "mimic-cxr-jpg", patients=2, studies=2, image_size=32)
    lines = PAGE.commands
    assert len(lines) == 7
    for line in lines:
        words = shlex.split(line.replace("--synthetic 64", "--synthetic 2"))[1:]
        more = [] if "--institutions" in line or words[0] != "build" else small
        more = more if "--synthetic" in line or not more else [*more, "--patients=2"]
        medunlearn(*words, *(more if "--image-size=64" not in line else ["--studies=1"]))
    bench = Benchmark.load(tmp_path / "openi-bench")
    assert bench.notes["patients"].startswith("composed")
    assert {record.groups["composition"] for record in bench.records} == {"composed"}
    assert all(question.provenance.startswith("openi-composed:") for question in bench.questions)
    assert not any(record.image for record in bench.records)
    own = Benchmark.load(tmp_path / "own-bench")
    assert own.data_use == "open"
    films = [record for record in own.records if record.text.startswith("Film") and record.fold == "train"]
    assert {record.text[5]: record.image for record in films} == {str(n): f"../{n}.png" for n in range(4)}
    general = Benchmark.load(tmp_path / "general-bench")
    utility = [question for question in general.questions if question.fold == "utility"]
    assert len(utility) == 150
    assert all(general.sides(split)[q.record_id] == "retain" for split in general.splits.values() for q in utility)
    image = general.record[utility[0].record_id].image
    assert (tmp_path / "general-bench" / str(image)).exists()


def test_the_python_of_the_page_runs() -> None:
    (code,) = PAGE.blocks("python")
    scope: dict[str, Any] = {}
    exec(code, scope)
    assert len({view.tobytes() for view in scope["views"]}) == 5


def test_every_setting_of_the_page_is_one() -> None:
    from medunlearn.papers.medforget.settings import MedforgetSettings

    named = Page.read("papers/medforget.md", "MedForget build", "MedForget questions", "MedForget splits").flags
    assert named <= set(MedforgetSettings.model_fields) | {"split", "llm", "llm.model", "allow_remote_llm"}


def test_a_plan_of_an_experiment_draws_nothing(medunlearn: Medunlearn, tmp_path: Path) -> None:
    lines = ["benchmark: {builder: medforget, synthetic: 4, institutions: 2, studies: 2}"]
    lines += ["name: plan", "split: study_25", "unlearn: {methods: [ga], epochs: 1}"]
    lines += ["train: {model: tiny, tiny_width: 32, tiny_layers: 2, epochs: 1, precision: fp32}"]
    (tmp_path / "e.yaml").write_text("\n".join(lines))
    medunlearn("run", tmp_path / "e.yaml", "--plan", "--out", tmp_path / "r")
    assert not list(tmp_path.rglob("*.png"))


def test_python_and_experiments_build_the_same(invented: Path, tmp_path: Path) -> None:
    import medunlearn as mu
    from medunlearn.study.benchmark_builds import from_section

    size = {"synthetic": 4, "institutions": 2, "studies": 2, "image_size": 48}
    payload = mu.build.medforget(out=tmp_path / "a", **size)
    assert payload.fingerprint == Benchmark.load(invented).fingerprint
    section = {"builder": "medforget", **size}
    assert from_section(section, tmp_path / "a").fingerprint == payload.fingerprint
    text = mu.build.medforget(text_only=True, **size)
    assert not any(record.image for record in text.records)


@pytest.mark.skipif(not OPENI.exists(), reason="the Open-i reports (../shared/data/openi) are not here")
def test_the_real_open_i_gives_64_composed_patients(medunlearn: Medunlearn, tmp_path: Path) -> None:
    payload = json.loads(
        medunlearn("build", "medforget", "--openi", OPENI, "--out", tmp_path / "b", "--json").stdout
    )
    assert payload["counts"]["subjects"] == 64
    assert payload["counts"]["questions_train"] == 3840
    bench = Benchmark.load(tmp_path / "b")
    assert not any("XXXX" in record.text for record in bench.records)
    assert all("___" not in question.answer for question in bench.questions if question.kind == "cloze")


VISION = Page.read("papers/medforget.md", "Vision-language models")
SMALL_VISION = {
    "build": ["--synthetic=4", "--studies", "1", "--rephrase=none", "--image-size=32"],
    "train": ["--tiny-width=16", "--tiny-layers=1", "--epochs=1", "--precision=fp32"],
    "unlearn": ["--epochs=1", "--precision=fp32"],
    "evaluate": ["--allow-broken", "--max-new-tokens=2", "--replicates=5", "--limit=1"],
    "export": [],
}


def test_the_page_on_vision_models_runs(
    medunlearn: Medunlearn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = VISION.commands
    assert len(lines) == 7
    for line in lines:
        words = [word for word in shlex.split(line)[1:] if word != "--image-size=64"]
        medunlearn(*words, *SMALL_VISION[words[0]], *([] if words[0] == "export" else ["--quiet"]))
    assert (tmp_path / "hf" / "preprocessor_config.json").exists()
