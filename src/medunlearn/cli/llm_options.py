"""Options of every verb that asks a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medunlearn.errors import ConfigError

Url = Annotated[str | None, typer.Option("--llm", help="Language-model server, with /v1: http://127.0.0.1:8000/v1")]
Model = Annotated[str | None, typer.Option("--llm-model", help="The model, as the server calls it.")]
KeyEnv = Annotated[str | None, typer.Option("--llm-key-env", help="Environment variable that holds the key.")]
Price = Annotated[
    str | None, typer.Option("--llm-price", help="PROMPT,ANSWER: money for a million tokens of each.")
]
BudgetTokens = Annotated[int | None, typer.Option("--llm-budget-tokens", help="Most tokens in all.")]
BudgetRequests = Annotated[int | None, typer.Option("--llm-budget-requests", help="Most requests in all.")]
BudgetMoney = Annotated[
    float | None, typer.Option("--llm-budget-money", help="Most money in all; needs --llm-price.")
]
Responses = Annotated[
    Path | None,
    typer.Option("--llm-store", help="Folder of the model's responses; what is in it is not asked again."),
]
DryRun = Annotated[bool, typer.Option("--llm-dry-run", help="Estimate requests, tokens and cost; send nothing.")]
Again = Annotated[bool, typer.Option("--llm-again", help="Ask again what was answered unusably or refused.")]
AllowRemote = Annotated[
    bool,
    typer.Option("--allow-remote-llm", help="Permit a server off this machine for data that should stay here."),
]


def server_values(
    url: str | None,
    model: str | None,
    key_env: str | None,
    price: str | None,
    tokens: int | None,
    requests: int | None,
    money: float | None,
) -> dict[str, Any]:
    """What the flags say of the server, as its settings.

    Raises:
        ConfigError: a price that is not two numbers.
    """
    prices = {model: _price(price)} if price is not None and model is not None else None
    values = {
        "base_url": url,
        "model": model,
        "api_key_env": key_env,
        "prices": prices,
        "budget_tokens": tokens,
        "budget_requests": requests,
        "budget_money": money,
    }
    return {name: value for name, value in values.items() if value is not None}


def _price(text: str) -> tuple[float, float]:
    try:
        prompt, answer = (float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError([f"--llm-price {text!r} is not PROMPT,ANSWER, such as 0.1,0.4"]) from None
    return prompt, answer
