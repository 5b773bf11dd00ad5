"""The card of an exported model: data use, prompt template, and sections that others add."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from medunlearn.data.data_use import UNKNOWN, DataUse
from medunlearn.data.storage import write_text

CARD = "README.md"
_USES = {
    "open": "The data that it was trained on is open.",
    "credentialed": "It was trained on data under an agreement, and may repeat it. It goes where that data may go.",
    None: "Nobody recorded what it was trained on.",
}


def write_card(folder: Path, use: DataUse | None, template: Any) -> None:
    """Write the model card, without names of benchmarks, splits or paths, which may name patients."""
    prompt = f"Prompt template of its training: **{template}**.\n" if isinstance(template, str) else ""
    card = f"""\
---
library_name: transformers
license: unknown
tags: [machine-unlearning, medunlearn]
---

# A model exported by medunlearn

Data use: **{use or UNKNOWN}**. {_USES[use]}
Its licence is that of the model that training began with. Not for clinical use.
{prompt}"""
    write_text(folder / CARD, card)


def write_section(card: Path, section: str) -> None:
    """Write a section at the end of a model card, replacing one with the same title."""
    title = section.partition("\n")[0]
    parts = re.split(r"^(?=## )", card.read_text(encoding="utf-8"), flags=re.MULTILINE)
    others = [part.strip() for part in parts if part.partition("\n")[0] != title]
    write_text(card, "\n\n".join((*others, section.strip())) + "\n")
