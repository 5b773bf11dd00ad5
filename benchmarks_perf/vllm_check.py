"""Numbers and seconds of `evaluate --backend vllm` beside our own engine's, on one run. We have not run it.

It needs vLLM (``pip install 'medunlearn[vllm]'``) and what vLLM needs, a GPU as a rule. Greedy responses are
compared token by token, reference answers by their log-probabilities. In fp32 the two are to agree but for ties; in
bf16 they round in other places.

    python benchmarks_perf/vllm_check.py runs/target bench/ --split random_10 [--limit 20] [--weights bf16]
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
from medunlearn.pipeline.evaluate import evaluate_one
from medunlearn.results.evaluated import Evaluated
from medunlearn.results.runs import Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--split", required=True)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--weights", choices=("fp32", "bf16"), default="fp32")
    options = parser.parse_args()
    benchmark = Benchmark.load(options.benchmark)
    values = {"split": options.split, "limit": options.limit, "weights": options.weights, "replicates": 20}
    with tempfile.TemporaryDirectory() as folder:
        results = {
            backend: _timed(options.run, benchmark, {**values, "backend": backend}, Path(folder) / backend)
            for backend in ("own", "vllm")
        }
    (ours, our_seconds), (theirs, their_seconds) = results["own"], results["vllm"]
    same = [one.response_tokens == theirs.responses[name].response_tokens for name, one in ours.responses.items()]
    pairs = [
        (np.array(one.answer_log_probs), np.array(theirs.responses[name].answer_log_probs))
        for name, one in ours.responses.items()
    ]
    apart = np.concatenate([np.abs(one - other) for one, other in pairs])
    print(f"{len(same)} greedy responses, {sum(same)} the same in every token")
    print(f"log-probability of a reference token: {apart.max():.2e} apart at most, {apart.mean():.2e} in the mean")
    print(f"{our_seconds:.1f} s and {their_seconds:.1f} s, loading included: {our_seconds / their_seconds:.1f}x")


def _timed(run: Path, benchmark: Benchmark, values: dict[str, object], copy: Path) -> tuple[Evaluated, float]:
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("evaluations", "responses"))
    started = time.perf_counter()
    result = evaluate_one(Run.open(copy), benchmark, check(EvaluateSettings, values), quiet=True)
    return result, time.perf_counter() - started


if __name__ == "__main__":
    main()
