"""A tiny model's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def base(tiny_base: Any, tmp_path: Path) -> Path:
    folder: Path = tiny_base.save(tmp_path / "base")
    return folder
