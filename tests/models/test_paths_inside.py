"""Names of files that lead out of their folder are refused, wherever a file has them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import medunlearn as mu
from medunlearn.errors import InputError, ModelError
from medunlearn.input_files import path_inside
from medunlearn.models.load import load_model
from medunlearn.models.model_source import find_model
from medunlearn.models.tiny import build_tiny
from medunlearn.request.case.digests import digest_model

OUTSIDE = ("../elsewhere/x.safetensors", "/elsewhere/x.safetensors", "in/../../elsewhere/x.safetensors", "link")


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A model in shards, with an index."""
    folder = tmp_path / "model"
    live = build_tiny(["Ana has asthma."], width=32, layers=2, heads=2)
    live.save(folder)
    (folder / "model.safetensors").unlink()
    live.model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize(
    "read",
    [
        find_model,
        digest_model,
        lambda folder: load_model(folder, device="cpu"),
        lambda folder: mu.export(folder, folder.parent / "out"),
    ],
    ids=["adopt", "forget", "load", "export"],
)
def test_an_index_that_points_out_of_the_folder(
    sharded: Path, tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    outside = tmp_path / "elsewhere" / "x.safetensors"
    outside.parent.mkdir()
    shard = sorted(sharded.glob("*.safetensors"))[0]
    os.replace(shard, outside)
    (sharded / "link").symlink_to(outside)
    name = str(outside) if name.startswith("/") else name
    index = sharded / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"] = {
        tensor: name if file == shard.name else file for tensor, file in content["weight_map"].items()
    }
    index.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"is not in .*Put the file into the folder"):
        read(sharded)


def test_a_whole_index_is_read(sharded: Path) -> None:
    assert find_model(sharded).folder == sharded
    assert "model.safetensors.index.json" in digest_model(sharded).files
    load_model(sharded, device="cpu")


def test_names_inside(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "x").write_text("x")
    (folder / "link").symlink_to(folder / "below")
    for name in ("below/x", "not-there", "link/x", "..x"):
        assert path_inside(folder, name, "run.json") == folder / name
    (folder / "out").symlink_to(tmp_path)
    for name in ("../run/below/x", "out/x", "out", "/etc/hostname", "below/../../x", "a\0b"):
        with pytest.raises(InputError, match=r"run\.json names"):
            path_inside(folder, name, "run.json")


def test_links_of_the_hubs_cache(tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--a--b" / "snapshots" / "abc", tmp_path / "models--a--b" / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True)
    (blobs / "123").write_text("x")
    (snapshot / "x.safetensors").symlink_to("../../blobs/123")
    assert path_inside(snapshot, "x.safetensors", "index").read_text() == "x"
    (tmp_path / "y").write_text("y")
    (snapshot / "y").symlink_to(tmp_path / "y")
    with pytest.raises(InputError):
        path_inside(snapshot, "y", "index")
