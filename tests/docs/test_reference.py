"""docs/reference/ is what the objects say today; the site lists every page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import reference


def test_the_reference_is_up_to_date() -> None:
    for name, text in reference.pages().items():
        old = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
        lines = {*text.splitlines()} ^ {*old.splitlines()}
        assert not lines, f"{name} is old: scripts/docs --reference writes it anew"
        assert text == old


def test_the_site_has_every_page() -> None:
    named = set(re.findall(r": ((?:[\w-]+/)*[\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= named
    assert all((ROOT / name).exists() for name in named)


def test_a_picture_of_a_road_is_small() -> None:
    pictures = [*(ROOT / "docs" / "roads" / "pictures").iterdir()]
    assert len(pictures) >= 3
    assert max(path.stat().st_size for path in pictures) < 120_000


def test_a_setting_of_several_names_is_described_once_each() -> None:
    described = reference._attributes("""One.

    Attributes:
        alpha, beta: weights
            of terms.
        gamma: else.

    Source: x.
    """)
    assert described == {"alpha": "weights of terms.", "beta": "weights of terms.", "gamma": "else."}


@pytest.mark.parametrize(("words", "code"), [(["--serv"], 2), (["--help"], 0), (["--pictures"], 2)])
def test_the_script_says_what_it_takes(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert docs_script()["main"](words) == code
    assert "scripts/docs" in "".join(capsys.readouterr()) or code == 2


def test_docs_without_their_extra_name_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = docs_script()
    monkeypatch.setitem(script, "find_spec", lambda name: None)
    assert script["main"]([]) == 2
    assert "medunlearn[docs]" in capsys.readouterr().err


def docs_script() -> dict[str, object]:
    """The names that scripts/docs defines."""
    path = Path(ROOT / "scripts" / "docs")
    names: dict[str, object] = {"__name__": "docs", "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return names
