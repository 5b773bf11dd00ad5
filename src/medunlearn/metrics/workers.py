"""One function on several parts at the same time, each part but the first in a Python process of its own.

Plain child processes and pipes: unlike those of ``multiprocessing`` they neither run the caller's main module again
nor copy a process that has torch's threads in it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from medunlearn.errors import MedunlearnError

Part = TypeVar("Part")
Result = TypeVar("Result")

_CHILD = (
    "import pickle, sys\n"
    "sys.path[:] = pickle.load(sys.stdin.buffer)\n"
    "from medunlearn.metrics.workers import answer\n"
    "answer()"
)


def usable_cores() -> int:
    """Processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


def in_processes(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """``[function(part) for part in parts]``, the first part in this process and each other one in a child.

    No child outlives the call, whether it ends well, by an error, or by Ctrl-C.

    Args:
        function: can be pickled, as its results can: it stands in a module that can be imported, not in the script
            that was started.

    Raises:
        MedunlearnError: a child ended without an answer.
        Exception: what the function raised; the first by order of parts.
    """
    requests = [pickle.dumps(sys.path) + pickle.dumps((function, part)) for part in parts[1:]]
    with _children(len(requests)) as children, ThreadPoolExecutor(max(1, len(children))) as threads:
        try:
            asked = [
                threads.submit(child.communicate, request)
                for child, request in zip(children, requests, strict=True)
            ]
            results = [function(part) for part in parts[:1]]
            for child, answered in zip(children, asked, strict=True):
                results.append(_result(child, answered.result()[0]))
        except BaseException:
            # Before the threads are waited for: they end when their children do.
            _kill(children)
            raise
    return results


def answer() -> None:
    """What a child does: read a function and a part, write the result or the error."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What the function prints must not get between the bytes of the answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        function, part = pickle.load(sys.stdin.buffer)
        written = pickle.dumps((function(part), None))
    except Exception as error:
        written = pickle.dumps((None, error))
    with out:
        out.write(written)


@contextmanager
def _children(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            # A session of its own keeps Ctrl-C from it: this process ends it, without a second traceback.
            children.append(
                subprocess.Popen(
                    [sys.executable, "-c", _CHILD],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            )
        yield children
    finally:
        _kill(children)
        for child in children:
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()


def _kill(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.kill()


def _result(child: subprocess.Popen[bytes], said: bytes) -> Any:
    if child.returncode != 0 or not said:
        raise MedunlearnError(
            f"A scoring process ended with code {child.returncode} and no answer. Was it killed for memory? "
            "processes=1 scores in this process alone."
        )
    result, error = pickle.loads(said)
    if error is not None:
        raise error
    return result
