"""vLLM as a backend, with a module in its place that has its calls: responses, likelihoods, adapters."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_vllm
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from medunlearn.audit.audit_run import audit
from medunlearn.audit.audit_tables import stored_responses
from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.data.responses import ResponseStore
from medunlearn.errors import ConfigError, InputError
from medunlearn.generation import vllm_backend
from medunlearn.generation.decodings import Decoding
from medunlearn.generation.respond import sample_responses
from medunlearn.generation.vllm_backend import load_vllm
from medunlearn.models.delta import save_delta
from medunlearn.models.load import load_model
from medunlearn.models.low_rank import low_rank_of
from medunlearn.models.sequences import Rendering
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run
from medunlearn.training.trainable import choose_trainable, trained


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[fake_vllm.LLM]]:
    vllm_backend._engines.clear()
    yield fake_vllm.install(monkeypatch)
    vllm_backend._engines.clear()


def evaluated(run: Run, hospital: Benchmark, **values: Any) -> Evaluated:
    quick = {"split": "random_10", "replicates": 20, "limit": 1, "max_new_tokens": 6, "allow_broken": True}
    return evaluate_one(run, hospital, check(EvaluateSettings, {**quick, **values}), quiet=True)


def adapted(run: Run, seed: int) -> Run:
    """The run with an adapter on its model in the model's place."""
    base = run.folder.parent / "base"
    if not base.exists():
        shutil.copytree(run.model, base)
    live = load_model(base, device="cpu")
    live.model = choose_trainable(live.model, "lora:3:7", seed=seed)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in trained(live.model).values():
            tensor.add_(torch.randn(tensor.shape, generator=source) * 0.05)
    adapter = low_rank_of(live.model, base)
    assert adapter is not None
    shutil.rmtree(run.model)
    adapter.save(base, run.model)
    record = json.loads((run.folder / "run.json").read_text())
    record["model_files"] = {}
    (run.folder / "run.json").write_text(json.dumps(record))
    return Run.open(run.folder)


def assert_equal(ours: Evaluated, theirs: Evaluated) -> None:
    assert ours.responses.keys() == theirs.responses.keys()
    for name, response in ours.responses.items():
        other = theirs.responses[name]
        assert (response.response_tokens, response.finished) == (other.response_tokens, other.finished)
        assert response.answer_hits == other.answer_hits
        assert response.answer_log_probs == pytest.approx(other.answer_log_probs, abs=1e-4)
    values = [one.summary["value"].astype(float).tolist() for one in (ours, theirs)]
    assert values[0] == pytest.approx(values[1], rel=1e-4, nan_ok=True)


def test_numbers_are_those_of_our_engine_and_one_base_serves_its_adapters(
    hospital: Benchmark, copy: Callable[..., Run], engine: type[fake_vllm.LLM]
) -> None:
    runs = [adapted(copy(f"run{seed}"), seed) for seed in (1, 2)]
    texts = []
    for run in runs:
        ours, theirs = evaluated(run, hospital), evaluated(run, hospital, backend="vllm")
        assert theirs.record.info.results["generation"].startswith("vLLM")
        assert_equal(ours, theirs)
        texts.append({name: response.answer_log_probs for name, response in theirs.responses.items()})
    assert texts[0] != texts[1]
    assert engine.loaded == 1


def test_an_audit_draws_by_its_own_seeds(
    hospital: Benchmark, copy: Callable[..., Run], engine: type[fake_vllm.LLM], tmp_path: Path
) -> None:
    run, tables = copy(), {}
    hospital.save(tmp_path / "bench")
    for name, values in {"own": {}, "vllm": {"backend": "vllm"}, "again": {"backend": "vllm"}}.items():
        how: dict[str, Any] = {"prefixes": (10,), "max_new_tokens": 30, "limit": 2, "shortest_suffix": 4, **values}
        how |= {"decodings": ("greedy", "temperature=1.0+top_p=0.9"), "samples_per_prompt": 3, "replicates": 20}
        result = audit(run.folder, tmp_path / "bench", out=tmp_path / name, quiet=True, allow_broken=True, **how)
        responses = {key: one.response_tokens for key, one in stored_responses(result.run.folder).items()}
        tables[name] = ({k: v for k, v in responses.items() if k[1] == "greedy"}, responses)
    assert tables["own"][0] == tables["vllm"][0]
    assert tables["vllm"][1] == tables["again"][1]
    drawn = [tokens for key, tokens in tables["vllm"][1].items() if key[1] != "greedy"]
    assert len(set(drawn)) > len(drawn) / 2


def test_what_vllm_cannot_do_is_refused(
    copy: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = copy()
    monkeypatch.setattr(vllm_backend, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'medunlearn\[vllm\]'"):
        load_vllm(run.model, weights="fp32")
    monkeypatch.undo()
    fake_vllm.install(monkeypatch)
    live = load_model(run.model, device="cpu")
    with torch.no_grad():
        next(live.model.parameters()).mul_(2)
    save_delta(live.model, run.model, tmp_path / "delta")
    with pytest.raises(InputError, match="medunlearn export"):
        load_vllm(tmp_path / "delta", weights="fp32")


@pytest.mark.parametrize(
    ("part", "refusal"), [("lm_head", "an adapter of lm_head"), ("whole", "trained as a whole")]
)
def test_an_adapter_that_vllm_would_leave_out_is_refused(
    part: str, refusal: str, copy: Callable[..., Run], engine: type[fake_vllm.LLM], tmp_path: Path
) -> None:
    """Its likelihoods of prompts would be those without the adapter, and nothing would say so."""
    run = copy()
    modules = ["lm_head"] if part == "lm_head" else ["q_proj"]
    whole = ["down_proj"] if part == "whole" else None
    config = LoraConfig(r=2, target_modules=modules, modules_to_save=whole, task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tied weights, and of an attribute that transformers renamed
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(run.model), config)
        adapted.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    facts = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    facts["base_model_name_or_path"] = str(run.model)
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match=refusal):
        load_vllm(tmp_path / "adapter", weights="fp32")
    assert engine.loaded == 0


def test_drawn_responses_are_refused(
    hospital: Benchmark, copy: Callable[..., Run], engine: type[fake_vllm.LLM], tmp_path: Path
) -> None:
    """Their probability under the decoding is not among vLLM's numbers."""
    where = (hospital.questions[:1], hospital.record, ResponseStore(tmp_path, {}), Rendering())
    how: dict[str, Any] = {"samples": 1, "seed": 0, "max_new_tokens": 2}
    with pytest.raises(InputError, match="Leave --backend out"):
        sample_responses(load_vllm(copy().model, weights="fp32"), *where, Decoding(1.0), **how)
