"""Our commands as processes of their own that need not load torch again: they are forked from the tests' process.

What a process does between its start and the command itself is not tried this way; tests of that start Python.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import re
import selectors
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any
from unittest import mock

from medunlearn.papers import PAPERS

PATIENCE = 90.0
# Garbage collection in a forked process would copy every page that it visits.
os.register_at_fork(after_in_child=gc.freeze)


class Forked:
    """A call in a process of its own, with its own streams; of :class:`subprocess.Popen` what tests need.

    Attributes:
        returncode: as ``Popen``'s: negative for a signal, None while it runs.
    """

    def __init__(self, work: Callable[[], object], environment: Mapping[str, str] | None = None) -> None:
        """
        Args:
            work: called in the new process; a SystemExit in it is its exit code.
            environment: variables that it has besides those of this process.
        """
        _load()
        self.returncode: int | None = None
        pipes = os.pipe(), os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # From Python 3.12 on, for a process with several threads; the others are idle here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            _become(work, pipes[0][1], pipes[1][1], environment or {})
        for _, written in pipes:
            os.close(written)
        self._streams = [read for read, _ in pipes]

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, how: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, how)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = PATIENCE) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < until, "it did not end"
            time.sleep(0.005)
        return code

    def wait_until(self, there: Callable[[], bool], timeout: float = PATIENCE) -> None:
        """Wait until something is there while the process runs."""
        until = time.monotonic() + timeout
        while not there():
            assert self.poll() is None, f"it ended before: {self.communicate()}"
            assert time.monotonic() < until, "nothing came"
            time.sleep(0.005)

    def communicate(self, timeout: float = PATIENCE) -> tuple[str, str]:
        """Its two streams until it ended."""
        said: dict[int, list[bytes]] = {stream: [] for stream in self._streams}
        until = time.monotonic() + timeout
        with selectors.DefaultSelector() as ready:
            for stream in said:
                ready.register(stream, selectors.EVENT_READ)
            while ready.get_map():
                assert time.monotonic() < until, "it did not end"
                for key, _ in ready.select(0.1):
                    piece = os.read(key.fd, 1 << 16)
                    said[key.fd].append(piece)
                    if not piece:
                        ready.unregister(key.fd)
                        os.close(key.fd)
        self._streams = []
        self.wait(max(0.1, until - time.monotonic()))
        out, err = (b"".join(pieces).decode() for pieces in said.values())
        return out, err

    def __del__(self) -> None:
        for stream in self._streams:
            os.close(stream)


def killed_after(module: Any, name: str, calls: int, work: Callable[[], object]) -> int:
    """Exit code of a process in which the call number ``calls`` of a function is the last thing done."""
    real, count = getattr(module, name), 0

    def call(*given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        result = real(*given, **more)
        if count == calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    with mock.patch.object(module, name, call):
        return Forked(work).wait()


def command(*words: object) -> Callable[[], None]:
    """``medunlearn`` with these words, as the installed command runs it."""

    def work() -> None:
        from medunlearn.__main__ import main

        sys.argv = ["medunlearn", *(str(word) for word in words)]
        main()

    return work


def together(work: Callable[[], object], processes: int = 2) -> list[Forked]:
    """The same work in processes that know of each other, as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [Forked(work, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(processes)]


def torchrun(words: Sequence[str]) -> None:
    """``torchrun --nproc_per_node N -m medunlearn ...`` without the words ``torchrun`` and ours, to its end.

    Raises:
        AssertionError: with what was said, where a process failed.
    """
    place = words.index("-m")
    assert words[place + 1] == "medunlearn", words
    options = [option.replace("-", "_").lstrip("_") for option in words[:place]]
    assert set(options) - {"nproc_per_node", "standalone", "2"} == set(), options
    both = together(command(*words[place + 2 :]))
    try:
        ended = [process.communicate() for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()
    assert [process.returncode for process in both] == [0, 0], ended


def assert_light(imports: str) -> None:
    """What Python printed under ``-X importtime``: training loads no report, client, judge or attack.

    Of papers it reads the declarations, and nothing that they name.
    """
    packages = set(re.findall(r"\| +medunlearn\.(\w+)", imports))
    assert {"training", "models"} <= packages
    assert not packages & {"reports", "llm", "judging", "attacks", "audit"}
    declarations = {target.partition(":")[0] for target in PAPERS.values()}
    assert set(re.findall(r"\| +(medunlearn\.papers\.[\w.]+)", imports)) <= declarations


@contextmanager
def forked_workers() -> Iterator[None]:
    """Sweeps fork their workers, on one thread each, instead of starting Python."""
    _load()
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings(), mock.patch("medunlearn.study.slots.worker.CONTEXT", context):
        # From Python 3.12 on, for a process with several threads; the others are idle here.
        warnings.simplefilter("ignore", DeprecationWarning)
        with mock.patch.dict(os.environ, {"OMP_NUM_THREADS": "1"}):
            yield


def _load() -> None:
    """Prepare for forks: slow modules loaded, computation on one thread."""
    _load_slow_modules()
    import torch

    torch.set_num_threads(1)


@cache
def _load_slow_modules() -> None:
    """Import them, and exempt them from garbage collection."""
    for name in (
        "medunlearn.cli.main",
        "medunlearn.study.plans.run_forecast",
        "transformers.models.llama.modeling_llama",
        "nltk.stem.porter",
    ):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _become(work: Callable[[], object], out: int, err: int, environment: Mapping[str, str]) -> None:
    """The rest of the new process's life."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        # Not closed with the object: a process that this one forks makes objects of its own.
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, how, closefd=False) for n, how in enumerate("rww"))
        os.environ.update({"COLUMNS": "80", **environment})
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
