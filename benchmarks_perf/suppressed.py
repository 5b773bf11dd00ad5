"""Suppressed is not forgotten: tables and figure of docs/results.md, from the experiments of hospitals.py.

python benchmarks_perf/suppressed.py OUT

OUT is the folder that hospitals.py wrote, with all seeds, splits and sizes. Runs nothing.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from hospitals import (
    ATTACKED,
    DISEASE,
    SEEDS,
    SIZES,
    SPLITS,
    WHOLE,
    WHOLE_LABEL,
    Experiment,
    Model,
    best_settings,
    settings_of,
)
from page_tables import markdown, replace_table, with_interval

from medunlearn.results.runs import Run
from medunlearn.statistics.intervals import SubjectMean, interval, mean_over_subjects

TABLES = {
    "methods": ("random_10", "cardiovascular_10"),
    "shares": ("random_05", "random_25"),
}
"""Table -> its splits; the figure shows the first one of ``methods``."""
RANDOM = tuple(split for split in SPLITS if split.startswith("random"))
FORGETTING = {
    "forgetting": ("train", "H(1-rouge_l, 1-em)"),
    "ROUGE-L": ("train", "rouge_l"),
    "EM": ("train", "em"),
    "answer probability": ("train", "answer_probability"),
    "ranked first": ("train", "ranked_first"),
    "holdout ROUGE-L": ("holdout", "rouge_l"),
    "holdout EM": ("holdout", "em"),
    "holdout ranked first": ("holdout", "ranked_first"),
}
"""Column of the table `inside` -> fold and measure on the forget side."""
UTILITY = ("retain", "train", "H(rouge_l, em, te)")
ATTACKS = {
    "before": ("relearning", "relearning.retain", "0", "ranked_first"),
    "relearned on retained patients": ("relearning", "relearning.retain", "20", "ranked_first"),
    "relearned on half of the forgotten": ("relearning", "relearning.forget_half", "20", "ranked_first"),
    "int4 weights": ("quantization", "quantization", "int4", "ranked_first"),
    "said in one answer": ("sampling", "sampling", "1", "facts_said"),
    "said in 32 answers": ("sampling", "sampling", "32", "facts_said"),
}
"""Column of the table `recovery` -> table, attack, strength and measure."""
FIGURE = Path(__file__).parents[1] / "docs" / "suppressed.svg"
Models = dict[str, dict[str, list[Model]]]
"""Label -> split -> its models, one a seed."""


def models_of(out: Path) -> Models:
    """Models of all hospitals of 100."""
    models: Models = defaultdict(lambda: defaultdict(list))
    for split in SPLITS:
        for seed in SEEDS:
            name, settings = f"{split}-{seed}", settings_of(out, split, seed, {})
            for experiment in (Experiment(out, name, settings), Experiment(out, name + WHOLE, settings)):
                if not experiment.is_done:
                    print(f"{experiment.name} was not run: the tables are without it.")
                    continue
                for model in experiment.models:
                    if model.label == WHOLE_LABEL or experiment.name == name:
                        models[model.label][split].append(model)
    return models


def first_over_subjects(facts: pd.DataFrame, side: str) -> SubjectMean | None:
    """Share of a side's facts that rank first, over patients of all hospitals; of answers the train fold's."""
    own = facts[facts["side"].eq(side) & facts["fold"].isin(["train", "record"]) & facts["p"].notna()]
    return over_subjects(own.assign(value=own["rank"] == 1))


def over_subjects(rows: pd.DataFrame) -> SubjectMean | None:
    """Mean of ``value``, a share, over patients of all hospitals; ``n_scored`` weighs a row of several items."""
    weights = rows["n_scored"] if "n_scored" in rows else pd.Series(1, rows.index)
    keys = [rows["seed"], rows["subject"]]
    sums, counts = (each.groupby(keys).sum() for each in (rows["value"].astype(float) * weights, weights))
    return mean_over_subjects(np.asarray(sums, np.float64), np.asarray(counts, np.float64), (0.0, 1.0))


def text_of(mean: SubjectMean | None) -> str:
    """``0.15 (0.08–0.25)``: a share and its 95% interval over patients."""
    return "–" if mean is None else with_interval(mean.value, *interval(mean))


def first_with_interval(facts: pd.DataFrame, side: str) -> str:
    """The share of facts ranked first."""
    return text_of(first_over_subjects(facts, side))


def pooled(models: Iterable[Model], frame: Callable[[Model], pd.DataFrame]) -> pd.DataFrame:
    """The same table of several hospitals' models."""
    return pd.concat([frame(model) for model in models], ignore_index=True)


def level_of(models: Sequence[Model]) -> float:
    """Share of the forgotten patients' facts that rank first."""
    mean = first_over_subjects(pooled(models, lambda model: model.facts), "forget")
    return 0.0 if mean is None else mean.value


def rows(models: Models, splits: Sequence[str]) -> list[dict[str, str]]:
    """One row a model: distance, and facts ranked first of the forgotten and of the retained."""
    by_level = sorted(models.items(), key=lambda entry: level_of(entry[1][splits[0]]))
    return [{"model": label, **row(own, splits)} for label, own in by_level]


def row(own: Mapping[str, Sequence[Model]], splits: Sequence[str]) -> dict[str, str]:
    """A model's cells on some splits."""
    facts = {split: pooled(own[split], lambda model: model.facts) for split in splits}
    distances = {split: np.mean([model.distance for model in own[split]]) for split in splits}
    return {
        **{f"distance, {split}": f"{distances[split]:.3f}" for split in splits},
        **{
            f"{side}, {split}": first_with_interval(facts[split], side)
            for side in ("forget", "retain")
            for split in splits
        },
    }


def inside_rows(models: Models) -> list[dict[str, str]]:
    """In how many cells of the random splits a measure lies within the retrained model's interval."""
    return [
        {
            "model": label,
            "utility": utility_of(own, models["target"]),
            **{name: inside(own, models["retrained"], *place) for name, place in FORGETTING.items()},
            "in records": first_with_interval(
                pooled((m for split in RANDOM for m in own[split]), lambda model: model.facts_in_records), "forget"
            ),
        }
        for label, own in models.items()
    ]


def utility_of(own: Mapping[str, Sequence[Model]], target: Mapping[str, Sequence[Model]]) -> str:
    """Mean and least over cells of the utility, as a share of the target's."""
    shares = [
        model.summary.loc[UTILITY, "value"] / other.summary.loc[UTILITY, "value"]
        for split in RANDOM
        for model, other in paired(own[split], target[split])
    ]
    return f"{np.mean(shares):.2f} ({min(shares):.2f})"


def paired(models: Sequence[Model], references: Sequence[Model]) -> Iterator[tuple[Model, Model]]:
    """Each model with the reference of its hospital."""
    by_seed = {reference.seed: reference for reference in references}
    return ((model, by_seed[model.seed]) for model in models)


def inside(
    own: Mapping[str, Sequence[Model]], retrained: Mapping[str, Sequence[Model]], fold: str, measure: str
) -> str:
    """``7 of 9`` cells where the retrained model has an interval."""
    place, within = ("forget", fold, measure), list[bool]()
    for split in RANDOM:
        for model, reference in paired(own[split], retrained[split]):
            low, high = reference.summary.loc[place, ["low", "high"]]
            if not pd.isna(low):
                within.append(bool(low <= model.summary.loc[place, "value"] <= high))
    return f"{sum(within)} of {len(within)}"


def disease_rows(models: Models, split: str = "cardiovascular_10") -> list[dict[str, str]]:
    """Exact memorization of retained patients of the disease that was forgotten, beside that of all others."""
    table = list[dict[str, str]]()
    for label, own in models.items():
        scores = pooled(own[split], lambda model: model.scores)
        scores = scores[scores["measure"].eq("em") & scores["side"].eq("retain") & scores["value"].notna()]
        same = scores["node"].eq(DISEASE)
        groups = {"the same disease": scores[same], "others": scores[~same]}
        cells = {
            f"{name}, {fold}": text_of(over_subjects(rows[rows["fold"] == fold]))
            for fold in ("train", "holdout")
            for name, rows in groups.items()
        }
        table.append({"model": label} | cells)
    return table


def recovery_rows(models: Models, split: str) -> list[dict[str, str]]:
    """What attacks bring back on a split."""
    return [
        {"model": label} | {name: recovered(own[split], *place) for name, place in ATTACKS.items()}
        for label, own in models.items()
    ]


def recovered(models: Sequence[Model], table: str, attack: str, strength: str, measure: str) -> str:
    """The forget side after an attack, with its interval over patients."""
    attacked = pooled(models, lambda model: model.attacked(table))
    place = {"attack": attack, "strength": strength, "measure": measure, "side": "forget"}
    return text_of(over_subjects(attacked[(attacked[list(place)].astype(str) == pd.Series(place)).all(axis=1)]))


def size_rows(out: Path, size: str) -> list[dict[str, str]]:
    """One row a model of another size."""
    experiment = Experiment(out, size, SIZES[size](out, {}))
    target = next(model for model in experiment.models if model.label == "target")
    return [
        {
            "model": model.label,
            "distance": f"{model.distance:.3f}",
            "utility": f"{model.summary.loc[UTILITY, 'value'] / target.summary.loc[UTILITY, 'value']:.2f}",
            **{side: first_with_interval(model.facts, side) for side in ("forget", "retain")},
            "forget, in records": first_with_interval(model.facts_in_records, "forget"),
        }
        for model in sorted(experiment.models, key=lambda model: level_of([model]))
    ]


def lume_rows(out: Path) -> list[dict[str, str]]:
    """Regurgitation and knowledge of LUME's documents by task, forget side, and both on the retain side."""
    report = json.loads((out / "lume.json").read_text())
    groups = pd.DataFrame(report["groups"]).set_index(["model", "node", "measure", "side"])["value"]
    tasks = ("personal_biography", "public_biography", "story")
    places = {f"{task.replace('_', ' ')}, {side}": (task, side) for side in ("forget", "retain") for task in tasks}
    return [
        {
            "model": model["label"],
            **{
                name: " / ".join(
                    f"{groups[model['label'], task, measure, side]:.2f}"
                    for measure in ("regurgitation", "knowledge")
                )
                for name, (task, side) in places.items()
            },
        }
        for model in report["models"]
    ]


def vision_rows(out: Path) -> list[dict[str, str]]:
    """ROUGE-L of questions about X-rays by their kind, and of the retain side."""
    rows = list[dict[str, str]]()
    for path in sorted((out / "vision").glob("*/evaluations/*/summary.parquet")):
        table = pd.read_parquet(path).query("measure == 'rouge_l' and fold == 'train'")
        values = table.set_index(["side", "kind"])["value"]
        kinds = ("identity", "generation", "classification", "cloze")
        cells = {f"{kind}, forget": f"{values['forget', kind]:.2f}" for kind in kinds}
        rows.append(
            {"model": Run.open(path.parents[2]).info.label, **cells, "retain": f"{values['retain', 'all']:.2f}"}
        )
    return rows


def setting_rows(out: Path) -> list[dict[str, str]]:
    """Settings that tuning found, and the objective on both halves of its hospital."""
    results = pd.read_parquet(out / "tune" / "results.parquet").query("fold == 'train'")
    reported = results.set_index(["model", "setting"])["value"]
    best = json.loads((out / "tune" / "tune.json").read_text())["best"]
    return [
        {
            "method": method,
            "settings": ", ".join(f"{key} {value:.3g}" for key, value in own.items()) or "as untuned",
            "chosen at": f"{best[method]['value']:.3f}",
            "others": f"{reported[method, 'best']:.3f}",
            "others, untuned": f"{reported[method, 'untuned']:.3f}",
        }
        for method, own in best_settings(out).items()
    ]


def figure(levels: Mapping[str, float]) -> str:
    """Bars of the forgotten patients' facts ranked first, a row a model; the retrained model's level is a line."""
    left, width, height = 190, 380, 22
    level = levels["retrained"]
    parts = []
    for place, (model, share) in enumerate(levels.items()):
        top = 34 + place * height
        colour = "#4a7" if model == "retrained" else "#c54" if model == "target" else "#57a"
        parts += [
            f'<text x="{left - 8}" y="{top + 12}" text-anchor="end">{model}</text>',
            f'<rect x="{left}" y="{top}" width="{width * share:.0f}" height="15" fill="{colour}"/>',
            f'<text x="{left + width * share + 6:.0f}" y="{top + 12}">{share:.2f}</text>',
        ]
    bottom = 34 + len(levels) * height
    x = left + width * level
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 50} {bottom + 8}" role="img" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{left + width + 50}" height="{bottom + 8}" fill="#fff"/>',
            '<text x="8" y="18" font-size="13">Share of forgotten facts that rank first among 50</text>',
            *parts,
            f'<line x1="{x:.0f}" x2="{x:.0f}" y1="30" y2="{bottom}" stroke="#333" stroke-dasharray="4 3"/>',
            "</svg>\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    models = models_of(out)
    tables = {name: rows(models, splits) for name, splits in TABLES.items()}
    tables |= {"settings": setting_rows(out), "inside": inside_rows(models)}
    tables["diseases"] = disease_rows(models)
    tables["recovery"] = recovery_rows(models, *ATTACKED)
    tables |= {size: size_rows(out, size) for size in ("many", "wide")} | {
        "lume": lume_rows(out),
        "vision": vision_rows(out),
    }
    for name, table in tables.items():
        replace_table("results.md", name, markdown(table))
        print(f"{name}\n{markdown(table)}\n")
    levels = {label: level_of(own[TABLES["methods"][0]]) for label, own in models.items()}
    FIGURE.write_text(figure(dict(sorted(levels.items(), key=lambda entry: entry[1]))))


if __name__ == "__main__":
    main()
