"""Numbers and seconds of `evaluate --backend vllm` beside our own engine's, on one run or several of one base.

It needs vLLM (``pip install 'medunlearn[vllm]'``; on a machine without a GPU, its build for CPUs). Greedy responses
are compared token by token, reference answers by their log-probabilities, and every measure by its scores. In fp32
the two are to agree but for ties; in bf16 they round in other places. Seconds include loading; the first run's also
vLLM's start, and the second of one base (a LoRA run's adapter) has none.

    python benchmarks_perf/vllm_check.py runs/target [runs/lora] --benchmark bench/ --split random_10 [--limit 20]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from medunlearn.config import EvaluateSettings, check
from medunlearn.data.benchmark import Benchmark
from medunlearn.probes.evaluate import evaluate_one
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--benchmark", type=Path, required=True)
    parser.add_argument("--split", required=True)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--weights", choices=("fp32", "bf16"), default="fp32")
    options = parser.parse_args()
    benchmark = Benchmark.load(options.benchmark)
    values = {"split": options.split, "limit": options.limit, "weights": options.weights, "replicates": 20}
    for run in options.runs:
        with (
            tempfile.TemporaryDirectory(dir=run.parent) as own,  # beside the run, where a delta finds its base
            tempfile.TemporaryDirectory(dir=run.parent) as vllm,
        ):
            results = [
                _timed(run, benchmark, {**values, "backend": backend}, Path(copy))
                for backend, copy in (("own", own), ("vllm", vllm))
            ]
            print(f"{run.name}", flush=True)
            _compare(*results[0], *results[1])


def _compare(ours: Evaluated, our_seconds: float, theirs: Evaluated, their_seconds: float) -> None:
    said = [(one, theirs.responses[name]) for name, one in ours.responses.items()]
    same = sum(one.response_tokens == other.response_tokens for one, other in said)
    print(f"  {len(said)} greedy responses, {same} the same in every token")
    apart = np.concatenate(
        [np.abs(np.array(one.answer_log_probs) - np.array(other.answer_log_probs)) for one, other in said]
    )
    print(
        f"  log-probability of a reference token: {apart.max():.2e} apart at most, {apart.mean():.2e} in the mean"
    )
    print(f"  {our_seconds:.1f} s and {their_seconds:.1f} s: {our_seconds / their_seconds:.1f}x")
    both = ours.scores.merge(theirs.scores, on=["question_id", "measure"], how="outer", suffixes=("", "_vllm"))
    for measure, rows in both.groupby("measure"):
        unlike = (rows["value"].isna() != rows["value_vllm"].isna()).sum()
        largest = (rows["value"] - rows["value_vllm"]).abs().max()
        print(f"  {measure:24} {len(rows):5} scores, {largest:.1e} apart at most, {unlike} scored by one alone")


def _timed(run: Path, benchmark: Benchmark, values: dict[str, object], copy: Path) -> tuple[Evaluated, float]:
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("evaluations", "responses"), dirs_exist_ok=True)
    started = time.perf_counter()
    result = evaluate_one(Run.open(copy), benchmark, check(EvaluateSettings, values), quiet=True)
    return result, time.perf_counter() - started


if __name__ == "__main__":
    main()
