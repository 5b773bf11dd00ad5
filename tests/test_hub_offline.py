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

    def listen(known: bool) -> list[Any]:
        asked = []

        def answer(host: Any, *_: Any) -> list[Any]:
            asked.append(host)
            if not known:
                raise socket.gaierror
            return []

        monkeypatch.setattr(socket, "getaddrinfo", answer)
        return asked

    return listen


@pytest.mark.parametrize("known", [True, False])
def test_offline_where_the_hub_has_no_address(looked_up: Callable[[bool], list[Any]], known: bool) -> None:
    asked = looked_up(known)
    for _ in range(2):
        go_offline_if_unreachable()
    assert constants.is_offline_mode() is not known
    assert asked == ["huggingface.co"] * (2 if known else 1)


def test_behind_a_proxy_nothing_is_looked_up(
    looked_up: Callable[[bool], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = looked_up(False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:8080")
    go_offline_if_unreachable()
    assert not asked
    assert not constants.is_offline_mode()
