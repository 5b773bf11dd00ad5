"""Launch of a call in its own processes: one, or several started by torchrun that share its work.

The call's output, or the reason of its failure, is returned in a file by rank 0. On a signal the processes finish
their step and write a checkpoint, from which the next launch of the call resumes.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import psutil

from medunlearn.data.storage import write_bytes
from medunlearn.errors import MedunlearnError, ProcessError
from medunlearn.study.slots.call import PATIENCE, Call, failure_reason, run_here
from medunlearn.study.slots.slot import Slot

MODULE = "medunlearn.study.slots.process_launch"
RESULT = "result.pkl"
"""File of rank 0 for the launcher: the pickled output, and the reason of a failure or an empty text."""
LAUNCHER = "MEDUNLEARN_LAUNCHER"
"""Environment variable with the number of the process that launched a call's processes."""
_BEAT = 0.2


class RankProcesses:
    """Running processes of a slot; torchrun is their parent if there are several."""

    def __init__(self, task: Path, slot: Slot, log: IO[str] | None) -> None:
        self._process = subprocess.Popen(
            command(task, slot),
            env=environment(slot),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            preexec_fn=_deaf,
        )

    def poll(self) -> int | None:
        """The exit code; None while a process runs."""
        return self._process.poll()

    def pids(self) -> list[int]:
        """Process ids of the ranks, which handle signals; without torchrun's."""
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child.pid for child in children if _is_rank(child)] or [self._process.pid]


class Launch:
    """A call in separate processes; the call is ``function(argument, slot)``.

    Args:
        log: file for their output, in append mode; None for this process's streams.
    """

    def __init__(
        self, function: Callable[[Any, Slot], Any], argument: Any, slot: Slot, log: IO[str] | None = None
    ) -> None:
        self._folder = TemporaryDirectory(prefix="medunlearn-call-")
        task = Path(self._folder.name) / "task.pkl"
        task.write_bytes(pickle.dumps((function, argument, slot)))
        self._result = task.with_name(RESULT)
        self._ranks = RankProcesses(task, slot, log)

    def wait(self) -> Any:
        """Wait for the call's value.

        Raises:
            KeyboardInterrupt: interrupted; the processes have written their checkpoint.
            ProcessError: the call failed, or the processes were killed; with the reason.
        """
        try:
            while (code := self._ranks.poll()) is None:
                time.sleep(_BEAT)
        except BaseException:
            self.interrupt()
            raise
        finally:
            result = pickle.loads(self._result.read_bytes()) if self._result.exists() else None
            self._folder.cleanup()
        if result is None:
            raise ProcessError(f"its processes ended (code {code}; out of memory? The log says more)")
        output, failure = result
        if failure:
            raise ProcessError(failure)
        return output

    def interrupt(self) -> None:
        """Let the processes finish their step and write a checkpoint; after a minute they are killed."""
        processes = []
        for pid in self._ranks.pids():
            with suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(pid))
                processes[-1].send_signal(signal.SIGINT)
        _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()


class ClusterCall:
    """A call on a cluster machine; its processes are children, so that they finish their step on a signal.

    Calling it returns its output and the reason of its failure, or "".
    """

    def __init__(self, call: Call, slot: Slot) -> None:
        self.call, self.slot = call, slot
        self._launch: Launch | None = None

    def __call__(self) -> tuple[Any, str]:
        self.call.log.touch(mode=0o600)
        with self.call.log.open("a", encoding="utf-8") as log:
            self._launch = Launch(self.call.function, self.call.argument, self.slot, log)
            try:
                return self._launch.wait(), ""
            except Exception as error:
                return None, failure_reason(error)

    def interrupt(self) -> None:
        """Let its processes write a checkpoint."""
        if self._launch is not None:
            self._launch.interrupt()


def command(task: Path, slot: Slot) -> Sequence[str]:
    """The command line of a slot's processes."""
    module = ["-m", MODULE, str(task)]
    if slot.processes == 1:
        return [sys.executable, *module]
    options = ["--standalone", "--nproc_per_node", str(slot.processes)]
    return [sys.executable, "-m", "torch.distributed.run", *options, *module]


def environment(slot: Slot) -> dict[str, str]:
    """Environment of a slot's processes; its GPUs are the ones that the launching process sees."""
    variables = {**os.environ, "OMP_NUM_THREADS": str(slot.threads), LAUNCHER: str(os.getpid())}
    path = [place for place in sys.path if place]
    return {**variables, "PYTHONPATH": os.pathsep.join(path)}


def _deaf() -> None:
    """Make the child process ignore Slurm's signals, which Slurm sends to every process of a job.

    The launcher receives them too, and has the processes write a checkpoint (:meth:`Launch.interrupt`).
    """
    os.setsid()
    for which in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.signal(which, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored in what a script starts in the background


def _is_rank(process: psutil.Process) -> bool:
    try:
        return MODULE in process.cmdline() and "torch.distributed.run" not in process.cmdline()
    except psutil.Error:
        return False


def work(task: Path) -> None:
    """Make the call in each of its processes; rank 0 writes the result. Processes exit with code 1 on failure."""
    from medunlearn.training.processes import join, leave

    threading.Thread(target=_end_with_launcher, daemon=True).start()
    function, argument, slot = pickle.loads(task.read_bytes())
    result, error = task.with_name(RESULT), None

    def report(failure: BaseException) -> None:
        if not isinstance(failure, KeyboardInterrupt):
            _write_result(result, None, failure_reason(failure))

    try:
        value = run_here(function, argument, slot)
        if join().main:
            _write_result(result, value, "")
    except BaseException as raised:
        error = raised
    leave(error, report)
    if error is not None:
        if not isinstance(error, MedunlearnError | KeyboardInterrupt):
            # The lines of code without the values in them, which may be a patient's.
            sys.stderr.writelines(traceback.format_tb(error.__traceback__))
        raise SystemExit(1)


def _write_result(file: Path, output: Any, failure: str) -> None:
    write_bytes(file, pickle.dumps((output, failure)))


def _end_with_launcher() -> None:
    """End this process with its launcher, which Ray kills when memory is short: a retry needs the folder."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(os.environ.get(LAUNCHER, os.getppid()))).wait()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    work(Path(sys.argv[1]))
