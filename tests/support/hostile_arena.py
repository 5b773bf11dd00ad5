"""Hostile inputs are given to commands in forked processes; what they did is compared with what they may do."""

from __future__ import annotations

import codecs
import os
import re
import resource
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forking import Forked, command

LIMIT = 60.0
"""Seconds after which a command hangs: many times the slowest (looking through all tasks of the harness, 7 s)."""
MEMORY = 3 << 30
"""Bytes that a command may take besides what it starts with."""
NOBODY = 65534
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_KEPT = re.compile(r"(out|runs)(/|$)|\w+/(responses|evaluations|attacks|utility)(/|$)")
"""Where a command that fails may leave what it did until then: it is taken up from there."""
_OUTSIDE = "WROTE OUTSIDE: "
_WRITES = {
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "shutil.rmtree",
}
_RENDERS = "template_worker.py"
"""The process that renders templates of strangers, which a command may start."""
_SYSTEM = {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"}


@dataclass(frozen=True)
class Outcome:
    """What a command did.

    Attributes:
        code: exit code; None: it hung; negative: a signal ended it.
        changed: files of the world that are other than before, or gone.
        created: files and folders that are new.
        outside: what it wrote outside the working folder, or started.
    """

    code: int | None
    out: str
    err: str
    changed: tuple[str, ...]
    created: tuple[str, ...]
    outside: tuple[str, ...]
    seconds: float

    @property
    def traceback(self) -> bool:
        return "Traceback" in self.out + self.err

    def problems(self, *, refused: bool = False) -> list[str]:
        """What should not have been: hang, traceback, control characters, changed files, files elsewhere."""
        problems = []
        if self.code is None:
            problems.append("hang")
        elif self.code not in (0, 1, 2):
            problems.append(f"ended with {self.code}")
        if self.traceback:
            problems.append(f"traceback: {self.err.strip().splitlines()[-1][:200]}")
        elif self.code in (1, 2) and "error:" not in self.err and not self.out:
            problems.append("failed without a message")
        if unsafe := _UNSAFE.findall(self.out + self.err):
            problems.append(f"control characters {sorted(set(map(repr, unsafe)))}")
        if refused and self.code == 0:
            problems.append("wrongly accepted")
        if self.code and self.changed:
            problems.append(f"changed {self.changed}")
        if self.code and (elsewhere := [path for path in self.created if not _KEPT.match(path)]):
            problems.append(f"left {elsewhere}")
        return problems + [f"outside: {path}" for path in self.outside]


class Arena:
    """A working folder that is the same before each command.

    Args:
        world: the folder's content.
        box: where it is to stand.
    """

    def __init__(self, world: Path, box: Path) -> None:
        self.world, self.box = world, box
        self._fresh()

    def _fresh(self) -> None:
        shutil.rmtree(self.box, ignore_errors=True)
        shutil.copytree(self.world, self.box, symlinks=True)
        self._clean = snapshot(self.box)

    def _restore(self, now: Mapping[str, tuple[int, ...]]) -> None:
        """Put back what is other than it was: to copy all of the world takes as long as most commands."""
        clean = self._clean
        other = sorted(path for path in {*now, *clean} if now.get(path) != clean.get(path))
        if not other:
            return
        for path in reversed(other):  # what is in a folder before the folder
            is_folder, was_folder = (path in state and stat.S_ISDIR(state[path][0]) for state in (now, clean))
            if is_folder and not was_folder:
                (self.box / path).rmdir()
            elif path in now and not is_folder:
                (self.box / path).unlink()
        for path in other:
            if path not in clean:
                continue
            if stat.S_ISDIR(clean[path][0]):
                (self.box / path).mkdir(exist_ok=True)
                shutil.copystat(self.world / path, self.box / path)
            else:
                shutil.copy2(self.world / path, self.box / path, follow_symlinks=False)
        self._clean = snapshot(self.box)
        assert {path: state[:2] for path, state in self._clean.items()} == {
            path: state[:2] for path, state in clean.items()
        }

    def attempt(
        self,
        words: Sequence[str],
        prepare: Iterable[Callable[[], object]] = (),
        limit: float = LIMIT,
        *,
        look: Callable[[], object] = int,
        nobody: bool = False,
    ) -> Outcome:
        """Prepare the working folder, give the command, look at the folder, and put it back as it was.

        Args:
            nobody: the command runs as a user without root's rights, who owns the folder.
        """
        if nobody and not os.getuid():
            for path in (self.box, *self.box.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        here = Path.cwd()
        os.chdir(self.box)
        try:
            for step in prepare:
                step()
            before = snapshot(self.box)
            start = time.monotonic()
            process = Forked(lambda: self._work(words, nobody))
            code, out, err = _ended(process, limit)
            seconds = time.monotonic() - start
            look()
            after = snapshot(self.box)
        finally:
            os.chdir(here)
        changed = tuple(sorted(path for path in before if before[path] != after.get(path)))
        created = tuple(sorted(path for path in after if path not in before))
        kept, outside = [], []
        for line in err.splitlines(keepends=True):
            if line.startswith(_OUTSIDE):
                outside.append(line.removeprefix(_OUTSIDE).strip())
            else:
                kept.append(line)
        if nobody:  # whose files are all another user's
            self._fresh()
        else:
            self._restore(after)
        return Outcome(code, out, "".join(kept), changed, created, tuple(outside), seconds)

    def _work(self, words: Sequence[str], nobody: bool) -> None:
        """The command in its own process, watched."""
        os.setsid()
        sys.dont_write_bytecode = True  # of a user's own module, beside which Python would leave it
        sys.stderr.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
        sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        written: set[str] = set()
        inside = (f"{self.box}/", "/dev/null", "/proc/", "/dev/shm/", str(Path.home() / ".cache"))

        def watch(event: str, args: tuple[Any, ...]) -> None:
            if event == "open":
                path, _, flags = args
                if not (flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) or not isinstance(path, str | bytes):
                    return
                paths = [path]
            elif event in _WRITES:
                paths = [path for path in args[:2] if isinstance(path, str | bytes)]
            elif event in _SYSTEM:
                if event == "subprocess.Popen" and any(str(word).endswith(_RENDERS) for word in args[1]):
                    return
                written.add(f"started {args[0]!r}")
                return
            else:
                return
            for path in map(os.fsdecode, paths):
                if event == "os.mkdir" and os.path.lexists(path):
                    continue  # it will fail
                if not os.path.realpath(os.path.dirname(os.path.abspath(path)) + "/x").startswith(inside):
                    written.add(f"{event} {path!r}")

        def resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
            if host in ("127.0.0.1", "localhost", "::1", None, ""):
                return real(host, *args, **kwargs)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        real = socket.getaddrinfo
        socket.getaddrinfo = resolve  # type: ignore[assignment]
        sys.addaudithook(watch)
        if nobody and not os.getuid():
            codecs.lookup("unicode-escape")  # Python itself may lie where nobody may read
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        try:
            command(*words)()
        finally:
            for line in sorted(written):
                sys.stderr.write(f"\n{_OUTSIDE}{line}\n")


def _ended(process: Forked, limit: float) -> tuple[int | None, str, str]:
    try:
        out, err = process.communicate(limit)
    except AssertionError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.kill()
        process.wait()
        return None, "", ""
    except UnicodeDecodeError:
        return process.wait(), "", "Traceback: output that is no UTF-8"
    return process.returncode, out, err


def snapshot(folder: Path) -> Mapping[str, tuple[int, ...]]:
    """Size, time and type of everything in a folder."""
    found: dict[str, tuple[int, ...]] = {}
    stack = [str(folder)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                seen = entry.stat(follow_symlinks=False)
                directory = stat.S_ISDIR(seen.st_mode)
                state = (
                    (seen.st_mode,) if directory else (seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ino)
                )
                found[os.path.relpath(entry.path, folder)] = state
                if directory:
                    stack.append(entry.path)
    return found
