"""A model folder's tokenizer without its model library: it counts tokens, and renders prompts.

A plan tokenizes a sample of texts, so the light ``tokenizers`` package suffices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import Tokenizer

from medunlearn.models.chat import CHAT
from medunlearn.models.folders import adapter_base, chain, is_adapter, local_folder
from medunlearn.models.tiny import BEGIN, fit_tokenizer
from medunlearn.template_process import render_prompt

LETTERS_A_TOKEN = 4
"""Of a tokenizer that is not on this machine."""
TOKENIZER, CONFIG, TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"


class LightTokenizer:
    """Token counts, and prompts of the chat template.

    Attributes:
        begins: number of tokens that stand in front of every text.
        chat_template: None without one.
    """

    def __init__(self, tokenizer: Tokenizer | None, chat_template: str | None, special: dict[str, str]) -> None:
        self._tokenizer, self.chat_template, self._special = tokenizer, chat_template, special
        begin = [] if tokenizer is None else tokenizer.encode("a").tokens
        self.begins = int(bool(begin) and begin[0] == special.get("bos_token"))

    @staticmethod
    def of_model(model: str) -> LightTokenizer:
        """The tokenizer of a run, model folder or hub id; a stand-in if it is not on this machine."""
        folder = local_folder(model)
        if folder is None:
            return LightTokenizer.stand_in()
        if not is_adapter(folder):
            return LightTokenizer.of_folder(chain(folder, check=False)[0])
        own = (folder / TOKENIZER).exists()
        return LightTokenizer.of_folder(folder) if own else LightTokenizer.of_model(adapter_base(folder))

    @staticmethod
    def of_folder(folder: Path) -> LightTokenizer:
        """The tokenizer of a model folder; a stand-in if it has none that can be read."""
        try:
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
            config: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        except Exception:  # the package raises plain exceptions, and a missing file is one of them
            return LightTokenizer.stand_in()
        template = config.get("chat_template")
        if (file := folder / TEMPLATE).exists():
            template = file.read_text(encoding="utf-8")
        if isinstance(template, list):
            template = next((own["template"] for own in template if own["name"] == "default"), None)
        return LightTokenizer(tokenizer, template, _special_tokens(config))

    @staticmethod
    def stand_in() -> LightTokenizer:
        """One token per few letters, and a plain chat template."""
        return LightTokenizer(None, "{% for message in messages %}{{ message['content'] }}\n\n{% endfor %}", {})

    @staticmethod
    def of_tiny(texts: Iterable[str], vocabulary: int) -> LightTokenizer:
        """The tiny model's tokenizer, fitted on some texts."""
        return LightTokenizer(fit_tokenizer(texts, vocabulary), CHAT, {"bos_token": BEGIN})

    @property
    def is_stand_in(self) -> bool:
        return self._tokenizer is None

    @property
    def vocabulary(self) -> int | None:
        """Number of tokens; None for a stand-in."""
        return None if self._tokenizer is None else self._tokenizer.get_vocab_size()

    def count(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text, without special ones."""
        if self._tokenizer is None:
            return [-(-len(text) // LETTERS_A_TOKEN) for text in texts]
        return [
            len(encoding.ids) for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ]

    def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> str:
        """The messages as text; their contents alone if the template cannot be rendered."""
        try:
            asks = options.get("add_generation_prompt", True)
            fields = {"messages": messages, "add_generation_prompt": asks, **self._special}
            options_of_chats = ("trim_blocks", "lstrip_blocks")
            return render_prompt("The chat template", self.chat_template or "", options_of_chats, fields)
        except (TemplateError, TypeError, ValueError):
            return "".join(f"{message['content']}\n\n" for message in messages)


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    tokens = {name: config.get(name) for name in ("bos_token", "eos_token", "pad_token")}
    shown = {name: token.get("content") if isinstance(token, dict) else token for name, token in tokens.items()}
    return {name: token for name, token in shown.items() if isinstance(token, str)}
