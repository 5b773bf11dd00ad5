"""The ``medunlearn`` command, ``python -m medunlearn``, and ``torchrun -m medunlearn`` for several processes."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> None:
    """Load the commands and run the requested one; Ctrl-C during loading exits without a traceback."""
    # Where whoever started this has it ignore Ctrl-C, it still does.
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, _leave)
    from medunlearn.cli.main import main as command

    if heeds:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _leave(*_: object) -> NoReturn:
    # An exception would meet libraries that are half loaded, and some of them turn it into another one.
    os.write(2, b"\ninterrupted before anything was done.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
