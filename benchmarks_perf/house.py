"""The house in numbers: lines, folders, modules that a command loads and runs, seconds to `--help`, page sizes.

    python benchmarks_perf/house.py measure OUT > benchmarks_perf/golden/before.md

OUT is what `golden.py run` left: models to unlearn, evaluate and audit, and reports. It measures the tree that it
stands in, or the one that the variable HOUSE names: on a busy machine seconds are to be compared only where both
trees are measured one right after the other. A module is *loaded* if it is in `sys.modules` at the end, and *run*
if a function of it was called outside of an import.
"""

from __future__ import annotations

import inspect
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(os.environ.get("HOUSE", Path(__file__).parents[1])).resolve()
# A user's: this tree, one thread, and compiled modules that are kept.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT |= {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
STARTED = (
    "--help",
    "train x --model tiny --out y --no-such-flag",
    "train x --model tiny --out y no_such_setting=1",
)
TRACED = {
    "unlearn": "unlearn hospital/target hospital/bench --split random_25 --method npo --out {new}/npo --epochs 1",
    "evaluate": "evaluate {new}/npo hospital/bench --split random_25 --limit 2 --replicates 20",
    "audit": "audit hospital/target hospital/bench --out {new}/audit --limit 4 --prefixes 10 --max-new-tokens 30",
}


def source_files(folder: Path) -> list[tuple[Path, int]]:
    """Python files below a folder with their lines."""
    return [(path, len(path.read_text(encoding="utf-8").splitlines())) for path in sorted(folder.rglob("*.py"))]


def sizes() -> list[str]:
    lines = ["## Lines and files", "", "| | files | lines | files over 300 lines |", "|---|---|---|---|"]
    for name in ("src", "tests"):
        counts = [count for _, count in source_files(ROOT / name)]
        lines.append(f"| `{name}/` | {len(counts)} | {sum(counts)} | {sum(count > 300 for count in counts)} |")
    package = ROOT / "src" / "medunlearn"
    found = source_files(package)
    total = sum(count for _, count in found)
    by_folder: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path, count in found:
        parts = path.relative_to(package).parts
        by_folder[parts[0] if len(parts) > 1 else "(files)"] += count
        files[parts[0] if len(parts) > 1 else "(files)"] += 1
    lines += ["", "| folder of `src/medunlearn/` | files | lines | share |", "|---|---|---|---|"]
    lines += [f"| {name} | {files[name]} | {n} | {n / total:.1%} |" for name, n in by_folder.most_common()]
    return lines


def trace(words: list[str]) -> None:
    """In a process of its own: run a command, then print the modules that it loaded, and those that ran."""
    package = str(ROOT / "src" / "medunlearn")
    ran: set[str] = set()
    importing = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>":
            importing += (event == "call") - (event == "return")
        elif event == "call" and not importing and code.co_flags & inspect.CO_OPTIMIZED:
            ran.add(code.co_filename)

    threading.setprofile(profile)
    sys.setprofile(profile)
    from medunlearn.cli.main import app

    try:
        app(words)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    loaded = [name for name in sys.modules if name.partition(".")[0] == "medunlearn"]
    folder = str(Path(sys.modules["medunlearn"].__file__ or "").parent)
    assert folder == package, f"this measures {package}, and medunlearn is loaded from {folder}"
    print(f"\ntraced {len(loaded)} {sum(name.startswith(package) for name in ran)}")


def modules(out: Path) -> list[str]:
    lines = ["## Modules of medunlearn", "", "| command | loaded | run |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as new:
        for name, command in TRACED.items():
            words = shlex.split(command.format(new=new))
            whole = [sys.executable, str(Path(__file__).resolve()), "trace", *words, "--quiet"]
            done = subprocess.run(whole, cwd=out, capture_output=True, text=True, env=ENVIRONMENT)
            if done.returncode:
                sys.exit(f"{command}\n{done.stderr}")
            _, loaded, ran = done.stdout.strip().splitlines()[-1].split()
            lines.append(f"| `{name}` | {loaded} | {ran} |")
    return lines


def least_cpu(command: str, times: int = 5) -> float:
    """The least processor time of a few runs, in seconds."""
    seconds = []
    for _ in range(times):
        process = subprocess.Popen(
            [sys.executable, "-m", "medunlearn", *shlex.split(command)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        _, _, used = os.wait4(process.pid, 0)
        seconds.append(used.ru_utime + used.ru_stime)
    return min(seconds)


def starts() -> list[str]:
    lines = ["## Seconds of processor time, the least of five", "", "| command | seconds |", "|---|---|"]
    return lines + [f"| `medunlearn {command}` | {least_cpu(command):.2f} |" for command in STARTED]


def repeated() -> list[str]:
    if shutil.which("duplicates") is None:
        return []
    lines = ["## Passages of six or more lines that stand twice", ""]
    for name in ("src", "tests"):
        said = subprocess.run(
            ["duplicates", "--repo", str(ROOT / name), "--most", "1", "--seconds", "300"],
            capture_output=True,
            text=True,
        ).stdout
        lines.append(f"- `{name}/`: {said.splitlines()[0]}")
    return lines


def pages(out: Path) -> list[str]:
    lines = ["## Pages", "", "| report.html of | KiB |", "|---|---|"]
    found = sorted(out.rglob("report.html"))
    return lines + [f"| {page.relative_to(out).parts[0]} | {page.stat().st_size / 1024:.0f} |" for page in found]


def main() -> None:
    verb, *words = sys.argv[1:] or ["--help"]
    if verb == "trace":
        trace(words)
    elif verb == "measure" and len(words) == 1:
        out = Path(words[0]).resolve()
        print("# The house in numbers\n\nBy `benchmarks_perf/house.py measure`, with one thread.\n")
        for part in (sizes(), modules(out), starts(), repeated(), pages(out)):
            print("\n".join(part), end="\n\n")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
