"""Models from elsewhere: what is one whole model on this machine, and what is refused before it is loaded."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
from foreign_models import edit_json, save_adapter, save_foreign

from medunlearn.errors import HubError, InputError, ModelError
from medunlearn.models.model_source import INDEX, find_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def saved(tiny_base: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``chat``, the same in ``shards``, and an ``adapter`` over ``../chat``."""
    folder = tmp_path_factory.mktemp("saved")
    tiny_base.save(folder / "own")
    save_foreign(folder / "own", folder / "chat")
    save_foreign(folder / "own", folder / "shards", shard="100KB")
    save_adapter(folder / "chat", folder / "adapter", named="../chat")
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Callable[[str], Path]:
    """``copy("chat")``: a copy to change."""
    shutil.copytree(saved, tmp_path / "saved")
    return lambda name: tmp_path / "saved" / name


def test_whole_models_are_found(saved: Path) -> None:
    for name in ("chat", "shards"):
        source = find_model(saved / name)
        assert (source.folder, source.base, source.lineage) == (saved / name, None, [str(saved / name)])
    source = find_model(str(saved / "adapter"))
    assert source.base is not None
    assert source.base.folder.resolve() == saved / "chat"
    assert source.lineage == [str(saved / "chat"), str(saved / "adapter")]


def nested(folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "checkpoint-10")
    shutil.move(folder.parent / "checkpoint-10", folder)


def only_nested(folder: Path) -> None:
    nested(folder)
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()


def with_adapter(folder: Path) -> None:
    for path in (folder.parent / "adapter").iterdir():
        shutil.copy(path, folder)


def two_sets(folder: Path) -> None:
    for path in (folder.parent / "shards").glob("*.safetensors*"):
        shutil.copy(path, folder)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({}))


def without_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def without_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def nothing(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def a_benchmark(folder: Path) -> None:
    (folder / "benchmark.yaml").write_text("name: x\n")


def a_run(folder: Path) -> None:
    (folder / "run.json").write_text("{}")


def a_delta(folder: Path) -> None:
    (folder / "delta.json").write_text("{}")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (nested, "holds several models: its own, and below it checkpoint-10"),
        (only_nested, "holds no model itself, but below it checkpoint-10"),
        (with_adapter, "holds two models: an adapter .* and full weights"),
        (two_sets, "holds two models: model.safetensors, and the shards of"),
        (pickled, r"no weights as safetensors. Convert it: model.save_pretrained"),
        (without_tokenizer, "has a model but no tokenizer"),
        (without_config, "has no config.json"),
        (nothing, "has no config.json"),
        (a_benchmark, "is a benchmark. The model comes first"),
        (a_run, "is a run of medunlearn already"),
        (a_delta, "contains only the changed tensors of another model"),
    ],
)
def test_a_folder_that_is_not_one_model(copy: Callable[[str], Path], spoil: Any, words: str) -> None:
    spoil(copy("chat"))
    with pytest.raises(InputError, match=words):
        find_model(copy("chat"))


def test_the_model_of_a_run_is_refused_too(copy: Callable[[str], Path]) -> None:
    run = copy("run")
    run.mkdir()
    shutil.move(copy("chat"), run / "model")
    (run / "run.json").write_text("{}")
    with pytest.raises(InputError, match=r"saved/run is a run of medunlearn already"):
        find_model(run / "model")


def test_shards_that_are_missing(copy: Callable[[str], Path]) -> None:
    folder = copy("shards")
    shards = sorted(folder.glob("*.safetensors"))
    shards[1].unlink()
    with pytest.raises(ModelError, match=rf"lacks 1 of its {len(shards)} files of weights: {shards[1].name}"):
        find_model(folder)
    (folder / INDEX).write_text(json.dumps({"weight_map": ["x"]}))
    with pytest.raises(ModelError, match="has no weight_map"):
        find_model(folder)


def test_an_adapter_that_lacks_something(copy: Callable[[str], Path]) -> None:
    folder = copy("adapter")
    edit_json(folder / "adapter_config.json", base_model_name_or_path="../shards")
    assert find_model(folder, base=copy("chat")).lineage[0] == str(copy("chat"))
    without_tokenizer(copy("shards"))
    with pytest.raises(ModelError, match="has a model but no tokenizer"):
        find_model(folder)
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(ModelError, match=r"has no adapter_model.safetensors"):
        find_model(folder)


def test_a_path_that_is_not_there_is_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: Path
) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise AssertionError("a hub was asked")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("runs/misspelt", "/nowhere/model", "misspelt", "./org/name", str(saved / "chat" / "config.json")):
        with pytest.raises(ModelError, match="There is no model folder"):
            find_model(name)
    with pytest.raises(InputError, match="--revision is for a hub id"):
        find_model(saved / "chat", revision="main")


@pytest.fixture
def hub(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with ``org/chat`` in it, and no network."""
    cache = tmp_path / "cache"
    repository = cache / "models--org--chat"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    shutil.copytree(saved / "chat", repository / "snapshots" / COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return repository / "snapshots" / COMMIT


def test_a_hub_id_is_its_commit(hub: Path, copy: Callable[[str], Path]) -> None:
    source = find_model("org/chat")
    assert (source.folder, source.commit, source.lineage) == (hub, COMMIT, ["org/chat"])
    edit_json(copy("adapter") / "adapter_config.json", base_model_name_or_path="org/chat")
    over = find_model(copy("adapter"))
    assert over.base is not None
    assert (over.base.commit, over.lineage[0]) == (COMMIT, "org/chat")


def test_a_hub_that_refuses(hub: Path) -> None:
    with pytest.raises(HubError, match=r"no folder org/other, .*could not be fetched: .*give its folder"):
        find_model("org/other")
    with pytest.raises(HubError, match="could not be fetched"):
        find_model("org/chat", revision="v2")
