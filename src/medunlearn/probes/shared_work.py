"""Work shared by the cells of one process: common inputs are read, tokenized and computed once.

Everything is keyed by content, so a cell's numbers do not depend on the others.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medunlearn.data.benchmark import Benchmark
from medunlearn.generation.respond import longest_answer
from medunlearn.models.activation_cache import ActivationCache
from medunlearn.models.folders import chain, is_adapter
from medunlearn.models.memo import Memo
from medunlearn.models.precision import Precision
from medunlearn.models.pretrained import load_tokenizer
from medunlearn.models.shared_base import SharedBase, shape_of
from medunlearn.training.precompute import CachePlan

ACTIVATION_BYTES = 512_000_000
TOKENIZERS, BENCHMARKS, LENGTHS = 4, 1, 64


@dataclass
class SharedWork:
    """Shared state of one worker, passed from job to job.

    Attributes:
        base: the model in memory.
    """

    base: SharedBase = field(default_factory=SharedBase)
    _activations: Memo = field(default_factory=lambda: Memo(ACTIVATION_BYTES))
    _tokenizers: Memo = field(default_factory=lambda: Memo(TOKENIZERS))
    _lengths: Memo = field(default_factory=lambda: Memo(LENGTHS))
    _benchmarks: Memo = field(default_factory=lambda: Memo(BENCHMARKS))
    _kept_aside: bool = False

    def benchmark(self, folder: Path) -> Benchmark:
        """The benchmark in a folder, read once."""
        return self._benchmarks.get(folder, lambda: Benchmark.load(folder), lambda _: 1)

    def tokenizer(self, folder: Path) -> Any:
        """The tokenizer of a model folder, shared by models with equal tokenizer files."""
        if is_adapter(folder):
            return load_tokenizer(folder)
        shape = shape_of(chain(folder, check=False)[0])
        return self._tokenizers.get(shape, lambda: load_tokenizer(folder), lambda _: 1)

    def longest_answer(self, folder: Path, benchmark: Benchmark) -> int:
        """The default of ``max_new_tokens`` for a model folder."""
        key: Hashable = (str(folder), benchmark.fingerprint)
        if not is_adapter(folder):
            key = (shape_of(chain(folder, check=False)[0]), benchmark.fingerprint)
        return self._lengths.get(key, lambda: longest_answer(self.tokenizer(folder), benchmark), lambda _: 1)

    def activations(self, plan: CachePlan, model: Hashable, precision: Precision) -> ActivationCache | None:
        """Activation cache of a run's target, shared by all runs with the same computation.

        Args:
            model: identity of the target, type of its weights, and its trained parameters.

        Returns:
            None if it is too large for memory.
        """
        if plan.bytes > self._activations.most:
            return None
        key = (model, precision, plan.content)
        return self._activations.get(key, lambda: plan.fill(None, precision), lambda cache: cache.bytes)

    def keep_aside(self) -> None:
        """Freeze garbage collection of loaded objects once, after the first job."""
        if not self._kept_aside:
            self._kept_aside = True
            self.base.drop()  # A model that is kept aside could never be freed.
            gc.collect()
            gc.freeze()
