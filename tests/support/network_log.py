"""Log of sockets, connections and name look-ups of a Python process and its children, by Python's audit events.

An event cannot be switched off once it is watched, so a process that watches is one of its own.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

LOOK_UPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
TOWARDS = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")
LOCAL = (int(socket.AF_UNIX), -1)  # socket pairs of an event loop, and sockets that are given from outside


def watch(log: Path | str) -> None:
    """Write one line for each event to a file, from now on to the end of the process."""
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "socket.__new__" and int(args[1]) not in LOCAL:
            line = ["socket", socket.AddressFamily(args[1]).name]
        elif event in TOWARDS and isinstance(args[1], tuple):
            line = [event.removeprefix("socket."), f"{args[1][0]}:{args[1][1]}"]
        elif event in LOOK_UPS:
            line = ["look-up", str(args[0])]
        else:
            return
        os.write(out, json.dumps(line).encode() + b"\n")

    sys.addaudithook(hook)


def read(log: Path) -> list[tuple[str, str]]:
    """(``socket``, ``connect``, ``bind``, ``sendto``, ``sendmsg`` or ``look-up``; family, address or name)."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(what, of) for what, of in map(json.loads, lines)]


def in_every_process(folder: Path, log: Path) -> dict[str, str]:
    """Environment in which each Python process writes this log; ``folder`` gets a ``sitecustomize``."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        "import os, network_log\nnetwork_log.watch(os.environ['NETWORK_LOG'])\n"
    )
    paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "NETWORK_LOG": str(log)}
