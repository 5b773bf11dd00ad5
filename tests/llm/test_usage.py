"""The budget is never passed while servers keep to what they were asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medunlearn.config import check
from medunlearn.errors import ConfigError, InputError
from medunlearn.llm import Budget, ServerSettings, Usage
from medunlearn.llm.usage import BudgetSpentError, most_prompt_tokens, usage_of

URL = "http://127.0.0.1:1/v1"


def settings(**values: object) -> ServerSettings:
    return check(ServerSettings, {"base_url": URL, "model": "m", **values})


@given(
    limit=st.integers(0, 300),
    requests=st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1), st.booleans()), max_size=40),
)
def test_whatever_is_in_flight_the_limit_holds(limit: int, requests: list[tuple[int, float, bool]]) -> None:
    budget = Budget(settings(budget_tokens=limit))
    open_tickets: list[tuple[int, Usage]] = []
    for most, share, finish_one in requests:
        try:
            ticket = budget.reserve(Usage(1, most, 0))
        except BudgetSpentError:
            assert not open_tickets
            assert budget.spent.tokens + most > limit
            continue
        if ticket is not None:
            open_tickets.append((ticket, Usage(1, int(most * share), 0)))
        if open_tickets and (ticket is None or finish_one):
            budget.settle(*open_tickets.pop(0))
    for ticket_and_usage in open_tickets:
        budget.settle(*ticket_and_usage)
    assert budget.spent.tokens <= limit


def test_requests_and_money_too() -> None:
    budget = Budget(settings(budget_requests=1))
    budget.settle(budget.reserve(Usage(1)) or 0, Usage(1))
    with pytest.raises(BudgetSpentError, match="1 requests"):
        budget.reserve(Usage(1))
    with_prices = settings(budget_money=0.5, prices={"m": [2.0, 10.0]})
    most = usage_of(with_prices.price, 100_000, 20_000)
    assert most.money == pytest.approx(0.1 * 2 + 0.02 * 10)
    budget = Budget(with_prices)
    ticket = budget.reserve(most)
    assert budget.reserve(most) is None  # 0.8 would be in flight
    assert ticket is not None
    budget.settle(ticket, usage_of(with_prices.price, 10_000, 2_000))
    assert budget.reserve(most) is not None


def test_what_was_spent_before_counts() -> None:
    budget = Budget(settings(budget_tokens=100), spent=Usage(3, 90, 5))
    with pytest.raises(BudgetSpentError):
        budget.reserve(Usage(1, 6, 0))
    assert budget.reserve(Usage(1, 5, 0)) is not None


def test_no_prompt_has_more_tokens_than_its_bound() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    bytewise = Tokenizer(
        models.BPE(vocab={c: n for n, c in enumerate(pre_tokenizers.ByteLevel.alphabet())}, merges=[])
    )
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    for text in ("chest pain", "naïve 病人 🫀", "\n\t \x00"):
        body = {"messages": [{"role": "user", "content": text}]}
        assert len(bytewise.encode(text).ids) <= most_prompt_tokens(body)
        enforced = body | {"response_format": {"json_schema": text * 100}}  # some servers put it into the prompt
        assert most_prompt_tokens(enforced) >= most_prompt_tokens(body) + len(bytewise.encode(text * 100).ids)


def test_money_without_a_price_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"prices\.m"):
        settings(budget_money=5)
    assert settings(model="served", model_name="m", prices={"m": [1, 2]}).price == (1, 2)


@pytest.mark.parametrize("field", ["model", "max_tokens", "temperature", "n", "stream"])
def test_extra_fields_set_nothing_that_the_client_sets(field: str) -> None:
    with pytest.raises(ConfigError, match=f"medunlearn sets {field} itself"):
        settings(extra={field: 1, "reasoning_effort": "low"})


def test_the_key_comes_from_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-elsewhere")
    assert settings().api_key() is None
    named = settings(api_key_env="MY_KEY")
    with pytest.raises(ConfigError, match=r"no variable of that name is set") as caught:
        named.api_key()
    assert "MY_KEY" not in str(caught.value)
    monkeypatch.setenv("MY_KEY", "sk-1\nX: y")
    with pytest.raises(ConfigError, match="printable") as caught:
        named.api_key()
    assert "sk-1" not in str(caught.value)
    monkeypatch.setenv("MY_KEY", " sk-2\n")
    assert named.api_key() == "sk-2"
    assert "sk-2" not in named.model_dump_json() + repr(named)
    with pytest.raises(ConfigError, match="api_key"):
        settings(api_key="sk-3")


@pytest.mark.parametrize("name", ["MY_KEY", "OPENAI_API_KEY", "GPT4_KEY", "_key", "K", "Gateway2"])
def test_a_variables_name_is_taken(name: str) -> None:
    assert settings(api_key_env=name).api_key_env == name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("api_key_env", key) for key in ("sk-proj-Ab3", "hf_AbCdEfGh12345678", "9f86d081884c7d659a2feaa0c5")),
        *(("api_key_env", key) for key in ("AIzaSyD1x", "Bearer x1", "abcdEFGH1234ijklMNOP5678", "é", "a\0b")),
        *((field, "sk-proj-Ab3") for field in ("base_url", "proxy")),
        *(("extra", {name: "sk-proj-Ab3"}) for name in ("api_key", "Authorization", "client_secret", "api-key")),
    ],
)
def test_a_key_in_another_place_is_refused_and_not_shown(field: str, value: Any) -> None:
    with pytest.raises(InputError) as refused:
        settings(**{field: value})
    key = value if isinstance(value, str) else next(iter(value.values()))
    assert key not in str(refused.value)


def test_sums() -> None:
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40, 0.5) == Usage(11, 22, 33, 44, 0.5)
    assert Usage(1, 2, 3).money is None


def test_a_budget_within_another_counts_in_both() -> None:
    build = Budget(settings(budget_requests=3))
    verifier = Budget(settings(budget_requests=2), within=build)
    first, second = verifier.reserve(Usage(1)), verifier.reserve(Usage(1))
    assert first is not None
    assert second is not None
    assert verifier.reserve(Usage(1)) is None
    verifier.settle(first, Usage(1))
    verifier.settle(second, Usage(1))
    assert (verifier.spent, build.spent) == (Usage(2), Usage(2))
    with pytest.raises(BudgetSpentError, match="2 requests"):
        verifier.reserve(Usage(1))
    other = Budget(settings(), within=build)
    last = other.reserve(Usage(1))
    assert other.reserve(Usage(1)) is None
    other.settle(last or 0, Usage(1))
    with pytest.raises(BudgetSpentError, match="3 requests"):
        other.reserve(Usage(1))
