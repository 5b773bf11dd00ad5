"""A run is recorded whatever happens, found again under its key, and never written over."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_folders import write_run

import medunlearn
from medunlearn.config import TrainSettings, check
from medunlearn.data.storage import sha256_of_json
from medunlearn.errors import InputError, StorageError
from medunlearn.results.keys import ALWAYS_OUTSIDE, DRAWS, counted, keyed_folder
from medunlearn.results.runs import FILE, HISTORY, Recording, Run

INPUTS = {"benchmark": "abc", "model": "tiny"}


def settings(**changes: Any) -> TrainSettings:
    return check(TrainSettings, {"model": "tiny", "epochs": 2, **changes})


def recording(folder: Path, inputs: dict[str, str] = INPUTS, verb: str = "train", **changes: Any) -> Recording:
    return Recording(folder, verb, "target", settings(**changes), inputs, data_use="open")


def written(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / FILE).read_text())
    return record


def complete(folder: Path) -> Recording:
    record = recording(folder)
    with record.running():
        record.info["results"] = {"steps": 3}
    return record


def test_a_complete_run_is_returned(tmp_path: Path) -> None:
    assert not recording(tmp_path / "run").done
    complete(tmp_path / "run")
    again = recording(tmp_path / "run")
    assert again.done
    run = Run.open(tmp_path / "run")
    assert (run.info["status"], run.info["results"], run.label) == ("complete", {"steps": 3}, "target")
    assert run.model == tmp_path / "run" / "model"
    assert run.info["key"] == again.key


def test_the_processor_time_of_a_resumed_run_is_not_known(tmp_path: Path) -> None:
    with suppress(KeyboardInterrupt), recording(tmp_path / "run").running():
        (tmp_path / "run" / "checkpoints").mkdir()
        raise KeyboardInterrupt
    with recording(tmp_path / "run").running():
        pass
    info = written(tmp_path / "run")
    assert info["status"] == "complete"
    assert info["seconds"] >= 0
    assert info.get("cpu_seconds") is None


def test_what_is_recorded(tmp_path: Path) -> None:
    record = recording(tmp_path / "run")
    with record.running():
        assert written(tmp_path / "run")["status"] == "running"
        with record.stage("load"):
            sum(range(5_000_000))
    info = written(tmp_path / "run")
    assert 0 < info["cpu_seconds"] <= info["seconds"] + 0.02
    assert info["config"] == settings().model_dump(mode="json")
    assert info["inputs"] == INPUTS
    assert set(info["stages"]["load"]) == {"seconds", "peak_memory_bytes"}
    assert info["peak_memory_bytes"] >= info["stages"]["load"]["peak_memory_bytes"] > 2**20
    assert info["packages"]["torch"]
    assert info["hardware"]
    assert set(info["code"]) == {"commit", "dirty"}
    assert (tmp_path / "run").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("boom\nmore"), "failed"), (KeyboardInterrupt(), "interrupted")]
)
def test_a_run_that_ends_early_says_how(tmp_path: Path, error: BaseException, status: str) -> None:
    record = recording(tmp_path / "run")

    def work() -> None:
        with record.running(), record.stage("load"):
            raise error

    with pytest.raises(type(error)):
        work()
    info = written(tmp_path / "run")
    assert info["status"] == status
    assert info["error"] == ("ValueError: boom" if status == "failed" else "KeyboardInterrupt: ")
    assert info["stages"] == {}
    with pytest.raises(InputError, match=rf"is not complete \({status}\). Run its command again"):
        Run.open(tmp_path / "run")
    assert not recording(tmp_path / "run").done


def test_a_run_that_was_cut_off_goes_on_under_its_key(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), recording(tmp_path / "run").running():
        raise KeyboardInterrupt
    complete(tmp_path / "run")
    info = Run.open(tmp_path / "run").info.as_dict()
    assert info["status"] == "complete"
    assert "error" not in info


def test_the_error_of_the_work_is_told_even_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: Any) -> None:
        raise StorageError("The disk is full")

    record = recording(tmp_path / "run")

    def work() -> None:
        with record.running():
            monkeypatch.setattr("medunlearn.results.record.write_json", full)
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        work()
    assert written(tmp_path / "run")["status"] == "running"


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"epochs": 3}, "epochs: 2 there, 3 here"),
        ({"epochs": 3, "lr": 0.5}, "epochs: 2 there, 3 here; lr: 2e-05 there, 0.5 here"),
        ({"inputs": {"benchmark": "xyz", "model": "tiny"}}, "benchmark: abc there, xyz here"),
        ({"verb": "unlearn"}, "verb: train there, unlearn here"),
        ({"trainable": "x" * 60}, f"trainable: all there, {'x' * 37}... here"),
    ],
)
def test_another_run_is_refused_with_what_differs(tmp_path: Path, changes: dict[str, Any], differs: str) -> None:
    complete(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(InputError) as caught:
        recording(tmp_path, **changes)
    assert f"(differs in {differs})" in str(caught.value)
    assert (tmp_path / FILE).read_bytes() == before


def test_another_version_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(tmp_path)
    monkeypatch.setattr(medunlearn, "__version__", "99")
    with pytest.raises(InputError, match="differs in the version of medunlearn"):
        recording(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"is not empty and contains no run. Choose another --out"):
        recording(tmp_path)
    with pytest.raises(InputError, match=r"holds no run \(no run.json\)"):
        Run.open(tmp_path)
    with pytest.raises(InputError, match="holds no run: there is no such folder"):
        Run.open(tmp_path / "nowhere")


@pytest.mark.parametrize(("text", "message"), [("{", "cannot be read as JSON"), ("[]", "is not a run's record")])
def test_a_broken_run_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / FILE).write_text(text)
    for look in (lambda: recording(tmp_path), lambda: Run.open(tmp_path)):
        with pytest.raises(InputError, match=message):
            look()


def test_the_key_is_the_hash_of_what_the_result_depends_on(tmp_path: Path) -> None:
    config = settings().model_dump(mode="json")
    for name in ("offload", "sharding", *DRAWS, *ALWAYS_OUTSIDE & config.keys()):
        del config[name]
    earlier_key = sha256_of_json(["train", config, INPUTS, medunlearn.__version__])
    assert recording(tmp_path).key == earlier_key == Recording.key_of("train", settings(), INPUTS)


def test_a_setting_that_came_later_changes_no_earlier_key() -> None:
    older = {"method": "npo", "template": None}
    assert counted("unlearn", {**older, "relatives": 0.0}) == counted("unlearn", older) == older
    assert counted("unlearn", {**older, "relatives": 0.25}) == {**older, "relatives": 0.25}


def test_the_way_of_computing_is_recorded_outside_the_key(tmp_path: Path) -> None:
    complete(tmp_path)
    ways = {"micro_batch_size": 1, "gradient_checkpointing": True, "offload": "optimizer", "sharding": "fsdp2"}
    assert recording(tmp_path, checkpoint_seconds=0, **ways).done
    assert written(tmp_path)["config"]["micro_batch_size"] == 8
    other = (
        {},
        {"seed": 1},
        {"batch_size": 65},
        {"lora_dropout": 0.1},
        {"lora_dropout": 0.1, "micro_batch_size": 1},
    )
    assert len({Recording.key_of("train", settings(**changes), INPUTS) for changes in other}) == len(other)
    # A pass of an evaluation is no step of a training.
    plain, in_epochs = settings(evaluate={"limit": 2}), settings(evaluate={"limit": 2, "batch_size": 1})
    assert Recording.key_of("train", plain, INPUTS) == Recording.key_of("train", in_epochs, INPUTS)


def earlier(folder: Path, **changes: Any) -> None:
    """A complete run as 0.2.0's development left it: nearly every setting in its key."""
    complete(folder)
    record = written(folder)
    record["config"] |= changes
    config = {name: value for name, value in record["config"].items() if name not in ALWAYS_OUTSIDE}
    record["key"] = sha256_of_json(["train", config, INPUTS, medunlearn.__version__])
    (folder / FILE).write_text(json.dumps(record))


def test_a_run_under_an_earlier_key_is_found(tmp_path: Path) -> None:
    key = recording(tmp_path / "new").key
    earlier(tmp_path / "target-12345678", micro_batch_size=2)
    assert written(tmp_path / "target-12345678")["key"] != key
    assert recording(tmp_path / "target-12345678").done
    assert keyed_folder(tmp_path, "target", key) == tmp_path / "target-12345678"
    assert keyed_folder(tmp_path, "target", "0" * 64) == tmp_path / "target-00000000"
    # What somebody changed by hand is not taken for it.
    record = written(tmp_path / "target-12345678")
    record["config"]["lr"] = 1.0
    (tmp_path / "target-12345678" / FILE).write_text(json.dumps(record))
    assert keyed_folder(tmp_path, "target", key) == tmp_path / f"target-{key[:8]}"
    with pytest.raises(InputError, match=r"differs in lr: 1.0 there"):
        recording(tmp_path / "target-12345678")


def test_a_run_made_by_hand_is_found_by_its_key(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), recording(tmp_path / "half", micro_batch_size=1).running():
        raise KeyboardInterrupt
    record = recording(tmp_path / "half")
    assert keyed_folder(tmp_path, "target", record.key) == tmp_path / "half"
    complete(tmp_path / "by hand")
    assert keyed_folder(tmp_path, "target", record.key) == tmp_path / "by hand"


def test_a_folder_has_the_first_forty_letters_of_a_long_name(tmp_path: Path) -> None:
    name = "my_package.attacks:" + "Long" * 100
    assert keyed_folder(tmp_path, name, "0123456789").name == f"my_package_attacks_{'Long' * 5}L-01234567"


def test_a_history_is_a_table_or_empty(tmp_path: Path) -> None:
    complete(tmp_path)
    run = Run.open(tmp_path)
    assert run.history().empty
    pd.DataFrame({"step": [1, 2], "loss": [2.0, 1.0]}).to_parquet(tmp_path / HISTORY)
    assert run.history()["loss"].tolist() == [2.0, 1.0]


def test_the_training_run_of_a_model_is_the_latest_in_its_lineage(tmp_path: Path) -> None:
    target = write_run(tmp_path / "target", "train", "target", lineage=["tiny"])
    again = write_run(tmp_path / "again", "train", "again", lineage=[str(target.folder)])
    ancestors = ["tiny", str(target.folder), str(again.folder)]
    once = write_run(tmp_path / "once", "unlearn", "ga", lineage=ancestors)
    twice = write_run(tmp_path / "twice", "unlearn", "npo", lineage=[*ancestors, str(once.folder)])
    trainings = [run.training and run.training.folder for run in (target, again, once, twice)]
    assert trainings == [target.folder, again.folder, again.folder, again.folder]
    assert write_run(tmp_path / "adopted", "adopt", "x", lineage=["org/name"]).training is None
