"""Every family of models gives the numbers of plain transformers, on one of the roads each.

``benchmarks_perf/families.py`` takes every family down every road.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from family_roads import ROADS, agreement, travel
from model_families import FAMILIES

BOUND = 1e-4
"""Nats; fp32 sums in another order differ by a tenth of it at most in models with logits as large as these."""
SAMPLE = [(name, list(ROADS)[place % len(ROADS)]) for place, name in enumerate(FAMILIES)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "road"), SAMPLE, ids=[f"{name}-{road}" for name, road in SAMPLE])
def test_a_family_on_a_road_is_transformers_own(name: str, road: str, tmp_path: Path) -> None:
    result = agreement(*travel(name, road, tmp_path), questions=3)
    assert result.difference < BOUND
    assert result.answers == result.prompts
