"""The part of vLLM that is used here, over a small transformers model: for tests, where vLLM cannot run.

Signatures, defaults and the shapes of outputs are those of vLLM's documentation (`LLM.generate`, `SamplingParams`,
`LoRARequest`, `RequestOutput`); its engine, its batching and its kernels are not imitated.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

MODEL_POSITIONS = 4096


@dataclass
class SamplingParams:
    """What of vLLM's sampling parameters is used; others are refused."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop_token_ids: list[int] | None = None
    max_tokens: int | None = 16
    prompt_logprobs: int | None = None
    detokenize: bool = True

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}.")
        if not 0 < self.top_p <= 1 or self.top_k < -1 or self.temperature < 0:
            raise ValueError("a sampling parameter is out of its range")


@dataclass(frozen=True)
class LoRARequest:
    """An adapter on disk, as PEFT saves it."""

    lora_name: str
    lora_int_id: int
    lora_path: str


class LLM:
    """A model in memory. ``loaded`` counts them."""

    loaded = 0

    def __init__(
        self,
        model: str,
        tokenizer: str | None = None,
        dtype: str = "auto",
        seed: int = 0,
        enable_lora: bool = False,
        max_lora_rank: int = 16,
        lora_target_modules: list[str] | None = None,
    ) -> None:
        LLM.loaded += 1
        # Without these names vLLM's likelihoods of prompts fail, or leave an adapter of the head out.
        assert not enable_lora or (lora_target_modules and "lm_head" not in lora_target_modules)
        self._folder, self._dtype = model, getattr(torch, dtype)
        self._lora, self._rank = enable_lora, max_lora_rank
        self._models: dict[int, Any] = {0: self._base()}
        self._ends = {self._models[0].config.eos_token_id}

    def _base(self) -> Any:
        return AutoModelForCausalLM.from_pretrained(self._folder, dtype=self._dtype).eval()

    def _model(self, request: LoRARequest | None) -> Any:
        if request is None:
            return self._models[0]
        assert self._lora, "LoRA is not enabled"
        assert request.lora_int_id > 0
        if request.lora_int_id not in self._models:
            with warnings.catch_warnings():
                # PEFT asks a property of the model that transformers renamed in 5.20.
                warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
                adapted = PeftModel.from_pretrained(self._base(), request.lora_path).eval()
            assert adapted.peft_config["default"].r <= self._rank
            self._models[request.lora_int_id] = adapted
        return self._models[request.lora_int_id]

    @torch.no_grad()
    def generate(
        self,
        prompts: list[dict[str, list[int]]],
        sampling_params: list[SamplingParams],
        *,
        use_tqdm: bool = True,
        lora_request: LoRARequest | None = None,
    ) -> list[Any]:
        model = self._model(lora_request)
        pairs = zip(prompts, sampling_params, strict=True)
        return [self._answer(model, prompt["prompt_token_ids"], how) for prompt, how in pairs]

    def _answer(self, model: Any, prompt: list[int], how: SamplingParams) -> Any:
        ids, scored = list(prompt), None
        if how.prompt_logprobs is not None:
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
            pairs = zip(logits[:-1], ids[1:], strict=True)
            scored = [None, *(self._places(row, token, how.prompt_logprobs) for row, token in pairs)]
        source = torch.Generator().manual_seed(how.seed or 0)
        stops, reason = self._ends | {*(how.stop_token_ids or [])}, "length"
        assert how.max_tokens is not None
        for _ in range(how.max_tokens):
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float()
            ids.append(self._choose(logits, how, source))
            if ids[-1] in stops:
                reason = "stop"
                break
        answer = SimpleNamespace(index=0, token_ids=ids[len(prompt) :], finish_reason=reason)
        return SimpleNamespace(prompt_token_ids=prompt, prompt_logprobs=scored, outputs=[answer])

    def _places(self, row: torch.Tensor, token: int, count: int) -> dict[int, Any]:
        logs = row.log_softmax(dim=0)
        tokens = dict.fromkeys([token, *logs.topk(count).indices.tolist()])
        return {
            one: SimpleNamespace(logprob=float(logs[one]), rank=int((logs > logs[one]).sum()) + 1) for one in tokens
        }

    def _choose(self, logits: torch.Tensor, how: SamplingParams, source: torch.Generator) -> int:
        if how.temperature == 0:
            return int(logits.argmax())
        logits = logits / how.temperature
        if how.top_k > 0:
            logits[logits < logits.topk(how.top_k).values[-1]] = -torch.inf
        weights, order = logits.softmax(dim=0).sort(descending=True)
        weights[weights.cumsum(dim=0) - weights >= how.top_p] = 0
        return int(order[torch.multinomial(weights, 1, generator=source)])


def install(monkeypatch: Any) -> type[LLM]:
    """Put this in the place of vLLM for a test."""
    module, lora, request = ModuleType("vllm"), ModuleType("vllm.lora"), ModuleType("vllm.lora.request")
    module.__spec__ = SimpleNamespace(name="vllm")  # type: ignore[assignment]
    vars(module).update(LLM=LLM, SamplingParams=SamplingParams, __version__="fake")
    vars(request)["LoRARequest"] = LoRARequest
    for name, part in {"vllm": module, "vllm.lora": lora, "vllm.lora.request": request}.items():
        monkeypatch.setitem(sys.modules, name, part)
    LLM.loaded = 0
    return LLM
