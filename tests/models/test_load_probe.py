"""What is checked when a model is loaded: tokens, tied weights, the template; and what is recorded of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from family_roads import save_family, small_tokenizer
from model_families import build_family
from real_tokenizers import GEMMA, GEMMA_END, byte_level, prepending
from safetensors.torch import load_file, save_file

from medunlearn.errors import ModelError
from medunlearn.generation.sharing import decoding_of
from medunlearn.models.load import load_model
from medunlearn.models.load_probe import PARTS, check_tokens, load_facts


@pytest.mark.parametrize("make", [byte_level, prepending])
def test_tokens_of_parts_are_those_of_the_text(make: Any) -> None:
    check_tokens(make(PARTS), "it")


def test_a_tokenizer_of_other_texts_is_refused() -> None:
    """A word-level vocabulary without the words of the text."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "</s>": 2}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="</s>")
    with pytest.raises(ModelError, match=r"knows little of an ordinary sentence.*save_pretrained"):
        check_tokens(tokenizer, "it")


def test_parts_that_are_not_the_text_are_refused() -> None:
    class Between(type(small_tokenizer())):  # type: ignore[misc]
        """Puts a token into every text with special tokens."""

        def __call__(self, text: str, **options: Any) -> Any:
            encoding = super().__call__(text, **options)
            if options.get("add_special_tokens", True) and len(encoding["input_ids"]) > 3:
                encoding["input_ids"].insert(2, 2)
            return encoding

    tokenizer = Between(tokenizer_object=small_tokenizer().backend_tokenizer, eos_token="</s>")
    with pytest.raises(ModelError, match="other tokens than its parts"):
        check_tokens(tokenizer, "it")


def test_a_stored_head_is_not_tied(tmp_path: Path) -> None:
    """Whatever the configuration says, also once it is saved again."""
    folder = save_family("Llama, tied", tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in tensors
    head = torch.randn_like(tensors["model.embed_tokens.weight"])
    save_file({**tensors, "lm_head.weight": head}, folder / "model.safetensors", metadata={"format": "pt"})
    again = load_model(folder, device="cpu").save(tmp_path / "again")
    model = load_model(again, device="cpu").model
    assert torch.equal(model.get_output_embeddings().weight, head)
    assert not model.config.tie_word_embeddings


def test_what_is_recorded(tmp_path: Path) -> None:
    folder = save_family("Llama, tied", tmp_path / "model")
    tokenizer = byte_level(PARTS, chat=GEMMA)
    model = build_family("Llama, tied", vocab_size=len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    facts = load_facts(load_model(folder, device="cpu"), decoding_of)
    assert facts["template"] == {"end": GEMMA_END, "openings": 1, "clock": False}
    assert facts["cache"] == "cached"
    assert facts["tied"]
    assert facts["batch"].startswith("packed")
    assert facts["milliseconds"].keys() == {"tokens", "template", "batch", "cache", "tied"}
