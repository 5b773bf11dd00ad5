"""Control models of damage and what reports say of them: the table of docs/results.md.

    python benchmarks_perf/damage_controls.py OUT [--only amnesia,lume,medforget,notes]

For each benchmark a tiny target and its retrained model are trained. The controls are made of them: the target
itself, copies with 5, 15 and 30% of the rows of every matrix permuted, one with noise, the retrained model, and one
with all weights scrambled. Each is evaluated as an unlearned model and reported alone beside target and retrained
model. What is done is not done again. About 25 minutes of processor time.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from page_tables import markdown, replace_table
from safetensors.torch import load_file, save_file

import medunlearn as mu
from medunlearn.models.folders import file_facts
from medunlearn.results.runs import Run
from medunlearn.seeds import stable_seed

WEIGHTS = "model.safetensors"
State = dict[str, torch.Tensor]


def permuted(state: State, share: float, seed: int = 0) -> State:
    """The weights with a share of the rows of every matrix permuted among themselves."""

    def of(name: str, weight: torch.Tensor) -> torch.Tensor:
        draw = torch.Generator().manual_seed(stable_seed("permuted", name, seed))
        rows = torch.randperm(len(weight), generator=draw)[: round(share * len(weight))]
        changed = weight.clone()
        changed[rows] = weight[rows.roll(1)]
        return changed

    return {name: of(name, weight) if weight.dim() > 1 else weight for name, weight in state.items()}


def noisy(state: State, share: float, seed: int = 0) -> State:
    """The weights with normal noise in every matrix: a share of its standard deviation."""

    def of(name: str, weight: torch.Tensor) -> torch.Tensor:
        draw = torch.Generator().manual_seed(stable_seed("noise", name, seed))
        return weight + share * weight.float().std().to(weight.dtype) * torch.randn(
            weight.shape, generator=draw, dtype=weight.dtype
        )

    return {name: of(name, weight) if weight.dim() > 1 else weight for name, weight in state.items()}


def scrambled(state: State) -> State:
    """Weights of the same size and spread, drawn anew."""
    return {
        name: weight.flatten()[torch.randperm(weight.numel())].view(weight.shape) for name, weight in state.items()
    }


CONTROLS: Mapping[str, tuple[str, Callable[[State], State]]] = {
    "did nothing": ("target", lambda state: state),
    **{f"damage {share}%": ("target", lambda state, s=share: permuted(state, s / 100)) for share in (5, 15, 30)},
    **{f"noise {share}": ("target", lambda state, s=share: noisy(state, s)) for share in (0.25, 0.5)},
    "as retrained": ("retrained", lambda state: state),
    "scrambled": ("target", scrambled),
}
"""Control -> the model that it is made of, and what is done to its weights."""


@dataclass(frozen=True)
class World:
    """A benchmark, its split, and the training that makes the target memorize it."""

    build: Callable[[], Any]
    split: str
    train: Mapping[str, Any]
    evaluate: Mapping[str, Any]


NOTES = Path(__file__).parents[1] / "examples"
SMALL = {"model": "tiny", "tiny_width": 128, "tiny_layers": 3}
WORLDS: Mapping[str, World] = {
    "lume": World(
        lambda: mu.build.lume(synthetic=14, nonmembers=6),
        "half",
        {"model": "tiny", "preset": "lume-tiny"},
        {"folds": ("train", "holdout")},
    ),
    "amnesia": World(
        lambda: mu.build.amnesia(synthetic=40, note_length="short"),
        "random_25",
        SMALL,
        {"folds": ("train", "holdout")},
    ),
    "medforget": World(
        lambda: mu.build.medforget(synthetic=24, institutions=4, studies=1, sections=4, text_only=True),
        "patient_25",
        SMALL | {"train_on": "questions", "epochs": 24},
        {"folds": ("train", "rephrase", "utility"), "limit": 10, "max_new_tokens": 48},
    ),
    "notes": World(
        lambda: mu.build.notes(NOTES / "notes.csv", holdout=NOTES / "notes-unseen.csv"),
        "random_25",
        SMALL | {"epochs": 30},
        {"folds": ("train", "holdout", "utility"), "limit": 8, "max_new_tokens": 48},
    ),
}


def controls(world: World, bench: Any, out: Path) -> tuple[list[Run], dict[str, Run]]:
    """Target and retrained model, and each control as an unlearned run."""
    train = {**world.train, "seed": 0, "quiet": True}
    target = mu.train(bench, out=out / "target", **train)
    retrained = mu.train(bench, out=out / "retrained", without=world.split, **train)
    sources = {"target": target, "retrained": retrained}
    made = {
        name: control_run(
            target, sources[source], change, world.split, out / "controls" / name.replace(" ", "-"), name
        )
        for name, (source, change) in CONTROLS.items()
    }
    return [target, retrained], made


def control_run(
    target: Run, source: Run, change: Callable[[State], State], split: str, out: Path, name: str
) -> Run:
    """A control model as a run of `unlearn`."""
    if not (out / "run.json").exists():
        shutil.copytree(source.model, out / "model", dirs_exist_ok=True)
        state = change(load_file(source.model / WEIGHTS))
        save_file(state, out / "model" / WEIGHTS, metadata={"format": "pt"})
        config = {**target.info.config, "method": "control", "split": split}
        record = replace(
            target.info, verb="unlearn", label=name, key=name, config=config, model_files=file_facts(out / "model")
        )
        record.write(out)
    return Run.open(out)


def report_rows(world: World, name: str, out: Path) -> Iterator[dict[str, str]]:
    """One row a control: what its report says."""
    if not (out / "bench" / "benchmark.yaml").exists():
        world.build().save(out / "bench")
    bench = mu.Benchmark.load(out / "bench")
    references, made = controls(world, bench, out)
    asking = {"ranked": 12, "alternatives": 29, "replicates": 500, "quiet": True, **world.evaluate}
    for run in (*references, *made.values()):
        mu.evaluate(run, bench, split=world.split, **asking)
    for label, run in made.items():
        page = mu.report([*references, run], out=out / "reports" / run.folder.name, benchmark=bench)
        data = json.loads(page.with_suffix(".json").read_text())
        headline, findings = data["headline"], data["findings"]
        own = headline["forgetting"].get(label, {})
        lost = ", ".join(f"{fold} {number(share)}" for fold, share in own.get("lost", {}).items())
        held = [finding["name"] for finding in findings if finding["verdict"] == "holds"]
        distances = headline["distance_to_retrained"]
        yield {
            "benchmark": name,
            "control": label,
            "distance (of the target)": f"{number(distances[label])} ({number(distances['target'])})",
            "forgotten": number(own.get("forgotten")),
            "lost": lost or "–",
            "ranked first": number(next(iter(own.get("ranked_first", {}).values()), None)),
            "closest": headline["closest_to_retrained"] or "none",
            "why not": ", ".join(dict.fromkeys(own.get("obstacles", ()))) or "–",
            "findings that hold": ", ".join(held) or "none",
        }


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join(WORLDS), help="benchmarks, with commas")
    arguments = parser.parse_args()
    rows = list[dict[str, str]]()
    for name in arguments.only.split(","):
        rows += report_rows(WORLDS[name], name, arguments.out / name)
        print(markdown(rows), flush=True)
    if arguments.only == ",".join(WORLDS):
        replace_table("results.md", "damage", markdown(rows))


if __name__ == "__main__":
    main()
