"""Hostile cases: what every verb does with bad flags, files, runs and models, and with text and code of strangers.

    python benchmarks_perf/hostile.py             the fixed list: counts by group, then what is not as it should be
    python benchmarks_perf/hostile.py WORD ...    those cases alone whose name holds all words; each is printed
    python benchmarks_perf/hostile.py --random N --seed S    N drawn cases, as in tests/hostile/test_every_verb.py

Each case is a command in a process of its own, in a folder that is the same before each. Its outcome is one of

- clear error: exit code 2 or 1 with a message, nothing changed
- handled: exit code 0 where the input may be taken (text of strangers stays text, code of strangers is not run)
- traceback, hang (60 s)
- wrongly accepted: exit code 0 where the input must be refused
- harm: code ran, files changed or appeared elsewhere, control characters or live markup came out

Another tree is measured with its ``src`` first in PYTHONPATH; cases of verbs that it has not are left out.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
import hostile_inputs
from hostile_arena import Arena
from hostile_cases import OUTCOMES, PATIENCE, cases, drawn_case, judged, outcome
from hostile_world import BASES, make_world


def known(line: str) -> bool:
    from medunlearn.cli.verbs import verbs

    words = tuple(line.split())
    return any(words[:length] in verbs() for length in (1, 2, 3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    import medunlearn

    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        world = Path(top, "world")
        world.mkdir()
        os.chdir(world)
        make_world(world)
        hostile_inputs.know_world(world)
        os.chdir(top)
        gc.collect()
        gc.freeze()
        arena = Arena(world, Path(top, "box"))
        print(f"medunlearn of {Path(medunlearn.__file__).parents[2].name}", flush=True)
        if asked.random:
            drawn(arena, asked.random, asked.seed)
        else:
            fixed(arena, asked.words)
        os.chdir("/")


def fixed(arena: Arena, words: list[str]) -> None:
    chosen = [
        case for case in cases() if known(case.line) and all(word in f"{case.group}: {case.name}" for word in words)
    ]
    counts: dict[str, Counter[str]] = {}
    start, bad = time.monotonic(), []
    for case in chosen:
        kind, why = outcome(case, arena)
        counts.setdefault(case.group, Counter())[kind] += 1
        if words or kind not in ("clear error", "handled"):
            bad.append(f"{kind}: {case.group}: {case.name}: {why}")
            print(ascii(bad[-1])[1:-1] if words else f"  {kind}: {case.name!a}", file=sys.stderr, flush=True)
    print(f"{'group':<18}{'cases':>7}" + "".join(f"{name:>18}" for name in OUTCOMES))
    counts["all"] = sum(counts.values(), Counter())
    for group, found in counts.items():
        print(f"{group:<18}{found.total():>7}" + "".join(f"{found[name]:>18}" for name in OUTCOMES))
    print(f"\n{len(chosen)} cases in {time.monotonic() - start:.0f} s")
    for line in bad if not words else []:
        print(ascii(line)[1:-1])


def drawn(arena: Arena, number: int, seed: int) -> None:
    """The property test's cases: one of each verb in turn."""
    bases = [base for base in BASES if known(BASES[base])]
    counts: Counter[str] = Counter()
    for place in range(number):
        base = bases[place % len(bases)]
        case = drawn_case(base, seed, place // len(bases))
        kind, why = judged(arena.attempt(case.words, case.prepare, limit=PATIENCE), case.refused, [])
        counts[kind] += 1
        if kind not in ("clear error", "handled"):
            print(
                ascii(f"{kind}: {base}, seed {seed}, input {place // len(bases)}: {case}: {why}")[1:-1], flush=True
            )
    print(", ".join(f"{counts[name]} {name}" for name in OUTCOMES))


if __name__ == "__main__":
    main()
