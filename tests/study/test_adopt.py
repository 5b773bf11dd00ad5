"""Models from elsewhere become runs: hashed, checked, asked as they were trained, and used by every stage."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from broken import poison, scramble
from foreign_models import CHAT, edit_json, save_adapter, save_foreign
from safetensors.torch import load_file, save_file

from medunlearn.config import AdoptSettings, EvaluateSettings, UnlearnSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.errors import ConfigError, InputError, ModelError, StorageError
from medunlearn.models.ancestry import model_use
from medunlearn.models.folders import fingerprint
from medunlearn.models.load import load_model
from medunlearn.probes.evaluate import evaluate
from medunlearn.probes.sample_loss import SampleLoss, better_template, choose_template, guessing_problem
from medunlearn.results.runs import Run
from medunlearn.results.verify import verify_runs
from medunlearn.study.adopt import adopt, adopted_losses, run_of
from medunlearn.study.export import export
from medunlearn.study.presets import train_settings
from medunlearn.study.unlearn import unlearn

SPLIT, WEIGHTS = "random_10", "model.safetensors"
ASKED = {"split": SPLIT, "limit": 2, "max_new_tokens": 4, "replicates": 20}
WAYS = [("plain", 4, 100, 1.5), ("chat", 4, 90, 2.5)]
IDS = torch.tensor([[5, 60, 7, 80, 9]])


def adopted(folder: Path | str, hospital: Benchmark, out: Path, **settings: Any) -> Run:
    return adopt(folder, hospital, check(AdoptSettings, settings), out, device="cpu", quiet=True)


def logits(folder: Path) -> torch.Tensor:
    with torch.inference_mode():
        return load_model(folder, device="cpu").model.eval()(input_ids=IDS).logits


@pytest.fixture(scope="module")
def chat(target: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests read it and change copies."""
    return save_foreign(target.model, tmp_path_factory.mktemp("foreign") / "chat")


@pytest.fixture(scope="module")
def adapter(chat: Path) -> Path:
    return save_adapter(chat, chat.parent / "adapter")


@pytest.fixture
def own_chat(chat: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(chat, tmp_path / "chat"))


def test_a_folder_becomes_a_target(chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    run = adopted(chat, hospital, tmp_path / "run")
    facts = Run.open(run.folder).info
    assert (run.role, facts.label, facts.made_for, facts.verb) == ("target", "target", None, "adopt")
    assert facts.rendering["template"] == "chat"
    assert facts.rendering["context"] == "closed_book"
    assert set(facts.results["source"]["files"]) == {path.name for path in chat.iterdir()}
    assert facts.lineage == [str(chat)]
    assert (facts.data_use, model_use(run.folder)) == (None, None)
    assert run.saw(hospital.texts_fingerprint, hospital.fingerprint)
    # Nothing of the weights is in the run, and it is the same model.
    assert sum(path.stat().st_size for path in run.model.glob("*.safetensors")) < 100
    assert torch.equal(logits(run.model), logits(chat))
    assert run.folder.stat().st_mode & 0o777 == 0o700
    state = (run.folder / "run.json").stat().st_mtime_ns
    assert adopted(chat, hospital, tmp_path / "run").info.key == facts.key
    assert (run.folder / "run.json").stat().st_mtime_ns == state


def test_losses_are_measured_as_the_model_is_asked(
    chat: Path, target: Run, hospital: Benchmark, tmp_path: Path
) -> None:
    """By transformers alone, on every record and question: the sample is all of them."""
    run = adopted(chat, hospital, tmp_path / "run", sample=10_000)
    ways = {(loss["what"], loss["template"]): loss for loss in run.info.results["losses"]}
    assert set(ways) == {("records", "text"), ("questions", "plain"), ("questions", "chat")}
    live = load_model(chat, device="cpu")
    tokenizer, model = live.tokenizer, live.model.eval()
    questions = [question for question in hospital.questions if question.fold == "train"]

    def loss(prompt: Callable[[str], str], space: str, begin: bool) -> float:
        total, tokens = 0.0, 0
        for question in questions:
            ids = tokenizer(prompt(question.question), add_special_tokens=begin)["input_ids"]
            ids = ids[:-1] if ids[-1] == tokenizer.eos_token_id else ids
            answer = tokenizer(space + question.answer, add_special_tokens=False)["input_ids"]
            answer = [*answer, tokenizer.eos_token_id]
            with torch.inference_mode():
                log_probs = model(input_ids=torch.tensor([ids + answer])).logits[0].log_softmax(-1)
            total -= sum(float(log_probs[len(ids) - 1 + place, token]) for place, token in enumerate(answer))
            tokens += len(answer)
        return total / tokens

    def in_chat(question: str) -> str:
        return f"<|user|>\n{question}\n<|assistant|>\n"

    assert ways["questions", "chat"]["loss"] == pytest.approx(loss(in_chat, "", begin=False), rel=1e-5)
    plain = loss(lambda question: f"Question: {question}\nAnswer:", " ", begin=True)
    assert ways["questions", "plain"]["loss"] == pytest.approx(plain, rel=1e-5)
    assert run.info.results["uniform_loss"] == pytest.approx(math.log(model.config.vocab_size))


def test_a_better_template_is_said() -> None:
    losses = [SampleLoss("records", "text", 4, 100, 0.1), *(SampleLoss("questions", *way) for way in WAYS)]
    assert better_template(losses, "plain") is None
    better = better_template(losses, "chat")
    assert better is not None
    assert (better.template, better.loss) == ("plain", 1.5)
    assert better_template(losses[:1], "chat") is None


@pytest.mark.parametrize(
    ("plain", "chat", "usual", "chosen", "in_doubt"),
    [
        (1.5, 2.0, "chat", "plain", False),
        (2.0, 1.5, "chat", "chat", False),
        (1.95, 2.0, "chat", "chat", True),
        (1.0, None, "chat", "plain", False),
        (None, None, "chat", "chat", False),
    ],
)
def test_the_template_in_which_a_model_answers_better(
    plain: float | None, chat: float | None, usual: str, chosen: str, in_doubt: bool
) -> None:
    losses = [SampleLoss("questions", name, 4, 100, loss) for name, loss in (("plain", plain), ("chat", chat))]
    choice = choose_template([SampleLoss("records", "text", 4, 100, 0.1), *losses], usual)
    assert (choice.template, choice.in_doubt) == (chosen, in_doubt)


def test_a_model_is_adopted_in_the_better_template(chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    """The target hardly knows any question, so that it is in doubt, and asked as usual."""
    run = adopted(chat, hospital, tmp_path / "run", template="better")
    choice = run.info.results["template_choice"]
    assert choice["in_doubt"]
    assert set(choice["losses"]) == {"plain", "chat"}
    assert run.rendering().template == choice["template"] == "chat"


@pytest.mark.parametrize(
    ("with_chat", "settings", "template", "context"),
    [
        (True, {}, "chat", "closed_book"),
        (False, {}, "plain", "closed_book"),
        (True, {"template": "clinical", "context": "note"}, "clinical", "note"),
    ],
)
def test_later_stages_ask_as_it_was_asked(
    target: Run, hospital: Benchmark, tmp_path: Path, with_chat: bool, settings: Any, template: str, context: str
) -> None:
    folder = save_foreign(target.model, tmp_path / "m", chat=with_chat)
    run = adopted(folder, hospital, tmp_path / "run", **settings)
    values = {"split": SPLIT, "method": "graddiff", "epochs": 1, "precision": "fp32"}
    unlearned = unlearn(run, hospital, check(UnlearnSettings, values), tmp_path / "u", device="cpu", quiet=True)
    for later in (run, unlearned):
        assert (later.rendering().template, later.rendering().context) == (template, context)
    assert unlearned.info.lineage == [str(folder), str(run.folder)]
    assert (train_settings({"model": str(run.folder)}).template, run.rendering().template) == (template,) * 2
    assert train_settings({"model": str(run.folder), "template": "plain"}).template == "plain"


@pytest.mark.parametrize(
    ("recorded", "asked"), [("clinical", "clinical"), ("plain", "plain"), ("chat", "chat"), (["mine"], "chat")]
)
def test_a_model_is_asked_as_it_was_trained_where_its_folder_tells(
    own_chat: Path, hospital: Benchmark, tmp_path: Path, recorded: Any, asked: str
) -> None:
    (own_chat / "lineage.json").write_text(json.dumps({"data_use": "open", "template": recorded}))
    assert adopted(own_chat, hospital, tmp_path / "run", sample=1).rendering().template == asked


def test_an_adapter_goes_with_its_base(adapter: Path, chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    run = adopted(adapter, hospital, tmp_path / "run")
    assert torch.equal(logits(run.model), logits(adapter))
    assert not torch.equal(logits(run.model), logits(chat))
    assert run.info.lineage == [str(chat), str(adapter)]
    assert run.rendering().template == "chat"
    whole = export(run.folder, tmp_path / "hf")
    torch.testing.assert_close(logits(whole), logits(adapter), rtol=1e-5, atol=1e-5)
    values = {"split": SPLIT, "method": "graddiff", "epochs": 1, "precision": "fp32"}
    unlearned = unlearn(run, hospital, check(UnlearnSettings, values), tmp_path / "u", device="cpu", quiet=True)
    assert not torch.equal(logits(unlearned.model), logits(run.model))
    assert verify_runs([run.folder, unlearned.folder]).wrong == []


def test_a_base_is_named(adapter: Path, chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    other = Path(shutil.copytree(adapter, tmp_path / "adapter"))
    edit_json(other / "adapter_config.json", base_model_name_or_path="/gone/base")
    with pytest.raises(ModelError, match=r"its base is not there: .*/gone/base.*--base"):
        adopted(other, hospital, tmp_path / "run")
    edit_json(other / "adapter_config.json", base_model_name_or_path=None)
    with pytest.raises(ModelError, match=r"names no base.*--base FOLDER"):
        adopted(other, hospital, tmp_path / "run")
    run = adopted(other, hospital, tmp_path / "run", base=str(chat))
    assert torch.equal(logits(run.model), logits(adapter))
    with pytest.raises(InputError, match="--base is for a LoRA adapter"):
        adopted(chat, hospital, tmp_path / "r", base=str(chat))
    with pytest.raises(ModelError, match="is an adapter itself"):
        adopted(other, hospital, tmp_path / "r", base=str(adapter))


def test_a_run_of_ours_is_a_base(target: Run, hospital: Benchmark, tmp_path: Path) -> None:
    method = {"split": SPLIT, "method": "graddiff", "epochs": 1, "precision": "fp32", "trainable": "layers:1"}
    delta = unlearn(target, hospital, check(UnlearnSettings, method), tmp_path / "u", device="cpu", quiet=True)
    assert delta.info.results["saved"]["form"] == "delta"
    export(delta.folder, tmp_path / "whole")
    adapter = save_adapter(tmp_path / "whole", tmp_path / "adapter")
    run = adopted(adapter, hospital, tmp_path / "run", base=str(delta.folder))
    torch.testing.assert_close(logits(run.model), logits(adapter), rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="contains only the changed tensors"):
        adopted(adapter, hospital, tmp_path / "copy", base=str(delta.folder), copy_weights=True)


@pytest.mark.parametrize("kind", ["full", "adapter"])
def test_a_copy_stands_alone(own_chat: Path, hospital: Benchmark, tmp_path: Path, kind: str) -> None:
    source = own_chat if kind == "full" else save_adapter(own_chat, tmp_path / "adapter")
    run = adopted(source, hospital, tmp_path / "run", copy_weights=True)
    meant = logits(source)
    for folder in {own_chat, source}:
        shutil.rmtree(folder)
    moved = Path(shutil.move(run.folder, tmp_path / "elsewhere"))
    assert torch.equal(logits(moved / "model"), meant)
    assert verify_runs([moved]).wrong == []
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in moved.rglob("*.safetensors"))


def test_a_file_that_changed_is_noticed(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    run = adopted(own_chat, hospital, tmp_path / "run")
    before = (own_chat / "model.safetensors").stat()
    scramble(own_chat)
    with pytest.raises(ModelError, match=r"has changed since .*run adopted it: model.safetensors has another"):
        load_model(run.model, device="cpu")
    assert {check.what for check in verify_runs([run.folder]).wrong} == {"base", "source"}
    # The same size and time: loading trusts these, verify does not.
    os.utime(own_chat / "model.safetensors", ns=(before.st_atime_ns, before.st_mtime_ns))
    load_model(run.model, device="cpu")
    assert {check.what for check in verify_runs([run.folder]).wrong} == {"base", "source"}
    with pytest.raises(InputError, match="contains another run"):
        adopted(own_chat, hospital, tmp_path / "run", allow_broken=True)
    (own_chat / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model.safetensors is missing"):
        load_model(run.model, device="cpu")
    shutil.rmtree(own_chat)
    with pytest.raises(ModelError, match="its base is not at"):
        load_model(run.model, device="cpu")


def test_a_changed_chat_template_is_noticed(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    run = adopted(own_chat, hospital, tmp_path / "run")
    (own_chat / "chat_template.jinja").write_text(CHAT.replace("assistant", "doctor"))
    with pytest.raises(ModelError, match=r"chat_template.jinja has another SHA-256"):
        load_model(run.model, device="cpu")


def test_a_changed_base_is_noticed(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    source = save_adapter(own_chat, tmp_path / "adapter")
    run = adopted(source, hospital, tmp_path / "run")
    meant = logits(run.model)
    shutil.rmtree(source)  # is in the run
    assert torch.equal(logits(run.model), meant)
    scramble(own_chat)
    with pytest.raises(ModelError, match=r"has changed since .*run adopted it: model.safetensors"):
        load_model(run.model, device="cpu")
    checks = verify_runs([run.folder])
    assert {check.what for check in checks.wrong} == {"base", "source"}
    assert {check.state for check in checks.checks if "adapter" in check.name} == {"ok", "not checked"}


def test_broken_models_are_refused(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    healthy = Path(shutil.copytree(own_chat, tmp_path / "healthy"))
    scramble(own_chat)
    with pytest.raises(ModelError, match=r"no better than uniform guessing \(\d\.\d\d\).*adopt --allow-broken"):
        adopted(own_chat, hospital, tmp_path / "run")
    # Nothing stands in the way of the right model.
    assert not (tmp_path / "run" / "model").exists()
    assert adopted(healthy, hospital, tmp_path / "run").info.problems == ()
    run = adopted(own_chat, hospital, tmp_path / "broken", allow_broken=True)
    assert len(run.info.problems) == 1
    # Every later page says so, and none is made without a word of the user's.
    with pytest.raises(ModelError, match="target is a broken model: its loss is no better"):
        evaluate(run, hospital, check(EvaluateSettings, ASKED), device="cpu", quiet=True)
    poison(healthy)
    with pytest.raises(ModelError, match="NaN or infinity"):
        adopted(healthy, hospital, tmp_path / "nan")
    run = adopted(healthy, hospital, tmp_path / "nan", allow_broken=True)
    weights, loss = Run.open(run.folder).info.problems
    assert "NaN" in weights
    assert "not finite" in loss
    assert {loss.loss for loss in adopted_losses(run)} == {None}


def test_a_model_that_did_not_learn_it_passes_and_one_that_guesses_does_not() -> None:
    def loss(value: float, what: str = "records") -> SampleLoss:
        return SampleLoss(what, "text", 4, 100, value)

    assert guessing_problem([loss(9.0), loss(2.9, "questions")], 3.0) == ""
    assert guessing_problem([loss(2.96)], 3.0) == ""
    assert "2.98 a token on records" in guessing_problem([loss(2.98)], 3.0)
    assert "3.00 a token on records" in guessing_problem([loss(3.0)], 3.0)
    assert "8.00 a token on questions" in guessing_problem([loss(9.0), loss(8.0, "questions")], 3.0)


def test_a_retrained_model_serves_as_one(chat: Path, target: Run, hospital: Benchmark, tmp_path: Path) -> None:
    run = adopted(chat, hospital, tmp_path / "retrained", role="retrained", without=SPLIT)
    assert (run.role, run.label, run.info.made_for) == ("retrained", "retrained", SPLIT)
    settings = check(EvaluateSettings, {**ASKED, "allow_broken": True})
    main = adopted(chat, hospital, tmp_path / "target")
    table = evaluate(main, hospital, settings, against=[run], device="cpu", quiet=True).table()
    assert set(table["model"]) == {"target", "retrained"}
    method = {"split": SPLIT, "method": "npo", "arguments": {"reference": str(run.folder)}, "epochs": 1}
    made = unlearn(main, hospital, check(UnlearnSettings, method), tmp_path / "npo", device="cpu", quiet=True)
    assert made.info.results["reference_model"] == str(run.folder)
    with pytest.raises(InputError, match="no split"):
        adopted(chat, hospital, tmp_path / "r", role="retrained", without="nothing")
    with pytest.raises(ConfigError, match="without is missing"):
        check(AdoptSettings, {"role": "retrained"})
    with pytest.raises(ConfigError, match="--role retrained"):
        check(AdoptSettings, {"without": SPLIT})


@pytest.mark.parametrize(
    ("recorded", "stated", "of_benchmark", "use"),
    [
        (None, None, "open", None),
        (None, "open", "open", "open"),
        (None, None, "credentialed", "credentialed"),
        ("open", None, "open", "open"),
        ("credentialed", None, "open", "credentialed"),
        (None, "credentialed", "open", "credentialed"),
    ],
)
def test_data_use(
    own_chat: Path, hospital: Benchmark, tmp_path: Path, recorded: Any, stated: Any, of_benchmark: Any, use: Any
) -> None:
    if recorded:
        (own_chat / "lineage.json").write_text(f'{{"data_use": "{recorded}"}}')
    bench = replace(hospital, data_use=of_benchmark)
    run = adopted(own_chat, bench, tmp_path / "run", data_use=stated, sample=1)
    assert (run.info.data_use, model_use(run.folder)) == (use, use)


def test_an_open_statement_loosens_nothing(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    (own_chat / "lineage.json").write_text('{"data_use": "credentialed"}')
    with pytest.raises(ConfigError, match="recorded as credentialed"):
        adopted(own_chat, hospital, tmp_path / "run", data_use="open")


def test_a_folder_is_adopted_where_a_run_is_wanted(
    own_chat: Path, hospital: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(own_chat, hospital, beside=tmp_path / "runs", split=SPLIT, device="cpu", sample=2)
    said = " ".join(capsys.readouterr().err.split())
    assert f"adopted as {run.folder}, asked in its chat template, closed book" in said
    assert run.folder.parent == tmp_path / "runs"
    assert run.folder.name.startswith("adopted-chat-")
    for same in (own_chat, run, run.folder):
        assert run_of(same, hospital, beside=tmp_path / "runs", device="cpu", sample=2).folder == run.folder
    with pytest.raises(InputError, match="no split"):
        run_of(own_chat, hospital, beside=tmp_path / "other", split="nothing", device="cpu")
    with pytest.raises(InputError, match="holds no run"):
        run_of("org/name", hospital, beside=tmp_path / "other", device="cpu")
    assert not (tmp_path / "other").exists()


def test_a_model_is_cut_to_its_positions(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    edit_json(own_chat / "config.json", max_position_embeddings=64)
    run = adopted(own_chat, hospital, tmp_path / "run")
    assert run.info.rendering["max_length"] == 64


def test_a_chat_template_that_cannot_be_filled(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    (own_chat / "chat_template.jinja").write_text("{{ raise_exception('System first') }}")
    with pytest.raises(
        ModelError, match=r"chat template of .* cannot be filled in: .*System first.*--template plain"
    ):
        adopted(own_chat, hospital, tmp_path / "run")


def test_its_fingerprint_is_of_the_files(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    run = adopted(own_chat, hospital, tmp_path / "run")
    moved = Path(shutil.move(own_chat, tmp_path / "moved"))
    again = adopted(moved, hospital, tmp_path / "again")
    assert run.fingerprint == again.fingerprint
    assert run.info.inputs["model"] == fingerprint(moved)


def test_a_model_that_does_nothing_is_refused(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    state = {name: torch.zeros_like(tensor) for name, tensor in load_file(own_chat / WEIGHTS).items()}
    save_file(state, own_chat / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="no better than uniform guessing"):
        adopted(own_chat, hospital, tmp_path / "run")


def test_weights_of_another_architecture(own_chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    edit_json(own_chat / "config.json", num_hidden_layers=3)
    with pytest.raises(ModelError, match=r"lacks weights that its config.json requires"):
        adopted(own_chat, hospital, tmp_path / "run")
    edit_json(own_chat / "config.json", num_hidden_layers=2, intermediate_size=8)
    with pytest.raises(ModelError, match=rf"{own_chat} cannot be loaded: its weights have other shapes"):
        adopted(own_chat, hospital, tmp_path / "run")
    edit_json(own_chat / "config.json", architectures=["GPT2LMHeadModel"], model_type="gpt2")
    with pytest.raises(ModelError):
        adopted(own_chat, hospital, tmp_path / "run")
    edit_json(own_chat / "config.json", architectures=["BertModel"], model_type="bert")
    with pytest.raises(ModelError):
        adopted(own_chat, hospital, tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()


def test_a_benchmark_of_records_alone(chat: Path, hospital: Benchmark, tmp_path: Path) -> None:
    run = adopted(chat, replace(hospital, questions=()), tmp_path / "run")
    assert [(loss["what"], loss["items"]) for loss in run.info.results["losses"]] == [("records", 20)]


@pytest.mark.parametrize("place", ["study.adopt.sample_losses", "models.model_source.shutil.copyfile"])
def test_it_goes_on_after_an_interruption(
    adapter: Path, chat: Path, hospital: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"medunlearn.{place}", stop)
        with pytest.raises(KeyboardInterrupt):
            adopted(adapter, hospital, tmp_path / "run", copy_weights=True)
    assert not list(tmp_path.rglob("*.safetensors"))
    # A kill leaves something of each part.
    for name in ("model", "base", "weights"):
        (tmp_path / "run" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name / "adapter_config.json").write_text("{")
    run = adopted(adapter, hospital, tmp_path / "run", copy_weights=True)
    assert torch.equal(logits(run.model), logits(adapter))
    assert verify_runs([run.folder]).wrong == []


def test_a_full_disk_leaves_nothing_half(
    chat: Path, hospital: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, part: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("medunlearn.models.model_source.shutil.copyfile", full)
        with pytest.raises(StorageError):
            adopted(chat, hospital, tmp_path / "run", copy_weights=True)
    assert [path.name for path in (tmp_path / "run").iterdir() if path.name != ".medunlearn.lock"] == ["run.json"]
    assert adopted(chat, hospital, tmp_path / "run", copy_weights=True).info.complete


def test_a_folder_that_was_moved_is_written_into_the_run(
    own_chat: Path, hospital: Benchmark, tmp_path: Path
) -> None:
    run = adopted(own_chat, hospital, tmp_path / "run")
    moved = Path(shutil.move(own_chat, tmp_path / "moved"))
    assert verify_runs([run.folder]).wrong
    edit_json(run.model / "delta.json", base=str(moved))
    assert verify_runs([run.folder]).wrong == []
    assert torch.equal(logits(run.model), logits(moved))
