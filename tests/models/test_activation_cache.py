"""Tensors kept for a run: as they were, in memory or in files, whoever wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medunlearn.errors import StorageError
from medunlearn.models import activation_cache as cache_module
from medunlearn.models.activation_cache import ActivationCache, cache_key


@pytest.mark.parametrize("shard", [1, 100, 1 << 20])
def test_what_goes_in_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard: int) -> None:
    monkeypatch.setattr(cache_module, "SHARD", shard)
    tensors = {cache_key("trunk", str(n)): torch.randn(n + 1, 3).to(torch.bfloat16) for n in range(9)}
    cache = ActivationCache(tmp_path)
    for name, tensor in tensors.items():
        cache.add(name, tensor)
    cache.write()
    for reader in (cache, ActivationCache(tmp_path)):
        assert all(torch.equal(reader[name], tensor) for name, tensor in tensors.items())
        assert "trunk|9" not in reader
    assert len(list(tmp_path.iterdir())) == {1: 9, 1 << 20: 1}.get(shard, len(list(tmp_path.iterdir())))


def test_the_first_of_a_name_stays_and_a_view_is_copied() -> None:
    cache, whole = ActivationCache(), torch.arange(6.0).reshape(2, 3)
    cache.add("a", whole[0])
    whole.zero_()
    cache.add("a", whole[1])
    assert cache["a"].tolist() == [0, 1, 2]
    assert cache.bytes == 12


def test_several_write_into_one_folder(tmp_path: Path) -> None:
    for writer in (0, 1):
        cache = ActivationCache(tmp_path, writer)
        cache.add(str(writer), torch.tensor([writer]))
        cache.write()
    assert [ActivationCache(tmp_path)[str(writer)].item() for writer in (0, 1)] == [0, 1]


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ActivationCache(tmp_path / "file" / "folder")
    cache.add("a", torch.zeros(1))
    with pytest.raises(StorageError):
        cache.write()
    assert cache["a"].item() == 0
