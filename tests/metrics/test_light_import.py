"""Scoring stored responses must start fast: nothing heavy is imported before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

LISTING = "import medunlearn.metrics, medunlearn.statistics"
EVERYTHING = (
    "import medunlearn.metrics.item_scoring, medunlearn.results.summary\n"
    "from medunlearn.metrics import get_metric, metric_targets\n"
    "for name in metric_targets(): get_metric(name)"
)


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        (LISTING, {"torch", "transformers", "sklearn", "scipy", "nltk", "pandas"}),
        (EVERYTHING, {"torch", "transformers", "sklearn", "scipy", "nltk"}),
    ],
)
def test_nothing_heavy_is_imported(code: str, heavy: set[str]) -> None:
    script = f"{code}\nimport sys\nprint(*sorted({heavy!r} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout.split() == []
