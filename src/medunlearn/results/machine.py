"""Hardware, versions and cost of a run."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

PACKAGES = (
    "medunlearn",
    "torch",
    "transformers",
    "tokenizers",
    "peft",
    "safetensors",
    "numpy",
    "pandas",
    "pyarrow",
)


def hardware() -> dict[str, Any]:
    """Processor, cores, memory in GiB, and the GPUs if torch is loaded and sees any."""
    facts: dict[str, Any] = {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        facts["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@cache
def packages() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on; cached per process."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@cache
def code() -> dict[str, Any]:
    """Commit of this code and whether it was changed since, cached per process; None outside a git checkout."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        if Path(__file__).resolve().is_relative_to(git("rev-parse", "--show-toplevel")) and git(
            "ls-files", __file__
        ):
            return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        pass
    return {"commit": None, "dirty": None}


class PeakMemory:
    """Peak resident memory since the object's creation, in bytes.

    Linux can reset the peak; elsewhere it is the peak of the whole process, an upper bound.
    """

    def __init__(self) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._reset = True
        except OSError:
            self._reset = False

    def bytes(self) -> int:
        if self._reset:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) * 1024
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
