"""One patient forgotten at a time by `counterfactual`: values capped token by token, as wholes, and held there.

    python benchmarks_perf/single_patients.py OUT [--hospitals 0 1] [--patients 2] [--steps 60] [--battery ...]

The models are those of deletion_requests.py: a hospital of 40 patients, trained with plain transformers. Of each
patient and form: share of her identifiers and values that rank first, the mean share of made-up ones that they are
likelier than, both beside 16 patients of another hospital; how far the means are apart, with a 95% bound on each
side; what others keep of their ROUGE-L, CPU seconds of unlearning. About a minute of CPU a row; a second call goes
on. --read prints the table of what is there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from deletion_requests import PROMPT, PlainTraining
from page_tables import markdown

from medunlearn.config import ForgetSettings, check
from medunlearn.request.case.signing_keys import make_key
from medunlearn.request.forget_request import ForgetRequest
from medunlearn.request.measuring_models import MeasuredModel
from medunlearn.request.request_battery import RequestBattery
from medunlearn.request.request_benchmarks import RequestBenchmarks
from medunlearn.request.standings import IDENTIFIERS
from medunlearn.request.trial_search import ForgetCandidate
from medunlearn.seeds import generator
from medunlearn.study.sized_defaults import rate_of_size
from medunlearn.study.unlearn import unlearn
from medunlearn.synthetic.note_table import write_note_table

FORMS: Mapping[str, Mapping[str, Any]] = {
    "token by token": {"whole_values": False},
    "as wholes": {"whole_values": True},
    "as wholes, held": {"whole_values": True, "hold": 0.25},
}
PLACES = ("identifiers notes", "identifiers answers", "values notes", "values answers", "relearning")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--hospitals", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--patients", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--battery", default="")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--tokenizer", default="common", help="shared: with tokens that are one patient's")
    parser.add_argument("--read", action="store_true", help="run nothing")
    chosen = parser.parse_args()
    battery = [name for name in chosen.battery.split(",") if name]
    training = PlainTraining(chosen.epochs, chosen.width, chosen.layers, chosen.rate, chosen.tokenizer)
    for seed in chosen.hospitals if not chosen.read else ():
        folder: Path = chosen.out / f"h{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        notes = write_note_table(folder / "notes.csv", 40, seed=seed)
        write_note_table(folder / "unseen.csv", 16, seed=seed + 100)
        model = training.trained(notes, folder / "hospital")
        names = sorted(pd.read_csv(notes, dtype=str)["patient_id"].unique())
        order = [names[place] for place in generator("single patients", seed).permutation(len(names))]
        for patient in order[: chosen.patients]:
            rows = folder / f"{patient}-{chosen.steps}.json"
            if not rows.exists():
                request = request_of(folder, model, patient, battery)
                made = [{"patient": patient, **row} for row in rows_of(request, chosen.steps)]
                rows.write_text(json.dumps(made))
    files = sorted(chosen.out.glob(f"h*/*-{chosen.steps}.json"))
    table = pd.DataFrame([row for file in files for row in json.loads(file.read_text())]).fillna("–")
    page = markdown([{str(name): str(value) for name, value in row.items()} for row in table.to_dict("records")])
    print(page)


def request_of(folder: Path, model: Path, patient: str, battery: Sequence[str]) -> ForgetRequest:
    """A request for one patient, without anything carried out."""
    key = folder / "owner" / "signing.key"
    if not key.exists():
        make_key(key)
    values = {
        "patient": patient, "key": key, "holdout": folder / "unseen.csv", "prompt": [PROMPT], "template": "plain",
        "method": "counterfactual", "battery": battery, "facts": 8, "others": 16, "build": {"clozes": 0},
    }  # fmt: skip
    settings, out = check(ForgetSettings, values), folder / f"case-{patient}"
    request = ForgetRequest.open(model, folder / "notes.csv", settings, out, device="cpu", quiet=True, say=print)
    request.work.mkdir(exist_ok=True)
    return request


def rows_of(request: ForgetRequest, steps: int) -> Iterator[dict[str, Any]]:
    """The model before, then after each form of unlearning."""
    notes = request.read_notes()
    target = request.adopt_target(notes)
    before = request.meter(notes).verify(target)
    yield {"caps": "the model before", **numbers(request, notes, before, before)}
    for form, arguments in FORMS.items():
        candidate = ForgetCandidate("counterfactual", steps, arguments=arguments)
        rate = rate_of_size(target.info.results["parameters"])
        settings = candidate.settings(notes.benchmark, {}, rate=rate, seed=0)
        folder = request.work / f"{form.replace(' ', '-')}-{steps}"
        clock = time.process_time()
        run = unlearn(target, notes.benchmark, settings, folder, device="cpu", quiet=True)
        seconds = f"{time.process_time() - clock:.0f}"
        row = {"caps": form, **numbers(request, notes, before, request.meter(notes).verify(run)), "CPU s": seconds}
        print(json.dumps(row), flush=True)
        yield row


def numbers(
    request: ForgetRequest, notes: RequestBenchmarks, before: MeasuredModel, after: MeasuredModel
) -> dict[str, str]:
    """Where a model stands on the patient and on those whom it never saw, and what others keep."""
    battery, unseen = RequestBattery(notes, request.settings), notes.unseen
    evaluated, standing = after.evaluated, after.standings
    row: dict[str, str] = {}
    facts = evaluated.facts.dropna(subset=["rank"])
    identifying = facts["fact"].isin(IDENTIFIERS)
    for name, rows in (("identifiers", facts[identifying]), ("values", facts[~identifying])):
        rows = rows[rows["context"] == "record"]
        sides = (rows[rows["side"] == "forget"], rows[rows["subject"].isin(unseen)])
        row[f"{name} first"] = " / ".join(f"{(side['rank'] == 1).mean():.2f}" for side in sides)
    checks = {one.name: one for one in battery.material(before.standings, standing).checks()}
    for name in PLACES:
        if name in checks and (gap := checks[name].comparison) is not None:
            low, high = gap.excess.low, gap.excess.high
            row[name] = f"{checks[name].after.value:.2f} ({gap.excess.value:+.2f}, {low:+.2f} to {high:+.2f})"
    costs = battery.lost(before.evaluated, evaluated, None)
    shares = [cost.retained_share for cost in costs if cost.retained_share is not None]
    return {**row, "others keep": ", ".join(f"{share:.3f}" for share in shares)}


if __name__ == "__main__":
    main()
