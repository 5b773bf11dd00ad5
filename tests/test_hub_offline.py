"""A hub whose name has no address is asked once; everything else is left to the hub's client."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from huggingface_hub import constants

from medunlearn.hub_offline import go_offline_if_unreachable


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[Any]]:
    """``looked_up(known)``: hosts that are asked for from now on; ``known`` says whether they have an address."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def listen(has_address: bool) -> list[Any]:
        lookups = []

        def answer(host: Any, *_: Any) -> list[Any]:
            lookups.append(host)
            if not has_address:
                raise socket.gaierror
            return []

        monkeypatch.setattr(socket, "getaddrinfo", answer)
        return lookups

    return listen


@pytest.mark.parametrize("has_address", [True, False])
def test_offline_where_the_hub_has_no_address(looked_up: Callable[[bool], list[Any]], has_address: bool) -> None:
    lookups = looked_up(has_address)
    for _ in range(2):
        go_offline_if_unreachable()
    assert constants.is_offline_mode() is not has_address
    assert lookups == ["huggingface.co"] * (2 if has_address else 1)


def test_behind_a_proxy_nothing_is_looked_up(
    looked_up: Callable[[bool], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = looked_up(False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:8080")
    go_offline_if_unreachable()
    assert not lookups
    assert not constants.is_offline_mode()
