"""A benchmark from settings, into a folder or out of one."""

from pathlib import Path
from typing import Any

import pytest

from medunlearn import registry
from medunlearn.data.benchmark import MANIFEST, Benchmark
from medunlearn.data.hierarchy import Hierarchy
from medunlearn.data.leftovers import LOCK
from medunlearn.data.records import Record
from medunlearn.data.splits import request
from medunlearn.errors import ConfigError, InputError, UnknownNameError
from medunlearn.paper import Build, Paper, installed_papers, paper_of
from medunlearn.study.benchmark_builds import build, from_section, save_new


def by_hand(values: dict[str, Any]) -> Benchmark:
    """A builder outside the tree: ``size`` patients."""
    records = tuple(Record(f"n{n}", "Text.", {"patient": f"p{n}"}) for n in range(values["size"]))
    split = request(Hierarchy(("patient",), records), "one", "patient", ["p0"])
    return Benchmark("by hand", "hand", ("patient",), "patient", records, (), {"one": split})


def test_a_builder_of_ours_has_checked_settings() -> None:
    assert build("amnesia", {"synthetic": 3}).counts()["subjects"] == 3
    with pytest.raises(ConfigError) as caught:
        build("amnesia", {"invent": 3, "seed": "x"})
    assert [problem.split()[0] for problem in caught.value.problems] == ["give", "There"]
    with pytest.raises(ConfigError) as caught:
        build("amnesia", {"synthetic": "x", "invent": 3, "seed": "x"})
    assert len(caught.value.problems) == 3
    with pytest.raises(UnknownNameError, match="Did you mean 'amnesia'"):
        build("amnesa", {"synthetic": 3})
    names = {paper.name for paper in installed_papers() if paper.builds}
    assert names == {"amnesia", "diagnosis", "lume", "medforget", "muse", "notes", "options", "tofu", "wmdp"}


def test_benchmarks_carry_the_licence_of_their_source(tmp_path: Path) -> None:
    """Of what is invented it is ours; of a user's own files what the user says, or none."""
    table = tmp_path / "stays.csv"
    rows = "".join(f"p{n},cough for {n} days,pneumonia\n" for n in range(12))
    table.write_text("patient,hpi,diagnoses\n" + rows)
    admissions = {"admissions": str(table), "validation": 2, "test": 2}
    lume = {"stories": 2, "personal_biographies": 2, "public_biographies": 2, "nonmembers": 0, "new": True}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("amnesia", {"synthetic": 3}, "apache-2.0"),
        ("lume", lume, "apache-2.0"),
        ("diagnosis", {"synthetic": 12, "validation": 2, "test": 2}, "apache-2.0"),
        ("diagnosis", admissions, ""),
        ("diagnosis", {**admissions, "licence": "cc0-1.0"}, "cc0-1.0"),
        ("medforget", {"synthetic": 8, "text_only": True}, "apache-2.0"),
    ]
    for builder, values, licence in cases:
        assert build(builder, values).licence == licence, (builder, values)


def test_a_folder_that_holds_the_same_is_left_and_another_is_refused(tmp_path: Path) -> None:
    save_new(by_hand({"size": 3}), tmp_path)
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    again = save_new(by_hand({"size": 3}), tmp_path)
    assert (again, again.folder) == (by_hand({"size": 3}), tmp_path)
    with pytest.raises(InputError, match=r"contains another benchmark. Choose another --out"):
        save_new(by_hand({"size": 4}), tmp_path)
    assert {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == before
    # What a save that was killed left is written again.
    (tmp_path / MANIFEST).unlink()
    (tmp_path / ".splits.parquet.medunlearn-ffffff-77.part").write_bytes(b"half")
    with pytest.raises(InputError, match="contains no benchmark"):
        save_new(by_hand({"size": 4}), tmp_path)
    (tmp_path / LOCK).touch()
    save_new(by_hand({"size": 4}), tmp_path)
    assert len(Benchmark.load(tmp_path).records) == 4


@pytest.mark.parametrize("more", [False, True])
def test_somebodys_files_are_not_written_over(more: bool, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("my project")
    if more:
        (tmp_path / "main.py").write_text("")
    with pytest.raises(InputError, match="is not empty and contains no benchmark"):
        save_new(by_hand({"size": 3}), tmp_path)
    assert (tmp_path / "README.md").read_text() == "my project"


PAPER = Paper(name="hand", title="By hand", builds=(Build(make=f"{__name__}:by_hand"),))


def test_an_experiments_section_with_a_paper_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.PLUGINS, "")  # and unset again
    path = f"{__name__}:PAPER"
    built = from_section({"builder": path, "size": 3}, tmp_path / "bench")
    assert built.counts()["records"] == 3
    assert from_section({"folder": str(tmp_path / "bench")}, tmp_path / "unused") == built
    # From here on it is known by its name, also to the processes that this one starts.
    assert paper_of("hand") is PAPER
    assert not (tmp_path / "unused").exists()
    with pytest.raises(ConfigError, match="give only folder"):
        from_section({"folder": "x", "builder": path}, tmp_path)
    with pytest.raises(ConfigError, match=r"benchmark\.builder is missing: amnesia, diagnosis, medforget"):
        from_section({"size": 3}, tmp_path)
    with pytest.raises(InputError, match=r"leads to a function; it must be a medunlearn\.paper\.Paper"):
        from_section({"builder": f"{__name__}:by_hand", "size": 3}, tmp_path / "other")
