"""Whether findings can be seen on drawn chest X-rays: a small network's AUC for each on patients it has not seen.

    python benchmarks_perf/phantom_findings.py

A convolutional network of 100,000 weights is trained on the images of some invented patients and asked about those
of others: is there an effusion, a pacemaker, ...? Intervals are 95%, over held-out patients. Trained images
are moved by up to three pixels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from medunlearn.statistics.roc import RocSample
from medunlearn.synthetic.phantom import Body, radiograph
from medunlearn.synthetic.radiology import InventedRadiology

KINDS = ("effusion", "opacity", "cardiomegaly", "nodule", "pneumothorax", "device")
DEVICES = ("pacemaker", "central venous line", "chest drain", "port catheter")
NAMES = (*KINDS, *DEVICES)


def images(patients: Sequence[str], source: InventedRadiology, size: int) -> tuple[Tensor, Tensor, np.ndarray]:
    """Images [n, 1, size, size] in 0..1, what is on each [n, findings], and whose it is [n]."""
    bodies: list[tuple[str, Body]] = [(p, study.body) for p in patients for study in source.studies(p)]
    pixels = np.stack([radiograph(body, 0, size) for _, body in bodies])
    present = [
        [name in {finding.device or finding.kind for finding in body.findings} for name in NAMES]
        for _, body in bodies
    ]
    found = torch.tensor(present, dtype=torch.float32)
    found[:, KINDS.index("device")] = found[:, len(KINDS) :].amax(dim=1)
    return torch.from_numpy(pixels).float()[:, None] / 255, found, np.array([patient for patient, _ in bodies])


def network() -> nn.Module:
    """Four convolutions; what is seen anywhere counts."""

    def block(inside: int, outside: int, *, pool: bool = True) -> list[nn.Module]:
        parts = [nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()]
        return [*parts, nn.MaxPool2d(2)] if pool else parts

    layers = [*block(1, 16), *block(16, 32), *block(32, 64), *block(64, 96, pool=False)]
    return nn.Sequential(
        *layers, nn.AdaptiveMaxPool2d(4), nn.Flatten(), nn.Dropout(0.3), nn.Linear(16 * 96, len(NAMES))
    )


def train(model: nn.Module, shown: Tensor, present: Tensor, epochs: int, rate: float, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    steps = epochs * (len(shown) // 64)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(shown), generator=rng)
        for at in range(0, len(shown) - 63, 64):
            batch = order[at : at + 64]
            by = torch.randint(-3, 4, (2,), generator=rng).tolist()
            seen = torch.roll(shown[batch], by, dims=(2, 3)).contiguous()
            loss = nn.functional.binary_cross_entropy_with_logits(model(seen), present[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--patients", type=int, default=1000, help="trained on; four studies each")
    parser.add_argument("--held-out", type=int, default=250)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    source = InventedRadiology(options.patients + options.held_out, 4, options.seed)
    everyone = np.random.default_rng(options.seed).permutation(source.patients()).tolist()
    shown, present, _ = images(everyone[: options.patients], source, options.size)
    new, truth, patients = images(everyone[options.patients :], source, options.size)
    mean, spread = shown.mean(0), shown.std()
    model = network()
    start = time.process_time()
    train(model, (shown - mean) / spread, present, options.epochs, options.rate, options.seed)
    with torch.no_grad():
        scores = torch.cat([model((batch - mean) / spread) for batch in new.split(256)]).numpy()
    seconds = time.process_time() - start
    print(
        f"{len(shown):,} images of {options.patients} patients, {options.size} px, {options.epochs} epochs; "
        f"{seconds:.0f} s; asked about {len(new):,} images of {options.held_out} others"
    )
    for place, name in enumerate(NAMES):
        has = truth[:, place].numpy() > 0
        seen = RocSample(has.tolist(), patients.tolist(), replicates=500, seed=options.seed).auc(scores[:, place])
        print(f"{name:20s} AUC {seen.value:.3f} ({seen.low:.3f} to {seen.high:.3f}), {has.sum()} of {len(has)}")


if __name__ == "__main__":
    main()
