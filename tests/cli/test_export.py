"""``export``: an unlearned model, whole, for those who have no medunlearn; and runs that stand on deltas."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import medunlearn as mu
from medunlearn.models.load import load_model

Medunlearn = Callable[..., Any]
ALONE = """
import sys
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model.generate(**tokenizer("Ana", return_tensors="pt", return_token_type_ids=False), max_new_tokens=2)
assert "medunlearn" not in sys.modules
save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, sys.argv[2])
"""
QUICK = ("--replicates=20", "--limit=2", "--max-new-tokens=4", "--allow-broken")


def state(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_model(folder, device="cpu").model.state_dict()
    return found


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return set(one) == set(other) and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="session")
def one_layer(medunlearn: Medunlearn, bench: Path, target: Path) -> Path:
    """Unlearned in one layer of two, so that its model is a delta."""
    out = bench.parent / "one_layer"
    words = ("--split=random_10", "--method=graddiff", "--trainable=layers:1", "--lr=1e-3", "--epochs=1")
    medunlearn("unlearn", target, bench, "--out", out, *words, "--precision=fp32")
    assert sorted(file.name for file in (out / "model").iterdir()) == ["delta.json", "delta.safetensors"]
    return out


@pytest.fixture(scope="session")
def exported(medunlearn: Medunlearn, one_layer: Path) -> Path:
    out = one_layer.parent / "hf"
    assert f"{out}: model and tokenizer" in medunlearn("export", one_layer, "--out", out).text
    return out


def test_it_is_the_unlearned_model_and_loads_alone(one_layer: Path, exported: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ALONE, str(exported), str(tmp_path / "alone")], check=True, cwd=tmp_path)
    assert equal(load_file(tmp_path / "alone"), state(one_layer / "model"))
    assert not equal(state(exported), state(one_layer.parent / "target" / "model"))
    assert not list(exported.parent.glob(".hf.*"))
    assert exported.stat().st_mode & 0o077 == 0


def test_a_run_says_how_it_was_saved(one_layer: Path, target: Path) -> None:
    saved = [json.loads((run / "run.json").read_text())["results"]["saved"] for run in (one_layer, target)]
    assert [one["form"] for one in saved] == ["delta", "full"]
    assert saved[0]["bytes"] < saved[1]["bytes"] / 2


def test_a_delta_is_evaluated_like_its_export(
    medunlearn: Medunlearn, bench: Path, one_layer: Path, exported: Path, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    shutil.copy(one_layer / "run.json", full)
    shutil.copytree(exported, full / "model")
    scores = []
    for place, run in enumerate((one_layer, full)):
        table = tmp_path / f"{place}.csv"
        # Without max_new_tokens the limit comes from the tokenizer, which is the base's.
        words = ("--replicates=20", "--limit=1", "--allow-broken")
        medunlearn("evaluate", run, bench, "--split", "random_10", "--out", table, *words)
        scores.append(pd.read_csv(table))
    pd.testing.assert_frame_equal(scores[0], scores[1])


def test_training_and_unlearning_go_on_from_a_delta(
    medunlearn: Medunlearn, bench: Path, one_layer: Path, tmp_path: Path
) -> None:
    words = ("--epochs=1", "--precision=fp32")
    again, more = tmp_path / "again", tmp_path / "more"
    medunlearn("unlearn", one_layer, bench, "--split", "random_10", "--method", "npo", "--out", again, *words,
               "--trainable=layers:0", "--lr=1e-3")  # fmt: skip
    assert (again / "model" / "delta.json").exists()
    medunlearn("train", bench, "--model", again, "--out", more, "--max-length=512", *words)
    assert (more / "model" / "model.safetensors").exists()
    medunlearn("evaluate", again, bench, "--split", "random_10", *QUICK)
    out = tmp_path / "hf"
    medunlearn("export", again, "--out", out)
    assert equal(state(out), state(again / "model"))


def test_a_full_model_and_a_folder_without_a_run(medunlearn: Medunlearn, target: Path, tmp_path: Path) -> None:
    medunlearn("export", target / "model", "--out", tmp_path / "hf", "--quiet")
    assert equal(state(tmp_path / "hf"), state(target / "model"))


def test_the_type_of_the_weights_stays(medunlearn: Medunlearn, target: Path, tmp_path: Path) -> None:
    load_model(target / "model", device="cpu", weights="bf16").save(tmp_path / "half")
    medunlearn("export", tmp_path / "half", "--out", tmp_path / "hf")
    tensors = load_file(tmp_path / "hf" / "model.safetensors").values()
    assert {tensor.dtype for tensor in tensors} == {torch.bfloat16}


def test_an_adapter_is_merged(medunlearn: Medunlearn, one_layer: Path, tmp_path: Path) -> None:
    from medunlearn.training.trainable import choose_trainable

    adapted = choose_trainable(load_model(one_layer / "model", device="cpu").model, "lora:2")
    with torch.no_grad():
        for name, tensor in adapted.named_parameters():
            if "lora_B" in name:
                tensor.fill_(0.01)
    adapted.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    medunlearn("export", tmp_path / "adapter", "--out", tmp_path / "hf")
    assert equal(state(tmp_path / "hf"), adapted.merge_and_unload().state_dict())
    (tmp_path / "adapter" / "adapter_model.safetensors").unlink()
    said = medunlearn("export", tmp_path / "adapter", "--out", tmp_path / "no", code=2)
    assert "has no adapter_model.safetensors. Save the adapter with save_pretrained" in said.text


def test_given_again(medunlearn: Medunlearn, one_layer: Path, exported: Path, target: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in exported.iterdir()}
    said = medunlearn("export", one_layer, "--out", exported, "--json")
    assert json.loads(said.stdout) == {"folder": str(exported), "pushed": None}
    assert "holds another model" in medunlearn("export", target, "--out", exported, code=2).text
    assert {file: file.stat().st_mtime_ns for file in exported.iterdir()} == before


def test_in_python(one_layer: Path, exported: Path, tmp_path: Path) -> None:
    folder = mu.export(mu.Run.open(one_layer), tmp_path / "hf")
    assert (folder / "model.safetensors").read_bytes() == (exported / "model.safetensors").read_bytes()


def test_it_says_whose_strings_the_tokenizer_holds(
    medunlearn: Medunlearn, one_layer: Path, bench: Path, tmp_path: Path
) -> None:
    out, benchmark = tmp_path / "hf", mu.load(bench)
    names = {
        identifier.value
        for record in benchmark.records_of(benchmark.split("random_10"), "forget")
        for identifier in record.identifiers
        if identifier.type == "name"
    }
    said = medunlearn("export", one_layer, "--out", out, "--benchmark", bench).text
    card = (out / "README.md").read_text()
    assert "strings of the vocabulary stand in texts of the forget set alone" in card
    assert "strings of the vocabulary stand in texts of the forget set alone" in said.replace("\n", " ")
    assert "by chance" not in card  # it was fitted on these texts
    parts = {part for name in names for part in name.split()}
    assert not [part for part in parts if part in card or part in said]
    shown = medunlearn("export", one_layer, "--out", out, "--benchmark", bench, "--show-text").text
    assert any(part in shown for part in parts)
    assert (out / "README.md").read_text() == card
    other = medunlearn("export", one_layer, "--out", out, "--benchmark", bench, "--split", "nobody", code=2)
    assert "nobody" in other.text
    lonely = medunlearn("export", one_layer, "--out", out, "--split", "random_10", code=2)
    assert "--split is for --benchmark" in lonely.text


def test_push(medunlearn: Medunlearn, exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    sent: list[tuple[str, str, object]] = []
    for cls in (PreTrainedModel, PreTrainedTokenizerBase):
        monkeypatch.setattr(
            cls, "push_to_hub", lambda self, name, private=None: sent.append((type(self).__name__, name, private))
        )
    source = exported.parent / "one_layer"
    said = medunlearn("export", source, "--out", exported, "--push", "clinic/model", "--private")
    assert "pushed to clinic/model" in said.text
    assert [(name, private) for _, name, private in sent] == [("clinic/model", True)] * 2
    assert sent[0][0] == "LlamaForCausalLM"


def test_a_hub_that_refuses(
    medunlearn: Medunlearn, one_layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import PreTrainedModel

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(PreTrainedModel, "push_to_hub", refuse)
    said = medunlearn("export", one_layer, "--out", tmp_path / "hf", "--push", "clinic/model", code=1)
    assert "clinic/model was not pushed: no route to the hub" in said.text
    assert "hf auth login" in said.text
    assert (tmp_path / "hf" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("nowhere", "--out", "hf"), "There is no run or model folder nowhere"),
        (("RUN", "--out", "RUN"), "is not empty and holds no exported model"),
        (("RUN", "--out", "RUN/run.json"), "is a file, not a folder"),
        (("RUN", "--out", "RUN/model"), "is not empty and holds no exported model"),
        (("RUN", "--out", "hf", "--push", "model"), "'model' is no hub id. Write it as org/name"),
        (("RUN", "--out", "hf", "--private"), "give --push org/name too"),
        (("BENCH", "--out", "hf"), "no model folder"),
    ],
)
def test_wrong_input(
    medunlearn: Medunlearn,
    bench: Path,
    one_layer: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    part: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [word.replace("RUN", str(one_layer)).replace("BENCH", str(bench)) for word in words]
    assert part in medunlearn("export", *given, code=2).text
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(
    medunlearn: Medunlearn, one_layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import PreTrainedModel

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", refuse)
    assert "The disk is full" in medunlearn("export", one_layer, "--out", tmp_path / "hf", code=1).text
    assert list(tmp_path.iterdir()) == []
