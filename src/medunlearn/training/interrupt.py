"""Ctrl-C and SIGTERM, by which clusters stop a job: deferred in a training step, alike elsewhere."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class Interruption:
    """Context that defers the first signal to the next :meth:`check`; the second one raises at once.

    An interrupted optimizer step leaves some weights updated and others not, a state that no run passes through.
    Ignored signals stay ignored. Outside the main thread, where Python delivers no signals, it does nothing.

    Attributes:
        torn: a second signal interrupted a step, so the weights in memory are unusable.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self._seen = self.torn = self._at_once = False
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            heeded = [which for which in self._SIGNALS if signal.getsignal(which) != signal.SIG_IGN]
            self._before = {which: signal.signal(which, self._note) for which in heeded}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for which, handler in self._before.items():
            signal.signal(which, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._seen and not self._at_once:
            self.torn = True
        if self._seen or self._at_once:
            raise KeyboardInterrupt
        self._seen = True

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Context outside of steps, in which a signal is raised immediately."""
        self.check()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def check(self) -> None:
        """Raise the deferred signal, if any.

        Raises:
        """
        if self._seen:
            raise KeyboardInterrupt


@contextmanager
def terminable() -> Iterator[None]:
    """Context in which SIGTERM acts like Ctrl-C; an ignored one stays ignored."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) == signal.SIG_IGN:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        interrupt = signal.getsignal(signal.SIGINT)  # an event loop has its own
        if not callable(interrupt):
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
