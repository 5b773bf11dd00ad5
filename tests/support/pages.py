"""Sections of the documentation and the commands, code and settings in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Page:
    """Text of a page, or of some of its ``##`` sections."""

    text: str

    @staticmethod
    def read(name: str, *headings: str) -> Page:
        """A page of ``docs/`` or of the root; with headings, these sections alone, in the page's order."""
        path = next(folder / name for folder in (ROOT / "docs", ROOT) if (folder / name).exists())
        text = path.read_text(encoding="utf-8")
        if not headings:
            return Page(text)
        sections = {part.partition("\n")[0]: part for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]}
        assert set(headings) <= set(sections), f"docs/{name} has no section {set(headings) - set(sections)}"
        return Page("\n".join(part for heading, part in sections.items() if heading in headings))

    def __add__(self, other: Page) -> Page:
        return Page(f"{self.text}\n{other.text}")

    def blocks(self, language: str) -> list[str]:
        """Code blocks in a language."""
        return re.findall(rf"^ *```{language}\n(.*?)^ *```", self.text, re.DOTALL | re.MULTILINE)

    @property
    def commands(self) -> list[str]:
        """Lines of the ``bash`` blocks."""
        return [line.strip() for block in self.blocks("bash") for line in block.splitlines() if line.strip()]

    def quotes(self, row: str) -> list[str]:
        """What stands in quotation marks in the second cell of a table's row, named by its first cell."""
        cells = next(line.split("|") for line in self.text.splitlines() if line.startswith(f"| {row} |"))
        return re.findall(r'"([^"]+)"', cells[2])

    @property
    def flags(self) -> set[str]:
        """Settings whose flags stand at the beginning of inline code, as keys: ``micro_batch_size``."""
        return {name.replace("-", "_") for name in re.findall(r"`--([a-z][\w.-]*)", self.text)}


def run_line(line: str, more: Iterable[str] | Mapping[str, Iterable[str]] = (), *, code: int = 0) -> Any:
    """Run a page's command in this process; it fails unless it ends with the exit code.

    Args:
        more: further words, or those of each verb.
    """
    from medunlearn.cli.main import app

    words = shlex.split(line.removeprefix("medunlearn "))
    result = CliRunner().invoke(app, [*words, *(more.get(words[0], ()) if isinstance(more, Mapping) else more)])
    assert result.exit_code == code, f"{line}\n{result.output}"
    return result
