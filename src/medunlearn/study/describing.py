"""The tables of a benchmark, with lengths in words or any tokenizer's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.data.describe import Description, describe
from medunlearn.errors import ModelError, first_line
from medunlearn.hub_offline import go_offline_if_unreachable

BATCH = 1024


def described(benchmark: Benchmark, tokenizer: str | Path | None = None) -> Description:
    """AMNESIA's Tables 1, 4 and 5 for any benchmark.

    Args:
        tokenizer: a folder with one, a run, or a hub id; None counts words.

    Raises:
        ModelError: no tokenizer there.
    """
    if tokenizer is None:
        return describe(benchmark)
    loaded = _load(tokenizer)

    def count(texts: Sequence[str]) -> list[int]:
        lengths: list[int] = []
        for start in range(0, len(texts), BATCH):
            batch = loaded(list(texts[start : start + BATCH]), add_special_tokens=False, verbose=False)
            lengths += map(len, batch["input_ids"])
        return lengths

    return describe(benchmark, count=count, tokens=f"tokens of {tokenizer}, special ones left out")


def _load(where: str | Path) -> Any:
    from medunlearn.models.folders import adapter_base, chain, is_adapter, model_folder
    from medunlearn.models.loading import from_pretrained, is_hub_id
    from medunlearn.models.pretrained import LOADING_ERRORS

    folder = Path(model_folder(where))
    if not folder.is_dir() and not is_hub_id(str(where)):
        raise ModelError(f"There is no tokenizer in {where}. Give a folder, a run, or a hub id (org/name).")
    if is_adapter(folder) and not (folder / "tokenizer.json").exists():
        return _load(adapter_base(folder))
    root = str(chain(folder, check=False)[0]) if folder.is_dir() else str(where)
    if not folder.is_dir():
        go_offline_if_unreachable()
    try:
        return from_pretrained("AutoTokenizer", root)
    except LOADING_ERRORS as error:
        reason = first_line(error)
        raise ModelError(
            f"There is no tokenizer in {where}: {reason} Give a folder with tokenizer.json, a run, or a hub id."
        ) from error
