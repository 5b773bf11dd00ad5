"""``export``: an unlearned model, whole, for those who have no medunlearn; and runs that stand on deltas."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from run_folders import rerecorded
from safetensors.torch import load_file

import medunlearn as mu
from medunlearn.errors import InputError
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
    api: dict[str, torch.Tensor] = load_model(folder, device="cpu").model.state_dict()
    return api


def equal(first: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return set(first) == set(other) and all(torch.equal(first[name], other[name]) for name in first)


@pytest.fixture(scope="session")
def one_layer(medunlearn: Medunlearn, bench: Path, target: Path) -> Path:
    """Unlearned in one layer of two, so that its model is a delta."""
    out = bench.parent / "one_layer"
    words = ("--split=random_10", "--method=graddiff", "--trainable=layers:1", "--lr=1e-3", "--epochs=1")
    medunlearn("unlearn", target, bench, "--out", out, *words, "--precision=fp32")
    names = ["delta.json", "delta.safetensors", "lineage.json"]
    assert sorted(file.name for file in (out / "model").iterdir()) == names
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
    assert [first["form"] for first in saved] == ["delta", "full"]
    assert saved[0]["bytes"] < saved[1]["bytes"] / 2


def test_a_delta_is_evaluated_like_its_export(
    medunlearn: Medunlearn, bench: Path, one_layer: Path, exported: Path, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    shutil.copy(one_layer / "run.json", full)
    shutil.copytree(exported, full / "model")
    rerecorded(full)
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
    lineage = tmp_path / "hf" / "lineage.json"
    lineage_facts = json.loads(lineage.read_text())
    assert lineage_facts["template"] == "plain"
    # An export of a version that did not record it is completed.
    lineage.write_text(json.dumps({**lineage_facts, "template": None}))
    medunlearn("export", target / "model", "--out", tmp_path / "hf", "--quiet")
    assert json.loads(lineage.read_text()) == lineage_facts


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
    result = medunlearn("export", tmp_path / "adapter", "--out", tmp_path / "no", code=2)
    assert "has no adapter_model.safetensors. Save the adapter with save_pretrained" in result.text


def test_given_again(medunlearn: Medunlearn, one_layer: Path, exported: Path, target: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in exported.iterdir()}
    result = medunlearn("export", one_layer, "--out", exported, "--json")
    assert json.loads(result.stdout) == {"folder": str(exported), "pushed": None}
    assert "contains another model" in medunlearn("export", target, "--out", exported, code=2).text
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
    result = medunlearn("export", one_layer, "--out", out, "--benchmark", bench).text
    card = (out / "README.md").read_text()
    assert "strings of the vocabulary stand in texts of the forget set alone" in card
    assert "strings of the vocabulary stand in texts of the forget set alone" in result.replace("\n", " ")
    assert "by chance" not in card  # it was fitted on these texts
    parts = {part for name in names for part in name.split()}
    assert not [part for part in parts if part in card or part in result]
    with_text = medunlearn("export", one_layer, "--out", out, "--benchmark", bench, "--show-text").text
    assert any(part in with_text for part in parts)
    assert (out / "README.md").read_text() == card
    other = medunlearn("export", one_layer, "--out", out, "--benchmark", bench, "--split", "nobody", code=2)
    assert "nobody" in other.text
    lonely = medunlearn("export", one_layer, "--out", out, "--split", "random_10", code=2)
    assert "--split is for --benchmark" in lonely.text


class Hub:
    """In the place of ``huggingface_hub.HfApi``: keeps what is asked of it."""

    def __init__(self, *, public: bool = False, error: Exception | None = None) -> None:
        self.public, self.error = public, error
        self.created: list[tuple[str, bool]] = []
        self.sent: list[tuple[str, list[str]]] = []

    def __call__(self) -> Hub:
        return self

    def create_repo(self, name: str, *, private: bool, exist_ok: bool) -> None:
        assert exist_ok
        if self.error:
            raise self.error
        self.created.append((name, private))

    def repo_info(self, name: str) -> Any:
        return SimpleNamespace(private=self.created[-1][1] and not self.public)

    def upload_folder(self, *, repo_id: str, folder_path: Path, allow_patterns: list[str]) -> None:
        assert all((folder_path / name).is_file() for name in allow_patterns)
        self.sent.append((repo_id, allow_patterns))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    api = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", api)
    return api


def test_push(medunlearn: Medunlearn, exported: Path, hub: Hub) -> None:
    source = exported.parent / "one_layer"
    (exported / "notes.txt").write_text("mine")
    result = medunlearn("export", source, "--out", exported, "--push", "clinic/model")
    assert "pushed to clinic/model" in result.text
    [(name, files)] = hub.sent
    assert name == "clinic/model"
    assert hub.created == [("clinic/model", True)]
    assert {"model.safetensors", "tokenizer.json", "README.md", "lineage.json"} <= set(files)
    assert "notes.txt" not in files
    card = (exported / "README.md").read_text()
    assert "Data use: **open**" in card
    assert "Prompt template of its training: **plain**" in card
    medunlearn("export", source, "--out", exported, "--push", "clinic/model", "--public")
    assert hub.created[1:] == [("clinic/model", False)]
    (exported / "notes.txt").unlink()


def test_a_public_repository_is_refused(medunlearn: Medunlearn, exported: Path, hub: Hub) -> None:
    hub.public = True
    words = ("export", exported.parent / "one_layer", "--out", exported, "--push", "clinic/model")
    assert "is public on the hub, so nothing was pushed" in medunlearn(*words, code=2).text
    assert hub.sent == []


def recorded(run: Path, use: str | None, *, lineage: list[str] | None = None) -> None:
    """Edit what a run says of its data."""
    info = json.loads((run / "run.json").read_text())
    info |= {} if lineage is None else {"lineage": lineage}
    (run / "run.json").write_text(json.dumps({**info, "data_use": use}))


@pytest.fixture
def line(one_layer: Path, target: Path, tmp_path: Path) -> dict[str, Path]:
    """base -> target -> unlearned (a delta of the target), copied, with an adapter and an export of the last."""
    runs = {name: tmp_path / "line" / name for name in ("base", "target", "one_layer")}
    for name, run in runs.items():
        shutil.copytree(one_layer if name == "one_layer" else target, run)
    recorded(runs["target"], "open", lineage=[str(runs["base"])])
    recorded(runs["one_layer"], "open", lineage=["tiny", str(runs["target"])])
    adapter = tmp_path / "line" / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(runs["one_layer"])}))
    (adapter / "adapter_model.safetensors").touch()
    return {**runs, "adapter": adapter}


@pytest.mark.parametrize("where", ["base", "base/model", "target", "one_layer", "one_layer/model"])
@pytest.mark.parametrize("pushed", ["one_layer", "one_layer/model", "adapter"])
def test_a_credentialed_lineage_is_not_pushed(
    medunlearn: Medunlearn, line: dict[str, Path], hub: Hub, tmp_path: Path, where: str, pushed: str
) -> None:
    """Wherever in the lineage of run, delta or adapter the record stands."""
    place = tmp_path / "line" / where
    if where.endswith("model"):
        (place / "lineage.json").write_text('{"data_use": "credentialed"}')
    else:
        recorded(place, "credentialed")
    words = ("export", tmp_path / "line" / pushed, "--out", tmp_path / "hf", "--push", "clinic/model")
    result = medunlearn(*words, code=2).text
    assert "was trained on credentialed data" in result
    assert "pass --allow-push if you are permitted" in result
    assert (hub.created, hub.sent) == ([], [])
    assert not (tmp_path / "hf").exists()


def test_a_permitted_push_says_what_it_is(
    medunlearn: Medunlearn, line: dict[str, Path], hub: Hub, tmp_path: Path
) -> None:
    recorded(line["base"], "credentialed")
    out = tmp_path / "hf"
    medunlearn("export", line["one_layer"], "--out", out, "--push", "clinic/model", "--allow-push")
    assert hub.created == [("clinic/model", True)]
    assert len(hub.sent) == 1
    assert "Data use: **credentialed**" in (out / "README.md").read_text()
    # The exported folder by itself is as credentialed as its run.
    assert json.loads((out / "lineage.json").read_text())["data_use"] == "credentialed"
    result = medunlearn("export", out, "--out", tmp_path / "again", "--push", "clinic/model", code=2).text
    assert "was trained on credentialed data" in result
    assert len(hub.sent) == 1


@pytest.mark.parametrize("pushed", ["plain", "adapter", "old run", "delta"])
def test_an_unknown_lineage_asks(
    medunlearn: Medunlearn, line: dict[str, Path], hub: Hub, tmp_path: Path, pushed: str
) -> None:
    source = tmp_path / pushed
    if pushed == "adapter":
        source = line["adapter"]
    elif pushed == "old run":
        shutil.copytree(line["target"], source)
        recorded(source, None)
    else:
        shutil.copytree(line["target" if pushed == "plain" else "one_layer"] / "model", source)
        (source / "lineage.json").unlink()
    how: dict[str, Any] = {"push": "clinic/model"}
    # Without a terminal.
    result = medunlearn("export", source, "--out", tmp_path / "hf", "--push", "clinic/model", code=2).text
    assert "Nobody recorded what" in result
    assert "--allow-push" in result
    questions: list[str] = []
    with pytest.raises(InputError, match="counts as credentialed"):
        mu.export(source, tmp_path / "hf", **how, confirm=lambda question: bool(questions.append(question)))
    assert len(questions) == 1
    assert hub.created == []
    assert not (tmp_path / "hf").exists()
    if pushed == "plain":
        mu.export(source, tmp_path / "hf", **how, confirm=lambda question: True)
        assert len(hub.sent) == 1
        assert "unknown" in (tmp_path / "hf" / "README.md").read_text()


def test_a_terminal_is_asked(
    line: dict[str, Path], hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medunlearn.cli import calls

    recorded(line["target"], None)
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(calls, "sys", SimpleNamespace(stdin=terminal, stderr=terminal))
    answers = iter([False, True])
    monkeypatch.setattr("click.confirm", lambda question, **how: next(answers))
    with pytest.raises(InputError, match="Nobody recorded"):
        calls.export(line["target"], out=tmp_path / "hf", push="clinic/model")
    assert hub.sent == []
    calls.export(line["target"], out=tmp_path / "hf", push="clinic/model")
    assert len(hub.sent) == 1


def test_a_hub_that_refuses(medunlearn: Medunlearn, one_layer: Path, tmp_path: Path, hub: Hub) -> None:
    hub.error = ConnectionError("no route to the hub")
    result = medunlearn("export", one_layer, "--out", tmp_path / "hf", "--push", "clinic/model", code=1)
    assert "clinic/model was not pushed: no route to the hub" in result.text
    assert "hf auth login" in result.text
    assert (tmp_path / "hf" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("nowhere", "--out", "hf"), "There is no run or model folder nowhere"),
        (("RUN", "--out", "RUN"), "is not empty and contains no exported model"),
        (("RUN", "--out", "RUN/run.json"), "is a file, not a folder"),
        (("RUN", "--out", "RUN/model"), "is not empty and contains no exported model"),
        (("RUN", "--out", "hf", "--push", "model"), "'model' is not a hub id. Write it as org/name"),
        (("RUN", "--out", "hf", "--public"), "give --push org/name too"),
        (("RUN", "--out", "hf", "--allow-push"), "give --push org/name too"),
        (("BENCH", "--out", "hf"), "not a model folder"),
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
    arguments = [word.replace("RUN", str(one_layer)).replace("BENCH", str(bench)) for word in words]
    assert part in medunlearn("export", *arguments, code=2).text
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
