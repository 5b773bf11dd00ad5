"""Chat templates rendered in a process of their own, beside transformers in this process: time and CPU seconds.

    python benchmarks_perf/templates.py [--renderings 10000] [--passes 3]

Each rendering is of another question under a note of about 200 words, one by one, and together as the questions of
an evaluation are. CPU seconds are of both processes. The passes take turns; each number is the least of its passes,
each ratio is to transformers. The renderings are compared with each other.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from real_tokenizers import CLOCK, GEMMA, LLAMA2, QWEN3, byte_level

from medunlearn import template_process
from medunlearn.models.chat import fill_template, rendered_together
from medunlearn.models.sequences import TOGETHER

TEMPLATES = {"Gemma": GEMMA, "Llama 2": LLAMA2, "Qwen3": QWEN3, "with a clock": CLOCK}
NOTE = " ".join(f"On day {number} the patient reported pain of grade {number % 10}." for number in range(20))


def seconds_of(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds and CPU seconds of a call, those of the process that renders among them."""
    wall, cpu = time.perf_counter(), time.process_time() + apart_seconds()
    work()
    return time.perf_counter() - wall, time.process_time() + apart_seconds() - cpu


def apart_seconds() -> float:
    """CPU seconds of the process that renders; 0 before it runs."""
    process = template_process._worker._process
    if process is None:
        return 0.0
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def here(tokenizer: Any, contents: list[str]) -> list[str]:
    """Renderings of transformers."""
    messages = [[{"role": "user", "content": content}] for content in contents]
    return [tokenizer.apply_chat_template(one, tokenize=False, add_generation_prompt=True) for one in messages]


def apart(tokenizer: Any, contents: list[str]) -> list[str]:
    """Renderings apart, a request each."""
    return [fill_template(tokenizer, content) for content in contents]


def together(tokenizer: Any, contents: list[str]) -> list[str]:
    """Renderings apart, a request for many."""
    texts: list[str] = []
    for start in range(0, len(contents), TOGETHER):
        batch = contents[start : start + TOGETHER]
        with rendered_together(tokenizer, batch):
            texts += [fill_template(tokenizer, content) for content in batch]
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--renderings", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=3)
    chosen = parser.parse_args()
    contents = [f"{NOTE}\n\nWhat was said on day {number}?" for number in range(chosen.renderings)]
    print("| template | renderings | here: s, CPU s | apart: s, CPU s, ratios | together: s, CPU s, ratios |")
    print(f"|{'---|' * 5}")
    for name, template in TEMPLATES.items():
        tokenizer = byte_level(["What is it?"], chat=template)
        expected = apart(tokenizer, contents[: TOGETHER + 9])
        if together(tokenizer, contents[: TOGETHER + 9]) != expected:
            raise SystemExit(f"{name}: the renderings differ")
        if template != CLOCK and here(tokenizer, contents[: TOGETHER + 9]) != expected:
            raise SystemExit(f"{name}: the renderings are not those of transformers")
        passes = [
            [seconds_of(partial(way, tokenizer, contents)) for way in (here, apart, together)]
            for _ in range(chosen.passes)
        ]
        plain, *ours = [[min(one[way][unit] for one in passes) for unit in (0, 1)] for way in (0, 1, 2)]
        cells = [f"{seconds:.2f} {cpu:.2f}; {seconds / plain[0]:.2f} {cpu / plain[1]:.2f}" for seconds, cpu in ours]
        row = (name, f"{chosen.renderings:,}", f"{plain[0]:.2f} {plain[1]:.2f}", *cells)
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
