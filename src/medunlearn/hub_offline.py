"""Offline mode for an unreachable model hub: files are read from the cache at once, without retries."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit


def go_offline_if_unreachable() -> None:
    """Switch the hub's client to its cache for this process if the hub's host name cannot be resolved.

    Otherwise the client retries each file for half a minute. Behind a proxy the name is not resolved here.
    """
    from huggingface_hub import constants

    if constants.is_offline_mode() or any(name.lower() in ("https_proxy", "all_proxy") for name in os.environ):
        return
    host = urlsplit(constants.ENDPOINT).hostname
    try:
        socket.getaddrinfo(host, 443)
    except socket.gaierror:
        constants.HF_HUB_OFFLINE = True
