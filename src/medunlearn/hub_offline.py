"""A hub that cannot be reached is not asked again and again: what is in the cache is read at once."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit


def go_offline_if_unreachable() -> None:
    """Switch the hub's client to its cache for this process where the hub's host has no address.

    Without it the client tries each file for half a minute. Behind a proxy nothing is looked up here.
    """
    from huggingface_hub import constants

    if constants.is_offline_mode() or any(name.lower() in ("https_proxy", "all_proxy") for name in os.environ):
        return
    host = urlsplit(constants.ENDPOINT).hostname
    try:
        socket.getaddrinfo(host, 443)
    except socket.gaierror:
        constants.HF_HUB_OFFLINE = True
