"""MedForget's construction and partitions, at the paper's size and at any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate, combinations, product
from operator import mul
from pathlib import Path

import pytest
from choices import one_is_right
from hypothesis import given, settings
from hypothesis import strategies as st

from medunlearn.attacks.reconstruction.contexts import node_names
from medunlearn.build import medforget
from medunlearn.config import check
from medunlearn.data.answer_texts import BLANK, normalised, stands_in
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.image_files import FILE
from medunlearn.data.records import Record
from medunlearn.data.splits import share
from medunlearn.data.storage import read_table
from medunlearn.data.studies_of_patients import StudyImage, distinct_views
from medunlearn.errors import ConfigError, InputError
from medunlearn.papers.medforget.build import Illustrated, assemble, build, open_source
from medunlearn.papers.medforget.items import sentences, wrong_cloze
from medunlearn.papers.medforget.partitions import LEVELS, partition_rows, partitions
from medunlearn.papers.medforget.questions import templated
from medunlearn.papers.medforget.selection import select
from medunlearn.papers.medforget.settings import MedforgetSettings


def made(**values: object) -> Benchmark:
    patients = values.get("institutions", 8) * values.get("patients", 8)
    return build(check(MedforgetSettings, {"synthetic": patients, "text_only": True, **values}))


@pytest.fixture(scope="module")
def paper() -> Benchmark:
    """The paper's size, without images: nothing is drawn."""
    return made()


@pytest.fixture(scope="module")
def small() -> Benchmark:
    return made(institutions=2, patients=4)


def train(benchmark: Benchmark) -> Counter[str]:
    return Counter(question.kind for question in benchmark.questions if question.fold == "train")


def test_the_papers_counts(paper: Benchmark) -> None:
    """MedForget, Section 3.4: 8, 64, 256 and 1,024 nodes; 3,840 questions, 768 of identity."""
    assert [len(paper.hierarchy.nodes(level)) for level in LEVELS] == [8, 64, 256, 1024]
    assert train(paper) == {"identity": 768, "generation": 1024, "cloze": 1024, "classification": 1024}
    identity = Counter(q.level for q in paper.questions if q.kind == "identity" and q.fold == "train")
    assert identity == {"institution": 256, "patient": 256, "study": 256}
    assert sum(question.fold == "rephrase" for question in paper.questions) == 3840


def test_the_papers_partitions(paper: Benchmark) -> None:
    """MedForget, Section 3.4: 2 institutions, 16 patients, 64 studies, 256 sections; 960 questions at the top."""
    rows = {row["split"]: row for row in partition_rows(paper)}
    nodes = {name: row["forget_nodes"] for name, row in rows.items()}
    assert nodes == {"institution_25": 2, "patient_25": 16, "study_25": 64, "section_25": 256, "flat_25": 448}
    # 768 on sections; of identity 64 a level, those of the split's level and below (Table 2).
    assert {name: row["forget"] for name, row in rows.items()} == {
        "institution_25": 768 + 192,
        "patient_25": 768 + 128,
        "study_25": 768 + 64,
        "section_25": 768,
        "flat_25": 960,
    }
    for row in rows.values():
        assert row["forget"] + row["retain"] == 3840  # type: ignore[operator]
        assert row["rephrased"] == row["forget"]
        assert row["forget_cloze"] == row["forget_classification"] == row["forget_generation"] == 256


def test_a_node_is_forgotten_with_all_below_it(paper: Benchmark) -> None:
    for level in LEVELS:
        split = paper.split(f"{level}_25")
        forget = {record.record_id for record in paper.records_of(split, "forget")}
        for record in paper.records:
            assert (record.groups.get(level) in split.forget) == (record.record_id in forget)
        below = LEVELS[LEVELS.index(level) :]
        for finer in below:
            sides = [(r.groups[finer], r.record_id in forget) for r in paper.records if finer in r.groups]
            nodes = [{node for node, is_forgotten in sides if is_forgotten is side} for side in (True, False)]
            assert not nodes[0] & nodes[1]


def test_forgetting_a_study_keeps_what_its_patient_and_institution_are_called(small: Benchmark) -> None:
    for bench, levels in (
        (small, {"study"}),
        (made(institutions=2, patients=4, identity="image"), {"institution", "patient", "study"}),
    ):
        forget = bench.questions_of(bench.split("study_25"), "forget")
        assert {q.level for q in forget if q.kind == "identity"} == levels


def pictured(**values: object) -> Benchmark:
    """Two studies with images that nobody draws."""
    size = {"synthetic": 2, "institutions": 1, "studies": 1, "rephrase": "crossed", "paraphrases": 2}
    crossed = check(MedforgetSettings, size | values)
    source = open_source(crossed)
    selection = select(source, crossed)
    nodes = [study.node for study in selection.studies]
    images = Illustrated(
        {node: (f"{node}.png",) for node in nodes},
        {node: (f"{node}-turned.png",) for node in nodes},
        {node: [(f"{node}-trained-1.png",)] for node in nodes},
    )
    return assemble(source, selection, crossed, templated(selection, crossed), images)


def test_words_and_view_are_varied_together_and_apart() -> None:
    bench = pictured()
    by_id = {question.question_id: question for question in bench.questions}
    plain = [q for q in bench.questions if q.fold == "train" and "variant" not in bench.record[q.record_id].groups]
    assert len(plain) == 2 * (4 * 3 + 3)
    wordings = set[str]()
    for question in plain:
        both, words, view = (
            by_id[f"{question.question_id}-{suffix}"] for suffix in ("rephrased", "reworded", "turned")
        )
        assert {q.fold for q in (both, words, view)} == {"rephrase"}
        assert words.question == both.question != question.question == view.question
        images = [bench.record[q.record_id].image for q in (question, both, words, view)]
        assert images == [images[0], str(images[0]).replace(".png", "-turned.png"), images[0], images[1]]
        assert len({q.answer for q in (question, both, words, view)}) == 1
        trained = [by_id[f"{question.question_id}-paraphrase-{number}"] for number in (1, 2)]
        assert all(q.fold == "train" and q.answer_index == question.answer_index for q in trained)
        # What is trained on holds neither the words nor the view that the rephrased set asks with.
        assert len({q.question for q in (question, *trained)}) > 1
        assert both.question not in {q.question for q in trained}
        first, second = (str(bench.record[q.record_id].image) for q in trained)
        assert (first, second) == (str(images[0]).replace(".png", "-trained-1.png"), images[0])
        options = [line for line in question.question.splitlines() if line[1:2] == ")"]
        assert all(set(options) <= set(q.question.splitlines()) for q in (both, *trained))
        wordings |= {q.question for q in trained}
    assert len(wordings) > len(plain)
    # All are forgotten with the question that they vary, and none is counted among the paper's.
    split = bench.split("section_25")
    sides = bench.sides(split)
    by_item = {record.groups["item"]: sides[record.record_id] for record in bench.records}
    assert all(by_item[record.groups["item"]] == sides[record.record_id] for record in bench.records)
    (row,) = (row for row in partition_rows(bench) if row["split"] == "section_25")
    assert (row["forget"], row["rephrased"]) == (2 * 3, 2 * 3)


def test_a_study_shows_several_images(tmp_path: Path) -> None:
    size = {"synthetic": 2, "institutions": 1, "studies": 1, "sections": 1, "image_size": 32, "paraphrases": 1}
    bench = medforget(out=tmp_path / "two", images_per_study=2, **size)
    assert Benchmark.load(tmp_path / "two").records == bench.records
    files = {row["image"]: row for row in read_table(tmp_path / "two" / FILE)}
    assert {image for record in bench.records for image in record.images} == set(files)
    for record in bench.records:
        front, side = (files[image] for image in record.images)
        assert (front["node"], front["view"]) == (side["node"], side["view"])
        # Both turn alike, and what is not turned is the frontal and the lateral view.
        assert side["angle"] - front["angle"] == 90
        if front["view"] == "drawn":
            assert (front["angle"], side["position"]) == (0, "LATERAL")
    assert len({files[image]["sha256"] for image in files}) == len(files) == 2 * 2 * 3
    (study, _) = read_table(tmp_path / "two" / "studies.parquet")
    assert study["position"].endswith("; LATERAL")
    # One image a study is the first of two, and the same benchmark as ever.
    single = medforget(out=tmp_path / "one", **size)
    assert [r.images for r in single.records] == [r.images[:1] for r in bench.records]
    assert "further_images" not in read_table(tmp_path / "one" / "records.parquet")[0]
    assert single.fingerprint != bench.fingerprint


def test_further_views_come_before_a_second_image_of_the_same() -> None:
    images = [StudyImage(Path(position), position) for position in ("PA", "AP", "LATERAL", "LL")]
    assert [image.position for image in distinct_views(images, 3)] == ["PA", "LATERAL", "AP"]


@pytest.mark.parametrize(("twin", "fold"), [("asked", "rephrase"), ("trained", "train")])
def test_the_same_fact_is_asked_by_name_without_its_image(twin: str, fold: str) -> None:
    bench = pictured(text_twin=twin, paraphrases=0, rephrase="none")
    by_id = {question.question_id: question for question in bench.questions}
    by_name = [q for q in bench.questions if bench.record[q.record_id].groups.get("variant") == "text"]
    assert len(by_name) == 2 * (4 * 3 + 3)
    for question in by_name:
        record, plain = bench.record[question.record_id], by_id[question.question_id.removesuffix("-text")]
        assert (question.fold, record.fold, record.image) == (fold, fold, None)
        assert question.answer == plain.answer
        names = record.groups["study"] in question.question if "study" in record.groups else True
        assert names != (question.level == "study")


def test_a_request_for_a_subject_takes_everything_about_a_patient(small: Benchmark) -> None:
    patient, subject = (small.split(f"{level}=patient-0003") for level in ("patient", "subject"))
    own, everything = (small.questions_of(split, "forget", ("train",)) for split in (patient, subject))
    assert {q.level for q in everything} - {q.level for q in own} == {"institution"}
    assert len(everything) == 4 * (4 * 3 + 3)


def test_the_rephrased_twin_is_on_the_same_side_and_asks_in_other_words(small: Benchmark) -> None:
    by_id = {question.question_id: question for question in small.questions}
    for split in small.splits.values():
        sides = small.sides(split)
        for question in small.questions:
            if question.fold == "rephrase":
                twin = by_id[question.question_id.removesuffix("-rephrased")]
                assert sides[question.record_id] == sides[twin.record_id]
                assert (question.answer, question.options) == (twin.answer, twin.options)
                assert normalised(question.question) != normalised(twin.question)
    assert {small.record[q.record_id].fold for q in small.questions if q.fold == "rephrase"} == {"rephrase"}


def test_items_are_as_code_says_they_must_be(paper: Benchmark) -> None:
    for question in paper.questions:
        text = paper.record[question.record_id].text
        if question.kind == "generation":
            assert question.answer == text
        elif question.kind == "cloze":
            assert question.question.count(BLANK) == 1
            assert not wrong_cloze(BLANK, question.answer, text)
            whole = question.question.replace(BLANK, question.answer)
            assert any(sentence in whole for sentence in sentences(text))
        elif question.kind == "classification":
            assert one_is_right(question.options, question.answer_index, text)
            assert question.answer == question.options[question.answer_index]
            assert len(question.options) == 4
    places = Counter(q.answer_index for q in paper.questions if q.kind == "classification")
    assert max(places.values()) < 1.4 * min(places.values())


def test_names_are_those_of_the_nodes(small: Benchmark) -> None:
    names = node_names(small)
    assert Counter(level for level, _ in names) == {"institution": 2, "patient": 8, "study": 32}
    assert len(set(names.values())) == 42
    assert names["study", "study_chest_xray_001"] == "study_chest_xray_001"
    # A report names nobody, so a section does not give away what identity questions ask.
    people = [name for (level, _), name in names.items() if level == "patient"]
    sections = [record.text for record in small.records if "section" in record.groups]
    assert not any(name in text for name in people for text in sections)


def test_without_images_a_question_says_which_study_it_means(small: Benchmark) -> None:
    for question in small.questions:
        study = small.record[question.record_id].record_id.rpartition("-identity-")[0]
        if question.level == "section":
            assert small.record[question.record_id].groups["study"] in question.question
        elif question.level == "study":
            assert study not in question.question
    assert not any(record.image for record in small.records)


def test_the_seed_decides_and_the_same_seed_decides_the_same() -> None:
    first, again, other = (made(institutions=1, patients=2, studies=2, seed=seed) for seed in (5, 5, 6))
    assert first.fingerprint == again.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "exactly one source"),
        ({"synthetic": 64, "openi": "x"}, "given: synthetic, openi"),
        ({"synthetic": 64, "sections": 5}, "more than the 4 required"),
        ({"synthetic": 64, "instituions": 3}, "Did you mean 'institutions'"),
        ({"synthetic": 63}, "cannot be spread evenly over 8 institutions"),
        ({"synthetic": 64, "patients": 4}, "leaves no choice of patients"),
        ({"openi": "x", "patients": 0}, "patients=0"),
        ({"synthetic": 64, "percents": "25,25"}, "once"),
    ],
)
def test_wrong_settings_name_the_fix(values: Mapping[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(MedforgetSettings, values)


def test_images_and_language_models_need_a_folder() -> None:
    with pytest.raises(ConfigError, match="images need a folder"):
        made(text_only=False)


def test_too_few_studies_say_why_and_what_to_ask_for() -> None:
    with pytest.raises(InputError, match=r"--institutions, --patients.*required="):
        made(institutions=1, patients=2, required="examination,comparison", sections=2)


def test_more_sections_may_be_drawn_than_the_four() -> None:
    bench = made(institutions=1, patients=3, studies=2, sections=3, sample_from="all")
    nodes = [r.record_id for r in bench.records if "section" in r.groups and r.fold == "train"]
    assert len(nodes) == 18
    assert {node.rpartition("-")[2] for node in nodes} & {"technique", "comparison"}


@settings(max_examples=25, deadline=None)
@given(*(st.integers(1, most) for most in (4, 5, 4, 5, 60, 3)))
def test_partitions_close_cover_and_are_of_the_exact_size(
    institutions: int, patients: int, studies: int, sections: int, percent: int, seed: int
) -> None:
    records = _records(institutions, patients, studies, sections)
    splits = partitions(records, [percent], seed, nested=bool(seed % 2))
    sizes = dict(zip(LEVELS, accumulate((institutions, patients, studies, sections), mul), strict=True))
    for level, size in sizes.items():
        name = f"{level}_{percent:02d}"
        amount = share(percent, size)
        assert (name in splits) == (amount < size)
        if name in splits:
            split = splits[name]
            assert len(split.forget) == amount
            assert not set(split.forget) & set(split.retain)
            assert len(split.forget) + len(split.retain) == size
    if flat := splits.get(f"flat_{percent:02d}"):
        study_count = sizes["study"]
        assert len(flat.forget) == share(percent, sizes["section"]) + 3 * share(percent, study_count)
        assert len(flat.forget) + len(flat.retain) == sizes["section"] + 3 * study_count


@settings(max_examples=15, deadline=None)
@given(*(st.integers(1, most) for most in (5, 4, 3, 3, 50, 3)))
def test_nested_levels_forget_parts_of_one_tree(
    institutions: int, patients: int, studies: int, sections: int, percent: int, seed: int
) -> None:
    records = _records(institutions, patients, studies, sections)
    hierarchy = Hierarchy(LEVELS, records)
    forgets = [
        {r for r in hierarchy.closure(split.level, split.forget) if "identity" not in r}
        for split in partitions(records, [percent, 60], seed).values()
        if split.level in LEVELS
    ]
    # Whatever the shares are rounded to, of two splits one lies in the other.
    assert all(first <= second or second <= first for first, second in combinations(forgets, 2))


def test_levels_of_the_paper_forget_the_same_sections(paper: Benchmark) -> None:
    """2 institutions hold 16 patients, these 64 studies, these 256 sections."""
    forgets = {
        frozenset(
            r.record_id for r in paper.records_of(paper.split(f"{level}_25"), "forget") if "section" in r.groups
        )
        for level in LEVELS
    }
    assert len(forgets) == 1
    apart = made(nested=False, institutions=2, patients=4, studies=2)
    patients, institutions = (set(apart.split(f"{level}_25").forget) for level in ("patient", "institution"))
    within = {
        r.groups["patient"]
        for r in apart.records
        if r.groups["institution"] in institutions and "patient" in r.groups
    }
    assert not patients <= within


def _records(institutions: int, patients: int, studies: int, sections: int) -> list[Record]:
    records = []
    for i, p, s in product(range(institutions), range(patients), range(studies)):
        chain = {"institution": f"i{i}", "patient": f"p{i}-{p}", "study": f"s{i}-{p}-{s}"}
        for section in range(sections):
            node = f"{chain['study']}-{section}"
            records.append(Record(node, "x", {**chain, "section": node, "item": node}))
        for reach, level in enumerate(chain, start=1):
            node = f"{chain['study']}-identity-{level}"
            records.append(Record(node, "x", {**dict(list(chain.items())[:reach]), "item": node}))
    return records


def test_what_a_report_says_may_hold_braces() -> None:
    values = {"synthetic": 2, "text_only": True, "institutions": 1}
    settings = check(MedforgetSettings, values)
    source = open_source(settings)
    selection = select(source, settings)
    for study in selection.studies:
        study.sections["impression"] = "Nodule {it} of {0} mm {statement} in the lung."  # type: ignore[index]
    bench = assemble(source, selection, settings, templated(selection, settings), Illustrated())
    gaps = [q for q in bench.questions if q.kind == "cloze"]
    assert all("{it}" in q.question or BLANK in q.question for q in gaps if "impression" in q.record_id)
    assert all(stands_in(q.answer, bench.record[q.record_id].text) for q in gaps)
