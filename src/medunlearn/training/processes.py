"""Several processes that train one model together, one device each, started by torchrun.

Only rank 0 writes files and prints. Errors and signals of one process are propagated to all at the next
:meth:`Processes.barrier`, so that none waits for a process that is gone. The processes share a file system.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from medunlearn.errors import InputError, MedunlearnError, ProcessError

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

BUCKET_BYTES = 64 << 20
# The others wait as long as the main process evaluates or saves. One that dies is noticed at once, by its closed
# connection or by torchrun; this is for a network that goes silent.
_PATIENCE = timedelta(days=1)
_MOMENT = 0.1


@dataclass(frozen=True)
class _Failure:
    """Failure of one process in shared work."""

    message: str
    exit_code: int
    interrupted: bool

    @staticmethod
    def of(error: BaseException) -> _Failure:
        if isinstance(error, MedunlearnError):
            return _Failure(str(error), error.exit_code, False)
        return _Failure(f"{type(error).__name__}: {error}", 1, isinstance(error, KeyboardInterrupt))


@dataclass(frozen=True)
class Processes:
    """The processes of a run, as seen from one of them. ``Processes()`` is a run in one process.

    ``local_rank`` is the index of this process on its machine.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def main(self) -> bool:
        return self.rank == 0

    @contextmanager
    def barrier(self) -> Iterator[None]:
        """Context of work in every process: they meet at its end. The work itself must not communicate.

        Raises:
            BaseException: raised by the work in this process.
            KeyboardInterrupt: another process was interrupted.
            ProcessError: the work failed in another process, or one was lost.
        """
        try:
            yield
        except BaseException as error:
            self._exchange(None, error)
            raise
        self._exchange(None)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Context of work in every process, rank 0 first, so that the others find its results on disk.

        Raises like :meth:`barrier`.
        """
        if not self.main:
            self._exchange(None)
        with self.barrier():
            yield
        if self.main:
            self._exchange(None)

    def gather(self, value: T) -> list[T]:
        """The value of each process, by rank. Raises like :meth:`barrier`."""
        return self._exchange(value)

    def broadcast(self, value: T | None) -> T:
        """The value of rank 0; those of other processes are ignored. Raises like :meth:`barrier`."""
        first: T = self._exchange(value if self.main else None)[0]
        return first

    def on_main(self, work: Callable[[], T]) -> T:
        """Run work on rank 0, and return its result in every process. Raises like :meth:`barrier`."""
        with self.barrier():
            value = work() if self.main else None
        return self.broadcast(value)

    def _exchange(self, value: Any, raised: BaseException | None = None) -> list[Any]:
        """Gather the values of all processes; raise a failure of another one, unless this one failed itself."""
        if self.world == 1:
            return [value]
        import torch.distributed as dist

        results: list[Any] = [None] * self.world
        try:
            dist.all_gather_object(results, (value, _Failure.of(raised) if raised else None))
        except RuntimeError as error:
            raise raised or _lost_process(error) from error
        for rank, (_, failure) in enumerate([] if raised else results):
            if failure and failure.interrupted:
                raise KeyboardInterrupt
            if failure:
                raise ProcessError(f"Process {rank}: {failure.message}", failure.exit_code)
        return [value for value, _ in results]

    def sum_(self, tensors: Iterable[Tensor], *, bucket_bytes: int = BUCKET_BYTES) -> None:
        """Replace each tensor by its sum over all processes, bit-equal in all, in buckets of several tensors.

        Args:
            tensors: of the same shapes and types, in the same order, in every process.

        Raises:
            ProcessError: a process was lost.
        """
        if self.world == 1:
            return
        import torch
        import torch.distributed as dist

        for bucket in _buckets(tensors, bucket_bytes):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            try:
                dist.all_reduce(flat)
            except RuntimeError as error:
                raise _lost_process(error) from error
            parts = torch.split(flat, [tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

    def device(self, name: str) -> str:
        """The device of this process: with GPUs, one per process.

        Args:
            name: ``auto``, ``cpu`` or ``cuda``; any device in a run of one process.

        Raises:
            InputError: a single GPU for several processes, or fewer GPUs than processes on this machine.
        """
        if self.world == 1 or name == "cpu":
            return name
        import torch

        if name == "auto" and not torch.cuda.is_available():
            return name
        if name not in ("auto", "cuda"):
            raise InputError(f"--device {name} is one device for {self.world} processes. Give auto, cuda or cpu.")
        if self.local_rank >= torch.cuda.device_count():
            raise InputError(
                f"Process {self.local_rank} of this machine finds {torch.cuda.device_count()} GPUs, and each "
                "process needs one. Start fewer with --nproc_per_node, or use --device cpu."
            )
        torch.cuda.set_device(self.local_rank)
        return f"cuda:{self.local_rank}"


def _buckets(tensors: Iterable[Tensor], most: int) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and (size + tensor.nbytes > most or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.nbytes
    if bucket:
        yield bucket


ALONE = Processes()
_JOINED = "medunlearn/joined"
_FAILED = "medunlearn/failed"
_ENDED = "medunlearn/ended"


def several() -> bool:
    """True if this process is one of several."""
    variables = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return all(name in os.environ for name in variables) and int(os.environ["WORLD_SIZE"]) > 1


def join() -> Processes:
    """The processes started with this one; only itself outside torchrun. Cached.

    Raises:
        ProcessError: the others were not found.
    """
    if not (_is_joined() or several()):
        return ALONE
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        return ALONE
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        try:
            dist.init_process_group(backend, timeout=_PATIENCE)
            _wait_for_all(dist.get_rank(), dist.get_world_size())
        except (RuntimeError, ValueError) as error:
            raise _lost_process(error) from error
        atexit.register(_close)
    return Processes(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", dist.get_rank())))


def _wait_for_all(rank: int, processes: int) -> None:
    """Wait until every process is connected: one that ends before that would look lost to the others."""
    import torch.distributed as dist

    store, joined = dist.distributed_c10d._get_default_store(), [f"{_JOINED}/{n}" for n in range(processes)]
    with suppress(RuntimeError):  # The main process, which holds the store, has ended: the next collective tells.
        store.set(joined[rank], "1")
        store.wait(joined, _PATIENCE)


def leave(error: BaseException | None, speak: Callable[[BaseException], None]) -> None:
    """Leave a command after an error: rank 0 prints it, the other processes wait for that and exit.

    torchrun stops all processes once one has failed, so none may exit before rank 0 has printed the error.
    """
    if not _is_joined():
        if error is not None:
            speak(error)
        return
    import torch.distributed as dist

    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    if rank == 0:
        if error is not None:
            speak(_stored_error(error, store))
        store.set(_ENDED, "1")
    elif error is not None:
        store.set(_FAILED, f"Process {rank}: {_Failure.of(error).message}")
    _close()
    if rank != 0:
        try:
            store.wait([_ENDED], timedelta(seconds=60))
        except RuntimeError:  # DistStoreError: the main process is gone too
            return


def _stored_error(error: BaseException, store: Any) -> BaseException:
    """An error stored for rank 0 by a process that failed on its own."""
    is_lost = isinstance(error, ProcessError) and error.lost
    if is_lost and store.check([_FAILED]):
        return ProcessError(store.get(_FAILED).decode())
    return error


def _lost_process(error: BaseException) -> ProcessError:
    return ProcessError(
        f"Another process of this run was lost (killed, or out of memory?): {str(error).strip().splitlines()[0]} "
        "Give the same command again: it goes on from the last checkpoint.",
        lost=True,
    )


def _is_joined() -> bool:
    """True if this process is in a group; a command of one process does not load torch to learn it."""
    dist: Any = sys.modules.get("torch.distributed")
    return dist is not None and dist.is_available() and bool(dist.is_initialized())


def _close() -> None:
    if _is_joined():
        import torch.distributed as dist

        # The group's threads must have let go of the last message's tensors before Python ends, or the process ends
        # with an abort. Without sharding they end with the group. PyTorch's own caches hold the group of a sharded
        # model, so that its threads stay: they are given a moment.
        gc.collect()
        dist.destroy_process_group()
        time.sleep(_MOMENT)
