"""The commands of docs/measure.md run as they stand but for the size of the training; its tables are complete."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from pages import Page, run_line

from medunlearn.attacks import ATTACKS
from medunlearn.attacks.recovery.recovery_results import READINGS
from medunlearn.attacks.recovery.relearning_attack import Relearning
from medunlearn.attacks.recovery.sampling_attack import RepeatedSampling
from medunlearn.models.quantization import GROUP

PAGE = Page.read("attacks.md", "Membership inference", "Reconstruction", "Relearning, quantization, sampling")
FEW = {"subjects": 1, "alternatives": 9, "facts": 1, "max-new-tokens": 4}
RECOVERY = ["--allow-broken", "--relearning.batch-size=1"]
RECOVERY += [f"--relearning.{name}={value}" for name, value in FEW.items()]
QUICK = ["--sampling.samples=4", "--relearning.steps=4"]
QUICK += [f"--{attack}.{name}={value}" for attack in ("quantization", "sampling") for name, value in FEW.items()]
SMALL = {
    "build": ["--synthetic=12", "--nonmember-patients=6"],
    "train": ["--epochs=1", "--tiny-width=32", "--tiny-layers=2"],
    "unlearn": ["--epochs=1"],
    "evaluate": ["--allow-broken", "--limit=1", "--max-new-tokens=2", "--replicates=20"],
}


def test_commands_run_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = PAGE.commands
    assert len(lines) == 11
    for line in lines:
        words = shlex.split(line)
        more = RECOVERY if "relearning" in line else []
        more = [*more, *(QUICK if "quantization" in line else [])]
        run_line(line, [*SMALL.get(words[1], []), *more])
    assert "## Membership inference" in (tmp_path / "report" / "report.md").read_text()
    kept = {path.name for path in (tmp_path / "runs" / "npo" / "attacks").glob("*/*.parquet")}
    named = re.findall(
        r"`((?:membership|relearning|quantization|sampling)_\w+\.parquet|scores\.parquet)`", PAGE.text
    )
    assert kept == set(named)


def test_numbers_and_words_of_the_page_are_those_of_the_code() -> None:
    relearning, sampling = Relearning(), RepeatedSampling()
    text = " ".join(PAGE.text.split())
    assert "({})".format(", ".join(map(str, (0, *relearning.points)))) in text
    one, few, all_of_them = sampling.numbers
    assert f"k = {one}, {few} and {all_of_them}" in text
    assert f"about {relearning.subjects} subjects a side are asked, of sampling about {sampling.subjects}" in text
    assert relearning.batch_size == 16
    assert f"`int4`: the same of {GROUP} weights" in text
    rows = [word for cell in re.findall(r"^\| ([a-z ,]+) \|", PAGE.text, re.MULTILINE) for word in cell.split(", ")]
    assert set(READINGS) <= set(rows)


def test_the_page_names_every_attack_with_its_source() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| .+ \| .+ \|$", PAGE.text, re.MULTILINE)
    assert {*rows} <= {*ATTACKS}
    reference = Page.read("reference/attacks.md").text
    assert [name for name in ATTACKS if f"## {name}\n" not in reference] == []
