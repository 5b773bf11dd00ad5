"""What brings it back: the battery on unlearned models of an invented hospital, beside target and retrained model.

    python benchmarks_perf/battery.py OUT --patients 60
    python benchmarks_perf/battery.py OUT --patients 100 --attacks battery --seeds 0,1,2 --write

Each seed gets its own folder of OUT: benchmark, runs, and ``page/`` with the page; the same call goes on where it
was cut off. Prints the table of all seeds, and CPU seconds of each part; ``--write`` puts it into docs/results.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
from page_tables import markdown, replace_table

from medunlearn import api
from medunlearn.attacks.attack_run import AttackBattery
from medunlearn.attacks.attack_settings import attack_settings
from medunlearn.attacks.brought_back import BroughtBack
from medunlearn.papers.amnesia.build import build
from medunlearn.papers.amnesia.settings import AmnesiaSettings
from medunlearn.reports.write import write_report

METHODS = ("counterfactual", "altpo", "npo", "simnpo", "kl_min", "graddiff", "rmu")
SPLIT = "random_10"
LABELS = ("title", "measure", "model")


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.process_time()
    yield
    print(f"{what}: {time.process_time() - start:.0f} CPU s", flush=True)


def brought_back(out: Path, seed: int, chosen: argparse.Namespace) -> pd.DataFrame:
    """Rows of one seed's page, which is written to ``out/page``.

    Columns: :data:`medunlearn.reports.battery.COLUMNS`, with titles of measures, and the seed.
    """
    folder, runs = out / "bench", out / "runs"
    if not folder.exists():
        invented = AmnesiaSettings(synthetic=chosen.patients, nonmember_patients=chosen.patients // 2, seed=seed)
        build(invented).save(folder)
    width = {"tiny_width": chosen.width} if chosen.width else {}
    methods, models = chosen.methods.split(","), {}
    for name, more in (("target", {}), ("retrained", {"without": SPLIT})):
        with timed(f"seed {seed}, {name}"):
            how = {"model": "tiny", "seed": seed, "quiet": True, **width, **more}
            models[name] = api.train(folder, out=runs / name, **how)
    for method in methods:
        with timed(f"seed {seed}, {method}"):
            how = {"split": SPLIT, "seed": seed, "quiet": True}
            models[method] = api.unlearn(runs / "target", folder, method=method, out=runs / method, **how)
    settings = attack_settings({"split": SPLIT, "attacks": chosen.attacks, "allow_broken": True})
    with timed(f"seed {seed}, attacks {chosen.attacks} on {len(models)} models"):
        attacks = AttackBattery(api.load(folder), settings).attack_each([*models.values()], quiet=True)
    shown = BroughtBack.of(attacks)
    write_report(shown.page(attacks, "What brings it back"), out / "page")
    titles = shown.table["measure"].map(shown.measure_titles)
    return shown.table.assign(measure=titles, seed=seed)


def table_rows(table: pd.DataFrame) -> list[dict[str, str]]:
    """A row an attack, a column a model: the mean over seeds, with the smallest and the largest of several.

    Of the retrained model the value itself, of others the difference from it under the same attack. A mean over
    fewer seeds than were run says so.
    """
    seeds = table["seed"].nunique()
    is_reference = table["role"] == "retrained"
    shown = table.assign(shown=table["difference"].where(~is_reference, table["value"]).astype("Float64"))
    shown = shown.dropna(subset=["shown", "measure"])
    numbers = shown.groupby([*LABELS], sort=False)["shown"].agg(["mean", "min", "max", "count"])
    models = ["retrained", *(model for model in shown["model"].unique() if model != "retrained")]
    rows = []
    for title, measure in dict.fromkeys(zip(shown["title"], shown["measure"], strict=True)):
        row = {"attack": f"{title}: {measure}"}
        for model in models:
            place = (title, measure, model)
            row[model] = (
                _cell(numbers.loc[place], seeds, signed=model != "retrained") if place in numbers.index else "–"
            )
        rows.append(row)
    return rows


def _cell(number: pd.Series, seeds: int, *, signed: bool) -> str:
    def text(value: float) -> str:
        return f"{value:+.2f}" if signed else f"{value:.2f}"

    count = int(number["count"])
    between = f" ({text(number['min'])} to {text(number['max'])})" if count > 1 else ""
    return f"{text(number['mean'])}{between}{f', {count} of {seeds} seeds' if count < seeds else ''}"


def failures(table: pd.DataFrame) -> Sequence[str]:
    """Attacks without a number on a model, with the reason."""
    failed = table.dropna(subset=["reason"])
    return list(dict.fromkeys(f"{row.title}, {row.model}: {row.reason}" for row in failed.itertuples()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--patients", type=int, default=60)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--attacks", default="quick")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--width", type=int, default=0, help="of the tiny model; 0: its own")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results.md")
    chosen = parser.parse_args()
    seeds = [int(seed) for seed in chosen.seeds.split(",")]
    tables = [brought_back(chosen.out / f"seed-{seed}", seed, chosen) for seed in seeds]
    table = pd.concat(tables, ignore_index=True)
    shown = markdown(table_rows(table))
    print(shown, *failures(table), sep="\n")
    if chosen.write:
        replace_table("results.md", "battery", shown)


if __name__ == "__main__":
    main()
