"""What a model's folder may ask for: one way in, no code of its own, no size or pattern that holds a library."""

from __future__ import annotations

import ast
import json
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

import medunlearn
from medunlearn import template_process
from medunlearn.errors import InputError, ModelError
from medunlearn.models import limits
from medunlearn.models.limits import refuse_oversized
from medunlearn.models.load import load_model
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.study.describing import described

HUGE = {
    "layers": {"num_hidden_layers": 10**7},
    "layers of GPT-2": {"n_layer": 10**6},
    "layers inside": {"text_config": {"num_hidden_layers": 5_000}},
    "depth of a tower": {"vision_config": {"depth": 10**9}},
    "depths in a list": {"depths": [2, 2, 10**6]},
    "experts": {"num_local_experts": 10**6},
    "vocabulary": {"vocab_size": 10**12},
    "width": {"hidden_size": 10**9},
    "heads": {"num_attention_heads": 10**8},
    "picture": {"vision_config": {"image_size": 10**6}},
    "positions": {"max_position_embeddings": 10**12},
    "a list": {"layer_types": ["full_attention"] * 200_000},
}
MARK = "ran"
CODE = f"open({MARK!r}, 'w').close()\n"


def changed(path: Path, values: dict[str, Any]) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | values))


def save_adapter(base: Path, folder: Path, modules: str | list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_pretrained(base)
        get_peft_model(model, LoraConfig(r=2, target_modules=modules)).save_pretrained(folder)


@pytest.mark.parametrize("values", HUGE.values(), ids=[*HUGE])
def test_a_huge_configuration_is_refused_at_once(values: dict[str, Any], base: Path) -> None:
    changed(base / "config.json", values)
    start = time.process_time()
    for load in (load_model, load_tokenizer):
        with pytest.raises(ModelError, match=r"config\.json (says|has) .*at most"):
            load(base)
    assert time.process_time() - start < 5


def added_in_tokenizer(folder: Path, number: int) -> None:
    content = json.loads((folder / "tokenizer.json").read_text())
    token = content["added_tokens"][0]
    content["added_tokens"] += [{**token, "id": 5000 + n, "content": f"<{n}>"} for n in range(number)]
    (folder / "tokenizer.json").write_text(json.dumps(content))


def added_beside(folder: Path, number: int) -> None:
    (folder / "added_tokens.json").write_text(json.dumps({f"<{n}>": 5000 + n for n in range(number)}))


def added_in_settings(folder: Path, number: int) -> None:
    tokens = {str(5000 + n): {"content": f"<{n}>", "special": True} for n in range(number)}
    changed(folder / "tokenizer_config.json", {"added_tokens_decoder": tokens})


def special_in_settings(folder: Path, number: int) -> None:
    changed(folder / "tokenizer_config.json", {"additional_special_tokens": [f"<{n}>" for n in range(number)]})


@pytest.mark.parametrize("add", [added_in_tokenizer, added_beside, added_in_settings, special_in_settings])
def test_many_added_tokens_are_refused(add: Callable[[Path, int], None], base: Path) -> None:
    add(base, 50)
    refuse_oversized(base)
    add(base, limits.ADDED_TOKENS + 1)
    with pytest.raises(ModelError, match=r"adds .* tokens; at most 100,000"):
        load_tokenizer(base)


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": r"(.*)*(.*)*(.*)*x"},
        {"exclude_modules": r"(\w+\.?)+!"},
        {"rank_pattern": {r"((\w|\.)+)+!": 4}},
        {"alpha_pattern": {r"((\w|\.)+)+!": 4}},
        {"layers_pattern": [r"((\w|\.)+)+!"], "layers_to_transform": [0]},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_pattern_that_backtracks_is_refused(
    settings: dict[str, Any], base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_adapter(base, tmp_path / "adapter", ["q_proj"])
    changed(tmp_path / "adapter" / "adapter_config.json", settings)
    monkeypatch.setattr(template_process, "SECONDS", 0.3)
    with pytest.raises(InputError, match=r"A pattern in .*adapter_config\.json takes more than"):
        load_model(tmp_path / "adapter")


def test_patterns_and_wrong_patterns(base: Path, tmp_path: Path) -> None:
    save_adapter(base, tmp_path / "adapter", r".*\.(q|v)_proj")
    load_model(tmp_path / "adapter")
    changed(tmp_path / "adapter" / "adapter_config.json", {"target_modules": "(q_proj"})
    with pytest.raises(ModelError, match="wrong pattern"):
        load_model(tmp_path / "adapter")


def tokenizer_code(folder: Path) -> None:
    (folder / "own.py").write_text(CODE + "from transformers import LlamaTokenizer as Own\n")
    changed(folder / "tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["own.Own", None]}})


def tokenizer_code_alone(folder: Path) -> None:
    tokenizer_code(folder)
    changed(folder / "tokenizer_config.json", {"tokenizer_class": "Own"})
    changed(folder / "config.json", {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}})


def model_code(folder: Path) -> None:
    (folder / "own.py").write_text(CODE + "from transformers import LlamaForCausalLM as Own\n")
    changed(folder / "config.json", {"auto_map": {"AutoModelForCausalLM": "own.Own"}})


def generation_code(folder: Path) -> None:
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(CODE + "def generate(model, **how): ...\n")


@pytest.mark.parametrize("make", [tokenizer_code, tokenizer_code_alone, model_code, generation_code])
def test_code_of_a_folder_is_not_run_and_nobody_is_asked(
    make: Callable[[Path], None], base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(base)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda question="": pytest.fail("a question on standard input"))
    benchmark = medunlearn.build("amnesia", synthetic=4)
    for use in (load_model, load_tokenizer, lambda folder: described(benchmark, folder)):
        with suppress(InputError):
            use(base)
    assert not (tmp_path / MARK).exists()


def test_every_from_pretrained_goes_through_one_door() -> None:
    """A call of a class's own ``from_pretrained`` or ``from_config`` elsewhere could run code, or be held."""
    calls, root = set(), Path(medunlearn.__file__).parent
    texts = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")}
    for name, text in texts.items():
        for node in ast.walk(ast.parse(text)) if ".from_pretrained" in text else ():
            if isinstance(node, ast.Attribute) and node.attr == "from_pretrained":
                calls.add(name)
        assert text.count(".from_config(") <= text.count("trust_remote_code="), name
        assert "torch.load(" not in text, name
    assert calls == {"models/loading.py"}
