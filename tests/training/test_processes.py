"""Two processes end where one does, and what one of them meets all of them learn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import process_cases as cases
import pytest
import torch
from filelock import FileLock
from forking import together
from rounding import assert_same_movement, movement_bound
from safetensors.torch import load_file, save_file
from sharded_models import MODELS
from torch import Tensor
from training_runs import equal

from medunlearn.errors import ConfigError, InputError
from medunlearn.training.checkpoint import Resumed, load_checkpoint, save_checkpoint
from medunlearn.training.processes import Processes, _buckets, several
from medunlearn.training.sharding import check_sharding

Ended = dict[str, Any]


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Folder of what two processes ended with: all cases are run once for all workers of the test run."""
    own = tmp_path_factory.getbasetemp()
    out = (own if worker_id == "master" else own.parent) / "two"
    with FileLock(out.with_suffix(".lock")):
        if not (out / "done").exists():
            out.mkdir(exist_ok=True)
            both = together(lambda: cases.main(out))
            try:
                streams = [process.communicate(timeout=300) for process in both]
            finally:
                for process in both:
                    process.kill()
                    process.wait()
            assert [process.returncode for process in both] == [0, 0], streams
            (out / "done").touch()
    return out


def ended(out: Path, name: str, rank: int = 0) -> Ended:
    state: Ended = torch.load(out / f"{name}-{rank}.pt", weights_only=False)
    return state


@cache
def alone(name: str) -> Ended:
    """The same epoch in this process."""
    state: Ended = cases.train_named(name)
    return state


def assert_same_training(ours: Ended, theirs: Ended, start: Mapping[str, Tensor]) -> None:
    for our, their in zip(ours["history"], theirs["history"], strict=True):
        assert our == pytest.approx(their, rel=movement_bound(), abs=movement_bound())
    assert_same_movement(ours["weights"], theirs["weights"], start)


@pytest.mark.parametrize("way", ["", "@fsdp2"])
@pytest.mark.parametrize("name", cases.OBJECTIVES)
def test_two_processes_are_one(two: Path, name: str, way: str) -> None:
    ours, theirs = ended(two, name + way), alone(name)
    assert len(theirs["history"]) == cases.STEPS
    before = dict(cases.model_of(cases.TRAINABLE.get(name, "all")).named_parameters())
    assert_same_training(ours, theirs, before)
    moved = [key for key, tensor in theirs["weights"].items() if not torch.equal(tensor, before[key])]
    assert len(moved) > 10


@pytest.mark.parametrize(
    ("name", "method", "trainable", "reference"),
    [
        ("npo@fsdp2+recompute", "npo", "all", "swapped tensors"),
        ("kl_min layers:2@fsdp2", "kl_min", "layers:2", "swapped tensors"),
        ("npo+cache", "npo", "all", "kept numbers"),
        ("kl_min layers:2@fsdp2+cache", "kl_min", "layers:2", "kept numbers"),
    ],
)
def test_what_saves_time_or_memory_changes_no_number_of_two_processes(
    two: Path, name: str, method: str, trainable: str, reference: str
) -> None:
    epochs = 2 if "cache" in name else 1
    ours, theirs = ended(two, name), cases.train(method, trainable=trainable, epochs=epochs)
    assert ours["reference"] == reference
    assert len(ours["history"]) == cases.STEPS * epochs
    assert_same_training(ours, theirs, dict(cases.model_of(trainable).named_parameters()))


def test_where_one_lacks_memory_all_take_smaller_passes(two: Path) -> None:
    ours, theirs = ended(two, "little"), cases.train(cases.Little(1, 9, 10**6))
    assert ours["error"] == ""
    for rank in (0, 1):
        assert [row["micro_batch_size"] for row in ended(two, "little", rank)["history"]] == [1] * cases.STEPS
    assert_same_movement(ours["weights"], theirs["weights"], dict(cases.model_of().named_parameters()))


def test_where_one_has_no_room_at_all_the_steps_before_are_kept(two: Path) -> None:
    errors = [ended(two, "none", rank)["error"] for rank in (0, 1)]
    assert errors[0] == errors[1]
    assert errors[0].startswith(f"OutOfMemoryError 2: Memory runs out at step {cases.STEP - 1}, with one sequence")
    assert ended(two, "none")["saved"] == [f"step-{cases.STEP - 1:08d}"]


@pytest.mark.parametrize("name", [*cases.OBJECTIVES, "resumed"])
def test_both_processes_hold_the_same_weights(two: Path, name: str) -> None:
    assert equal(ended(two, name, 1)["weights"], ended(two, name, 0)["weights"])
    assert ended(two, name, 1)["history"] == ended(two, name, 0)["history"]


@pytest.mark.parametrize("name", ["graddiff", "npo", "lora"])
def test_every_decoder_layer_is_sharded(two: Path, name: str) -> None:
    for key, kind in ended(two, f"{name}@fsdp2")["kinds"].items():
        assert (kind == "DTensor") == (".layers." in key), key


@pytest.mark.parametrize("name", MODELS)
def test_loading_and_saving_in_shares_is_loading_and_saving_whole(two: Path, name: str) -> None:
    for rank in (0, 1):
        result = ended(two, f"stored {name}", rank)
        assert result["stored"] == (name != "experts")
        assert result["loaded"] == result["files"] == []
        assert result["facts"]
        assert result["form"] == MODELS[name][3]


def test_no_process_ever_holds_all_layers(two: Path) -> None:
    for rank in (0, 1):
        peaks = ended(two, "peak", rank)
        share = peaks["layers"] / 2 + peaks["rest"]
        assert share < peaks["share"] < share + 3 * peaks["layer"] < peaks["layers"] < peaks["whole"]


def test_processes_may_run_unequal_numbers_of_passes(two: Path) -> None:
    for rank in (0, 1):
        result = ended(two, "turns", rank)
        assert result["differing"] == []
        assert result["gradients"] > 10


@pytest.mark.parametrize("way", ["", "@fsdp2"])
def test_a_signal_to_one_stops_all_after_the_same_step(two: Path, way: str) -> None:
    for rank in (0, 1):
        assert ended(two, "stopped" + way, rank)["error"].startswith("KeyboardInterrupt")
    assert ended(two, "stopped" + way)["saved"] == [f"step-{step:08d}" for step in (cases.STEP - 1, cases.STEP)]


@pytest.mark.parametrize("way", ["", "@fsdp2"])
@pytest.mark.parametrize("how", ["resumed", "mended"])
def test_resumed_is_uninterrupted_bit_for_bit(two: Path, how: str, way: str) -> None:
    resumed, whole = ended(two, how + way), ended(two, "whole" + way)
    broken = f".step-{cases.STEP:08d}.medunlearn-broken"
    assert (broken in resumed["saved"]) == (how == "mended")
    assert len(whole["history"]) == cases.STEPS
    assert resumed["history"] == whole["history"]
    assert equal(resumed["weights"], whole["weights"])


def test_an_error_in_one_ends_all_alike(two: Path) -> None:
    assert ended(two, "refused", 1)["error"] == "ConfigError 2: colour=blue: must be red"
    assert ended(two, "refused", 0)["error"] == "ProcessError 2: Process 1: colour=blue: must be red"


def test_a_loss_that_diverges_in_one_stops_all_and_keeps_the_last_good_state(two: Path) -> None:
    errors = [ended(two, "nan", rank)["error"] for rank in (0, 1)]
    assert errors[0] == errors[1]
    assert errors[0].startswith(f"NonFiniteLossError 1: The loss term 'retain' became nan at step {cases.STEP - 1}")
    assert ended(two, "nan")["saved"] == [f"step-{cases.STEP - 1:08d}"]


def test_sharding_needs_several_processes() -> None:
    check_sharding("none", Processes())
    check_sharding("fsdp2", Processes(0, 2))
    with pytest.raises(ConfigError, match="start them with torchrun"):
        check_sharding("fsdp2", Processes())


def test_eight_bit_moments_in_shares_are_for_as_many_processes(tmp_path: Path) -> None:
    model = cases.model_of()
    optimizer = torch.optim.AdamW(model.parameters())
    for tensor in model.parameters():
        optimizer.state[tensor]["absmax1"] = torch.zeros(3)
    # One share of one: the same files, and another number of processes.
    save_checkpoint(tmp_path, model, optimizer, Resumed(3, [{}, {}, {}], shards=2))
    folder = tmp_path / "step-00000003"
    assert sorted(path.name for path in folder.iterdir()) == [
        "model-0.safetensors",
        "optimizer-0.safetensors",
        "state.json",
    ]
    _divide(folder)
    with pytest.raises(InputError, match="8-bit moments of a model in 2 shards"):
        load_checkpoint(tmp_path, model, optimizer)


def _divide(folder: Path) -> None:
    """Put the second half of each layer's rows into a second share."""
    for stem in ("model", "optimizer"):
        tensors = load_file(folder / f"{stem}-0.safetensors")
        halves: tuple[dict[str, Tensor], dict[str, Tensor]] = {}, {}
        for name, tensor in tensors.items():
            parts = tensor.chunk(2) if ".layers." in name else (tensor,)
            for half, part in zip(halves, parts, strict=False):
                half[name] = part.contiguous()
        for rank, half in enumerate(halves):
            save_file(half, folder / f"{stem}-{rank}.safetensors")


@pytest.mark.parametrize("name", ["divided, then whole", "whole, then divided"])
def test_a_run_goes_on_in_other_shares(two: Path, name: str) -> None:
    ours, theirs = ended(two, name), cases.train(cases.Odd(0, 0, cases.signalled), micro_batch_size=1)
    assert not ours["error"]
    assert len(ours["history"]) == cases.STEPS
    assert_same_training(ours, theirs, dict(cases.model_of().named_parameters()))


def test_gradients_are_summed_a_bucket_at_a_time() -> None:
    tensors = [
        torch.zeros(n, dtype=kind) for n, kind in [(3, torch.float32), (2, torch.float32), (9, torch.float32)]
    ]
    tensors += [torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1)]
    sizes = [[tensor.numel() for tensor in bucket] for bucket in _buckets(tensors, 20)]
    assert sizes == [[3, 2], [9], [1], [1]]
    assert not list(_buckets([], 20))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"WORLD_SIZE": "2"}, False),
        ({"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "x", "MASTER_PORT": "1"}, False),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "x", "MASTER_PORT": "1"}, True),
    ],
)
def test_several_processes_are_those_that_torchrun_started(
    environment: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert several() == expected


def test_each_process_has_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", devices.append)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Processes().device("cuda:1") == "cuda:1"
    assert Processes(1, 2, 1).device("auto") == "auto"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert Processes(5, 8, 1).device("auto") == "cuda:1"
    assert devices == [1]
    assert Processes(1, 2, 1).device("cpu") == "cpu"
    with pytest.raises(InputError, match="one device for 2 processes"):
        Processes(1, 2, 1).device("cuda:1")
    with pytest.raises(InputError, match="finds 2 GPUs"):
        Processes(2, 3, 2).device("cuda")
