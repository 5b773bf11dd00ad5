"""Mutation spot check: faults put into a copy of the source, one at a time; the tests named beside must catch them.

    python benchmarks_perf/mutations.py [WORD ...]      those alone whose file or fault contains a word

Prints one line a mutation: caught, or survived. Exit code 1 if any survived.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutation:
    """A text in a file of ``src/medunlearn``, its faulty replacement, and the tests that must fail."""

    file: str
    old: str
    new: str
    tests: str


METRICS, TRAINING = "tests/metrics/test_", "tests/training/test_"
ROUGE, PLAIN, NGRAMS = f"{METRICS}rouge.py", f"{METRICS}text.py", f"{METRICS}ngrams.py"
TOFU, OPTIONS, JUDGED = f"{METRICS}likelihood.py", f"{METRICS}likelihood.py", f"{METRICS}gen_score.py"
MODEL = f"{METRICS}model_metrics.py"
LOSSES, NGDIFF = "tests/methods/test_losses.py", "tests/methods/test_ngdiff.py"
HEAD, PACKING = "tests/models/test_head.py", "tests/models/test_packing.py"
HEALTH, VERIFY = "tests/models/test_health.py", "tests/study/test_verify.py"
STATISTICS, RESULTS = "tests/statistics/test_", "tests/results/test_"
CONTROLS = "tests/reports/test_headline.py"
MUTATIONS = [
    Mutation(
        "statistics/intervals.py", "alpha / 2)) if hits > 0", "alpha)) if hits > 0", f"{STATISTICS}intervals.py"
    ),
    Mutation("statistics/intervals.py", "second**2 - 2.0 *", "second**2 + 2.0 *", f"{STATISTICS}intervals.py"),
    Mutation(
        "statistics/intervals.py", "total**2 * subjects / (subjects - 1)", "total**2", f"{STATISTICS}intervals.py"
    ),
    Mutation("statistics/intervals.py", "(len(p_values) - rank)", "len(p_values)", f"{STATISTICS}intervals.py"),
    Mutation("statistics/intervals.py", "self.subjects < MIN_SUBJECTS or", "", f"{STATISTICS}intervals.py"),
    Mutation("reports/claims.py", "if p >= ALPHA", "if p > 1", "tests/reports/test_findings.py"),
    Mutation(
        "reports/claims.py", "self.n_seeds < LEAST_SEEDS", "self.n_seeds < 1", "tests/reports/test_findings.py"
    ),
    Mutation("models/health.py", "return all(edge.isfinite()", "return any(edge.isfinite()", HEALTH),
    Mutation("models/health.py", "< LEAST_ANSWERS", "< 1", HEALTH),
    Mutation("models/health.py", "reference[:early]", "reference", HEALTH),
    Mutation("models/health.py", "if largest >= rows", "if largest > rows", HEALTH),
    Mutation("models/health.py", "or bad_logits(model, tokenizer)", "", HEALTH),
    Mutation("models/folders.py", "if not _is_untouched(path, facts) and", "if", VERIFY),
    Mutation("models/folders.py", "if facts and _is_untouched(path, facts)", "if facts", VERIFY),
    Mutation("results/verify.py", "if now != identity", "if now == 1", VERIFY),
    Mutation("results/verify.py", '"ok" if now == digest', '"ok" if now', VERIFY),
    Mutation("reports/claims.py", "if finding.of_collapse", "if True", "tests/reports/test_findings.py"),
    Mutation(
        "reports/headline.py",
        "is not None and not standing.model.problems\n    ]",
        "is not None\n    ]",
        "tests/reports/test_headline.py",
    ),
    Mutation("results/forgetting_check.py", "if not control.excludes_damage", "if False", CONTROLS),
    Mutation("results/forgetting_check.py", "value > high or is_above(self.gap)", "False", CONTROLS),
    Mutation("results/remembered.py", "if p <= alpha and nearer", "if False", CONTROLS),
    Mutation("statistics/bootstrap.py", "int(self.n_clusters[places].min())", "n", f"{STATISTICS}bootstrap.py"),
    Mutation("statistics/paired.py", "np.where(lonely, np.nan, first)", "first", f"{STATISTICS}paired.py"),
    Mutation("statistics/roc.py", "below + theirs / 2", "below + theirs", f"{STATISTICS}roc.py"),
    Mutation("statistics/trend.py", "places - places.mean()", "places", f"{STATISTICS}trend.py"),
    Mutation("statistics/agreement.py", "(means[..., 1:] ** 2)", "means[..., 1:]", f"{STATISTICS}agreement.py"),
    Mutation(
        "statistics/bootstrap.py",
        "complete = np.take_along_axis",
        "np.take_along_axis",
        f"{STATISTICS}bootstrap.py",
    ),
    Mutation(
        "results/composites.py", "1.0 - means if self.inverted", "means if self.inverted", f"{RESULTS}composites.py"
    ),
    Mutation("results/contrasts.py", "term.weight * replicates", "replicates", f"{RESULTS}contrasts.py"),
    Mutation("metrics/text.py", "length / len(tokens) if tokens", "length / (len(tokens) + 1) if tokens", ROUGE),
    Mutation("metrics/text.py", "return 2 * shared / (", "return shared / (", JUDGED),
    Mutation("metrics/text.py", "2.0 * shared / (", "1.0 * shared / (", PLAIN),
    Mutation("metrics/text.py", "min(times, counts[word])", "max(times, counts[word])", PLAIN),
    Mutation("metrics/ngrams.py", "times = np.minimum(", "times = np.maximum(", NGRAMS),
    Mutation("metrics/ngrams.py", "1.0 - repeated", "repeated", NGRAMS),
    Mutation("metrics/likelihood.py", "answer_hits[:-1]", "answer_hits", TOFU),
    Mutation("metrics/likelihood.py", "return 1.0 - ratio if", "return ratio if", TOFU),
    Mutation("metrics/likelihood.py", "numerator - mean_log_prob", "numerator + mean_log_prob", TOFU),
    Mutation("metrics/likelihood.py", "weights[right] / fsum", "weights[0] / fsum", TOFU),
    Mutation("metrics/likelihood.py", "means[right] > mean", "means[right] >= mean", OPTIONS),
    Mutation("metrics/judged.py", "rating / HIGHEST", "rating / (HIGHEST - 1)", JUDGED),
    Mutation("metrics/text_similarity.py", "recall >= LEAST_OVERLAP", "recall < LEAST_OVERLAP", MODEL),
    Mutation("methods/npo.py", "/ self.beta", "* self.beta", LOSSES),
    Mutation("methods/simnpo.py", "reward - margin", "reward + margin", LOSSES),
    Mutation("methods/simnpo.py", "else self.beta * self.delta", "else self.delta", LOSSES),
    Mutation("methods/kl_min.py", '"predicting" if self.variant', '"all" if self.variant', LOSSES),
    Mutation(
        "methods/rmu.py", 'mean(dim=1)),\n            "retain"', 'mean(dim=0)),\n            "retain"', LOSSES
    ),
    Mutation("methods/rmu.py", '"answer" if self.variant', '"predicting" if self.variant', LOSSES),
    Mutation("methods/rmu.py", 'if self.variant == "wmdp":', "if False:", LOSSES),
    Mutation("methods/rmu.py", "* view.mean_inverse_tokens()", "", LOSSES),
    Mutation("models/branches.py", "other.reads_shared, other._last = True, set()", "other._last = set()", PACKING),
    Mutation("models/head.py", "now.exp_().sub_(weights)", "now.exp_().add_(weights)", HEAD),
    Mutation("training/views.py", "else self.totals.tokens)", "else len(values))", f"{TRAINING}accumulation.py"),
    Mutation(
        "training/views.py", "values.sum() / self.totals.sequences", "values.sum() / self.totals.tokens", LOSSES
    ),
    Mutation("training/loop_settings.py", "lr * (step + 1) / warmup", "lr * step / warmup", f"{TRAINING}loop.py"),
    Mutation(
        "methods/ngdiff.py", "part.neg_().add_(before[name], alpha=2)", "part.neg_().add_(before[name])", NGDIFF
    ),
    Mutation(
        "training/precompute.py",
        "sequence.key), part)",
        "sequence.key), part.roll(1, 0))",
        f"{TRAINING}precompute.py",
    ),
    Mutation(
        "training/checkpoint.py",
        "    restore(optimizer, _read_moments(",
        "    bool(_read_moments(",
        f"{TRAINING}resume.py",
    ),
    Mutation("training/processes.py", "dist.all_reduce(flat)", "flat.mul_(2)", f"{TRAINING}processes.py"),
    Mutation("training/trainable.py", "use_reentrant=False)", "use_reentrant=True)", f"{TRAINING}memory.py"),
]


def is_caught(mutation: Mutation, copy: Path) -> bool:
    """Whether the tests fail once the fault is in the copy; it is taken out again.

    Raises:
        SystemExit: the text to replace is not there exactly once.
    """
    path = copy / "src/medunlearn" / mutation.file
    text = path.read_text()
    if text.count(mutation.old) != 1:
        raise SystemExit(
            f"{mutation.file}: {mutation.old!r} stands there {text.count(mutation.old)} times, not once"
        )
    path.write_text(text.replace(mutation.old, mutation.new))
    paths = os.pathsep.join([str(copy / "src"), str(copy / "tests/support")])
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", mutation.tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
        )
    finally:
        path.write_text(text)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{mutation.tests} cannot be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def main(words: list[str]) -> int:
    chosen = [m for m in MUTATIONS if not words or any(word in f"{m.file} {m.old}" for word in words)]
    survived = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        ignored = shutil.ignore_patterns(".venv", ".git", ".*_cache", "__pycache__", "runs", "demo")
        shutil.copytree(ROOT, copy, ignore=ignored, symlinks=True)
        for number, mutation in enumerate(chosen, 1):
            caught = is_caught(mutation, copy)
            survived += not caught
            verdict = "caught  " if caught else "SURVIVED"
            print(
                f"{number:2}/{len(chosen)} {verdict} {mutation.file}: {mutation.old!r} -> {mutation.new!r}",
                flush=True,
            )
    print(f"{len(chosen) - survived} of {len(chosen)} caught")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
