"""Membership attacks: one pass for all of them, against one for each with the logits of every position.

Both give the scores of loss, zlib, Min-K%, Min-K%++ and reference; the gradient norm takes a backward pass either
way and is left out. Each way runs in a process of its own, so that its peak memory is its own; the fastest of some
turns counts.

    python benchmarks_perf/attacks.py
    python benchmarks_perf/attacks.py --vocabulary 128000 --documents 16 --turns 1
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import torch
from steps import random_llama

from medunlearn.attacks import make_attack
from medunlearn.attacks.membership.passage import Passage
from medunlearn.attacks.membership.passes import document_moments, log_likelihoods
from medunlearn.models.load import LanguageModel
from medunlearn.models.sequences import TokenSequence
from medunlearn.seeds import generator

NAMES = ("loss", "zlib", "min_k", "min_k_pp", "reference")
MIB = 1 << 20
Documents = list[list[TokenSequence]]
Scores = dict[str, list[float]]


def material(chosen: argparse.Namespace) -> tuple[LanguageModel, Documents]:
    """A random model, and documents of random tokens of half to full length."""
    language_model = LanguageModel(random_llama(chosen), SimpleNamespace(pad_token_id=0), "random")
    documents = []
    for number in range(chosen.documents):
        draw = generator("attacked document", number)
        length = int(draw.integers(chosen.length // 2, chosen.length))
        ids = tuple(draw.integers(chosen.vocabulary, size=length).tolist())
        documents.append([TokenSequence(str(number), ids, 0, 1)])
    return language_model, documents


def text_of(document: list[TokenSequence]) -> str:
    return " ".join(map(str, document[0].ids))


def ours(language_model: LanguageModel, documents: Documents, batch_size: int) -> Scores:
    attacks = {name: make_attack(name, {}) for name in NAMES}
    moments = document_moments(language_model, documents, batch_size=batch_size)
    reference = log_likelihoods(language_model, documents, batch_size=batch_size)
    scores: Scores = {name: [] for name in NAMES}
    for document, seen, likelihood in zip(documents, moments, reference, strict=True):
        parts = [np.asarray(part, np.float64) for part in (seen.log_probs, seen.means, seen.variances)]
        passage = Passage(text_of(document), parts[0], parts[1], parts[2], reference=likelihood)
        for name, attack in attacks.items():
            scores[name].append(float(attack.score(passage).value))
    return scores


def plain_pass(model: Any, documents: Documents, batch_size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Logits at, and ids of, every token but the first of each document; a padded batch at a time."""
    for start in range(0, len(documents), batch_size):
        rows = [document[0].ids for document in documents[start : start + batch_size]]
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = torch.tensor(row)
            mask[place, : len(row)] = 1
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float()
        for place, row in enumerate(rows):
            yield logits[place, : len(row) - 1], torch.tensor(row[1:])


def lowest(values: torch.Tensor) -> float:
    return float(values.sort().values[: max(1, int(round(0.2 * len(values), 9)))].mean())


def plain(language_model: LanguageModel, documents: Documents, batch_size: int) -> Scores:
    """Every attack runs the model by itself, as attacks written one by one do; the reference is another run."""
    scores: Scores = {name: [] for name in NAMES}

    def rated() -> Any:
        for document, (logits, ids) in zip(
            documents, plain_pass(language_model.model, documents, batch_size), strict=True
        ):
            logs = logits.log_softmax(-1)
            yield document, logs, logs.gather(1, ids[:, None]).squeeze(1)

    for _, _, picked in rated():
        scores["loss"].append(float(picked.mean()))
    for document, _, picked in rated():
        scores["zlib"].append(float(picked.mean()) / len(zlib.compress(text_of(document).encode())))
    for _, _, picked in rated():
        scores["min_k"].append(lowest(picked))
    for _, logs, picked in rated():
        means = (logs.exp() * logs).sum(-1)
        variances = (logs.exp() * logs.square()).sum(-1) - means.square()
        scores["min_k_pp"].append(lowest((picked - means) / variances.sqrt()))
    losses = [float(picked.mean()) for _, _, picked in rated()]
    others = [float(picked.mean()) for _, _, picked in rated()]
    scores["reference"] = [loss - other for loss, other in zip(losses, others, strict=True)]
    return scores


def measured(way: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Seconds of the fastest turn, MiB by which this process grows at its peak, and the scores."""
    language_model, documents = material(chosen)
    work = {"ours": ours, "plain": plain}[way]
    before, best = psutil.Process().memory_info().rss, math.inf
    for _ in range(chosen.turns):
        started = time.perf_counter()
        scores = work(language_model, documents, chosen.batch_size)
        best = min(best, time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return {"seconds": best, "grown": peak / MIB, "scores": scores}


def elsewhere(way: str) -> dict[str, Any]:
    command = [sys.executable, __file__, *sys.argv[1:], "--child", way]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"documents": 32, "length": 256, "batch_size": 8, "turns": 2}
    for key, value in {**sizes, "vocabulary": 32000, "width": 128, "layers": 4}.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--child", choices=["ours", "plain"], help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(measured(chosen.child, chosen)))
        return
    first, second = elsewhere("plain"), elsewhere("ours")
    for name in NAMES:
        if not np.allclose(first["scores"][name], second["scores"][name], rtol=1e-3, atol=1e-5):
            raise SystemExit(f"The two ways differ on {name}.")
    print(
        f"{torch.get_num_threads()} threads: plain {first['seconds']:.2f} s, ours {second['seconds']:.2f} s, "
        f"{first['seconds'] / second['seconds']:.1f}x; peak plain {first['grown']:.0f} MiB, ours "
        f"{second['grown']:.0f} MiB, {second['grown'] / first['grown']:.0%}"
    )


if __name__ == "__main__":
    main()
