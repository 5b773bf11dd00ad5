"""The demo from a path with spaces and accents, by a user who is not root, with each Python, twice: then offline.

    python benchmarks_perf/demo_elsewhere.py [--what amnesia] [--synthetic 12] [--epochs 1] [--python PATH ...]

The source is copied into a folder whose name has spaces and accents, which is the user's home as well. As root the
demo runs as the user ``nobody``, if that user may read the interpreter. A Python without the packages is listed as
such. The second call has no network: every address is a proxy that refuses, and hubs are told to be offline. Also
prints the time of the demo, in seconds and CPU seconds, beside the machine's load.
"""

from __future__ import annotations

import argparse
import os
import pwd
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "Hôpital d’été n° 2"
NOBODY = "nobody"
DEAD = "http://127.0.0.1:9"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="amnesia")
    parser.add_argument("--synthetic", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--python", nargs="*", default=None)
    chosen = parser.parse_args()
    named = [found for version in VERSIONS if (found := shutil.which(f"python{version}"))]
    pythons = chosen.python or list(dict.fromkeys([sys.executable, *named]))
    print("| Python | user | call | exit code | traceback | seconds | CPU seconds | load |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    failed = False
    for python in pythons:
        words = [
            "demo",
            chosen.what,
            "--synthetic",
            str(chosen.synthetic),
            "--epochs",
            str(chosen.epochs),
            "--quiet",
        ]
        failed |= not tried(python, words)
    raise SystemExit(failed)


def tried(python: str, words: list[str]) -> bool:
    """Run the demo twice with one interpreter; False if a call failed."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        home = Path(top, NAME)
        home.mkdir()
        shutil.copytree(ROOT / "src", home / "ma copie" / "src", ignore=shutil.ignore_patterns("__pycache__"))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"HOME": str(home), "PYTHONPATH": str(home / "ma copie" / "src"), "TMPDIR": str(home)}
        user = NOBODY if os.getuid() == 0 and may_run(python, NOBODY) else None
        if user is not None:
            own(home, user)
        label = f"| {version_of(python)} | {user or pwd.getpwuid(os.getuid()).pw_name} |"
        code = "import medunlearn, torch, transformers, pandas, pydantic"
        if run(python, ["-c", code], environment, home, user).returncode:
            print(f"{label} the packages are not installed | | | | | |", flush=True)
            return True
        offline = {"HF_HUB_OFFLINE": "1", "http_proxy": DEAD, "https_proxy": DEAD, "all_proxy": DEAD}
        codes = []
        for call, more in (("first", {}), ("second, offline", offline)):
            start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            out = f"démo {call}"
            done = run(python, ["-m", "medunlearn", *words, "--out", out], environment | more, home, user)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            broken = "Traceback" in done.stderr + done.stdout
            seconds = time.monotonic() - start
            load = os.getloadavg()[0]
            print(
                f"{label} {call} | {done.returncode} | {broken} | {seconds:.0f} | {cpu:.0f} | {load:.0f} |",
                flush=True,
            )
            if done.returncode:
                print(done.stderr[-2000:], file=sys.stderr)
            codes.append(done.returncode or broken)
        return not any(codes)


def own(folder: Path, user: str) -> None:
    """Give a folder and all below it to a user."""
    entry = pwd.getpwnam(user)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, entry.pw_uid, entry.pw_gid)


def may_run(python: str, user: str) -> bool:
    try:
        done = subprocess.run([python, "-c", ""], user=user, group=pwd.getpwnam(user).pw_gid, extra_groups=[])
    except (PermissionError, OSError):
        return False
    return done.returncode == 0


def version_of(python: str) -> str:
    done = subprocess.run([python, "--version"], capture_output=True, text=True)
    return done.stdout.strip().removeprefix("Python ") or python


def run(
    python: str, words: list[str], environment: dict[str, str], folder: Path, user: str | None
) -> subprocess.CompletedProcess[str]:
    how = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    return subprocess.run([python, *words], env=environment, cwd=folder, capture_output=True, text=True, **how)


if __name__ == "__main__":
    main()
