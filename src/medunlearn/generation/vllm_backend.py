"""Responses and likelihoods by vLLM, which is optional: ``pip install 'medunlearn[vllm]'``.

vLLM uses its own kernels and attention precision, so numbers agree with our engine's up to rounding, and samples
differ. vLLM applies a LoRA run's adapter to its base without merging, and one base in memory serves all of its
adapters.
"""

from __future__ import annotations

import atexit
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, GenerationConfig

from medunlearn.errors import ConfigError, InputError
from medunlearn.generation.decodings import GREEDY, Decoding
from medunlearn.models.folders import DTYPES, Weights, adapter_base, chain, is_adapter, model_identity
from medunlearn.models.load import LanguageModel
from medunlearn.models.loading import from_pretrained
from medunlearn.models.low_rank import A, B, LowRank, read_low_rank
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.scoring import AnswerScore
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import stable_seed

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM reserves room for."""
IN_FLIGHT = 1024
"""Prompts that vLLM gets at a time, at least: it batches them as there is room, and all are waited for together."""
DESCRIPTION = "vLLM {}: paged attention, its own batching"


def check_backend(backend: str) -> None:
    """Refuse vLLM if it is not installed.

    Raises:
        ConfigError: names the extra.
    """
    if backend == "vllm" and find_spec("vllm") is None:
        raise ConfigError(
            ["backend=vllm needs vLLM: pip install 'medunlearn[vllm]' (Linux, a GPU), or leave --backend out."]
        )


@dataclass
class VllmEngine:
    """A model in vLLM, and the adapters that it serves.

    Attributes:
        llm: vLLM's model object.
        root: folder or hub id of the full model.
        rank: largest rank of an adapter; 0 if it serves none.
        modules: names of the layers that an adapter may change.
        adapters: fingerprint of an adapter's folder -> the request that selects it.
    """

    llm: Any
    root: str
    weights: str
    rank: int
    modules: frozenset[str]
    adapters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter on disk.

    Attributes:
        source: PEFT's folder, or the content of a delta.
        modules: names of the layers that it changes, such as ``q_proj``.
    """

    source: Path | LowRank
    rank: int
    modules: frozenset[str]


@dataclass
class Served:
    """A :class:`VllmEngine` with at most one adapter: stands in for a model in scoring and decoding."""

    engine: VllmEngine
    adapter: Any
    description: str

    def score(self, sequences: Sequence[TokenSequence]) -> list[AnswerScore]:
        """Teacher-forced scores of each sequence's scored tokens."""
        from vllm import SamplingParams

        # One token is drawn, since vLLM draws at least one; it is not looked at.
        how = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1, detokenize=False)
        outputs = self._generate([sequence.ids for sequence in sequences], [how] * len(sequences))
        return [
            _score(sequence, output.prompt_logprobs) for sequence, output in zip(sequences, outputs, strict=True)
        ]

    def continued(
        self,
        prompts: Sequence[Sequence[int]],
        room: Sequence[int],
        ends: frozenset[int],
        decoding: Decoding,
        purposes: Sequence[Sequence[str | int]],
    ) -> list[tuple[int, ...]]:
        """Tokens that follow each prompt, including the end token if reached.

        Args:
            room: most tokens for each prompt.
            purposes: words of each draw's seed; unused for greedy decoding.
        """
        from vllm import SamplingParams

        stop: dict[str, Any] = {"stop_token_ids": sorted(ends), "detokenize": False}
        how = [
            SamplingParams(max_tokens=most, **stop, **_sampling_options(decoding, purposes, n))
            for n, most in enumerate(room)
        ]
        answers = []
        for output in self._generate(prompts, how):
            tokens = tuple(output.outputs[0].token_ids)
            # A stop token may or may not be among the tokens.
            stopped = output.outputs[0].finish_reason == "stop" and not (tokens and tokens[-1] in ends)
            answers.append((*tokens, min(ends)) if stopped else tokens)
        return answers

    def _generate(self, prompts: Sequence[Sequence[int]], how: Sequence[Any]) -> list[Any]:
        tokens = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        outputs: list[Any] = self.engine.llm.generate(tokens, list(how), lora_request=self.adapter, use_tqdm=False)
        return outputs


def _sampling_options(decoding: Decoding, purposes: Sequence[Sequence[str | int]], place: int) -> dict[str, Any]:
    if not decoding.draws:
        return {"temperature": 0.0}
    cuts = {"top_k": decoding.top_k, "top_p": decoding.top_p}
    seed = stable_seed("vllm", *purposes[place]) % 2**31
    return {"temperature": decoding.temperature, "seed": seed, **{k: v for k, v in cuts.items() if v is not None}}


def _score(sequence: TokenSequence, positions: Sequence[Mapping[int, Any] | None]) -> AnswerScore:
    log_probs, hits, choices = list[float](), list[bool](), list[int]()
    for place in range(sequence.scored_from, len(sequence.ids)):
        token, candidates = sequence.ids[place], positions[place]
        assert candidates is not None
        first = max(candidates, key=lambda token_id: (candidates[token_id].logprob, token_id == token))
        log_probs.append(float(candidates[token].logprob))
        choices.append(first)
        hits.append(first == token)
    return AnswerScore(tuple(log_probs), tuple(hits), tuple(choices))


_engines: list[VllmEngine] = []
"""The engine in memory: one at a time."""


def load_vllm(source: str | Path, *, weights: Weights) -> LanguageModel:
    """Load a model folder or hub id into vLLM; an adapter with its base.

    An engine in memory is reused for every model with the same base.

    Raises:
        ConfigError: vLLM is not installed.
        InputError: a model in a format that vLLM cannot load.
    """
    check_backend("vllm")
    import vllm

    folder = Path(source)
    root, adapter = _parts(folder) if folder.is_dir() else (str(source), None)
    tokenizer = load_tokenizer(folder)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    config = from_pretrained(AutoConfig, root)
    if hasattr(config, "vision_config"):
        raise InputError(f"{source} takes images, which --backend vllm does not support. Leave --backend out.")
    engine = _engine(vllm, root, weights, adapter)
    request = None if adapter is None else _request(engine, folder, adapter.source)
    # What is asked of a model besides passes: its configuration, and the tokens that end its answers.
    has_settings = (Path(root) / "generation_config.json").exists()
    settings = from_pretrained(GenerationConfig, root) if has_settings else None
    model = SimpleNamespace(config=config, generation_config=settings, eval=lambda: None)
    description = DESCRIPTION.format(getattr(vllm, "__version__", ""))
    return LanguageModel(model, tokenizer, str(source), engine=Served(engine, request, description))


def _parts(folder: Path) -> tuple[str, Adapter | None]:
    """The full model that a folder is based on, and its adapter."""
    if is_adapter(folder):
        base = adapter_base(folder)
        root, more = _parts(Path(base)) if Path(base).is_dir() else (base, None)
        if more is None:
            return root, _peft_adapter(folder)
    else:
        root_folder, *deltas = chain(folder)
        low_rank = read_low_rank(deltas[0]) if len(deltas) == 1 else None
        if not deltas:
            return str(root_folder.resolve()), None
        if low_rank is not None and all(factor > 0 for factor in low_rank.factors.values()):
            rank = max(len(low_rank.tensors[name + A]) for name in low_rank.factors)
            names = [name.removesuffix(".weight") for name in low_rank.factors]
            return str(root_folder.resolve()), Adapter(low_rank, rank, _layer_modules(folder, names))
    raise _cannot_load(folder, "more than a full model or one LoRA adapter on it")


def _peft_adapter(folder: Path) -> Adapter:
    facts = json.loads((folder / "adapter_config.json").read_text())
    with safe_open(folder / "adapter_model.safetensors", "pt") as tensors:
        names = [name.partition(".lora_") for name in tensors.keys()]  # noqa: SIM118  # no mapping
    if not all(kind for _, kind, _ in names):
        raise _cannot_load(folder, "an adapter with layers trained as a whole")
    return Adapter(folder, int(facts["r"]), _layer_modules(folder, [name for name, _, _ in names]))


def _layer_modules(folder: Path, names: Collection[str]) -> frozenset[str]:
    """Last parts of the names of an adapter's modules.

    Raises:
        InputError: a module outside of the numbered layers: vLLM ignores an adapter of the head in prompt
            likelihoods.
    """
    for name in names:
        if not any(part.isdecimal() for part in name.split(".")):
            raise _cannot_load(folder, f"an adapter of {_module(name)}")
    return frozenset(map(_module, names))


def _module(name: str) -> str:
    return name.rpartition(".")[2]


def _cannot_load(folder: Path, what: str) -> InputError:
    return InputError(
        f"{folder} is {what}, which vLLM cannot load or score. Write it out "
        f"(`medunlearn export {folder.parent} --out hf/`, then `medunlearn adopt hf/`), or leave --backend out."
    )


def _engine(vllm: Any, root: str, weights: Weights, adapter: Adapter | None) -> VllmEngine:
    least, modules = (0, frozenset[str]()) if adapter is None else (adapter.rank, adapter.modules)
    for engine in _engines:
        if (engine.root, engine.weights) == (root, weights) and engine.rank >= least and engine.modules >= modules:
            return engine
    _engines.clear()  # vLLM takes the device's memory: one model at a time
    rank = next(rank for rank in (0, *RANKS, least) if rank >= least)
    lora: dict[str, Any] = {}
    if adapter is not None:
        # By default vLLM lays an adapter on the head too, which breaks the likelihoods of a prompt.
        lora = {"enable_lora": True, "max_lora_rank": rank, "lora_target_modules": sorted(modules)}
    llm = vllm.LLM(model=root, tokenizer=root, dtype=DTYPES[weights], seed=0, **lora)
    _engines.append(VllmEngine(llm, root, weights, rank, modules))
    return _engines[-1]


def _request(engine: VllmEngine, folder: Path, adapter: Path | LowRank) -> Any:
    from vllm.lora.request import LoRARequest

    name = model_identity(str(folder))
    if name not in engine.adapters:
        where = adapter if isinstance(adapter, Path) else _as_peft(adapter)
        engine.adapters[name] = LoRARequest(name[:12], len(engine.adapters) + 1, str(where))
    return engine.adapters[name]


def _as_peft(low_rank: LowRank) -> Path:
    """A temporary folder with an adapter in PEFT format; unequal scalings are folded into B."""
    scratch = tempfile.TemporaryDirectory(prefix="medunlearn-adapter-")
    atexit.register(scratch.cleanup)
    folder, tensors, modules = Path(scratch.name), dict[str, Any](), set[str]()
    rank = max(len(low_rank.tensors[name + A]) for name in low_rank.factors)
    for name, factor in low_rank.factors.items():
        module = name.removesuffix(".weight")
        modules.add(_module(module))
        tensors[f"base_model.model.{module}.lora_A.weight"] = low_rank.tensors[name + A].contiguous()
        tensors[f"base_model.model.{module}.lora_B.weight"] = (low_rank.tensors[name + B] * factor).contiguous()
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    facts = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank, "bias": "none",
             "target_modules": sorted(modules), "base_model_name_or_path": ""}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(facts))
    return folder


def decode_by_engine(
    engine: Served,
    prompts: Sequence[Sequence[int]],
    begun: Sequence[tuple[int, ...]],
    ends: frozenset[int],
    most: int,
    choose: Any,
    batch_size: int,
) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """Answers, by the index of their prompts; known first tokens are not decoded again.

    Args:
        choose: a token sampler, for its decoding and seeds; anything else means greedy decoding.
    """
    decoding, purposes = getattr(choose, "decoding", GREEDY), getattr(choose, "purposes", ())
    places = [n for n, tokens in enumerate(begun) if len(tokens) < most and not ends & {*tokens}]
    step = max(batch_size, IN_FLIGHT)
    for start in range(0, len(places), step):
        some = places[start : start + step]
        room = [most - len(begun[place]) for place in some]
        prefixes = [(*prompts[place], *begun[place]) for place in some]
        answers = engine.continued(prefixes, room, ends, decoding, [purposes[p] for p in some] if purposes else ())
        yield [(place, (*begun[place], *answer)) for place, answer in zip(some, answers, strict=True)]
