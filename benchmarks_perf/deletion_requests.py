"""Deletion requests one after the other on an invented hospital, each beside a model that never saw the patient.

    python benchmarks_perf/deletion_requests.py OUT --requests 8 [--patients 40] [--retrain] [--battery sampling]

A chat-like model is trained on the hospital's notes with plain transformers, not by medunlearn. Of each request:
rank of the patient's facts before and after, values said, what others keep, verdict, of all earlier patients after
the last one, and CPU and wall seconds. ``--retrain`` trains a model without the patients so far for each request:
the same battery's verdict on it (``retrained``), on the unlearned model beside it (``beside``) and without it
(``now``), and on the model before; ``--write`` puts the table into docs/results.md. Resumes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from page_tables import markdown, replace_table
from scipy.stats import ttest_1samp

import medunlearn as mu
from medunlearn.data.benchmark import Benchmark
from medunlearn.models.load import load_model
from medunlearn.models.precision import autocast
from medunlearn.request.battery_rerun import BatteryRerun
from medunlearn.request.case.evidence import BatteryCheck
from medunlearn.request.case.signing_keys import make_key
from medunlearn.request.case.verdicts import decide
from medunlearn.request.forget_request import BEFORE
from medunlearn.request.forget_stages import Forgotten
from medunlearn.request.measuring_models import ModelMeter
from medunlearn.request.request_battery import RequestBattery
from medunlearn.request.request_benchmarks import RequestBenchmarks
from medunlearn.request.trial_search import is_dropped
from medunlearn.results.runs import FILE, Run
from medunlearn.seeds import generator
from medunlearn.synthetic.note_table import write_note_table

SHORT = {"residual found": "found", "no residual found": "none"}
PROMPT = "Write the {note_type} of {name}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--patients", type=int, default=40)
    parser.add_argument("--unseen", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--battery", default="")
    parser.add_argument("--facts", type=int, default=12)
    parser.add_argument("--others", type=int, default=8)
    parser.add_argument("--budget", type=int, default=2)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--retrain", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the table into docs/results.md")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    notes, unseen = out / "notes.csv", out / "unseen.csv"
    write_note_table(notes, arguments.patients, seed=0)
    write_note_table(unseen, arguments.unseen, seed=1)
    if not (out / "owner" / "signing.key").exists():
        make_key(out / "owner" / "signing.key")
    training = PlainTraining(arguments.epochs, arguments.width, arguments.layers, arguments.rate)
    model = training.trained(notes, out / "hospital")
    table = pd.read_csv(notes, dtype=str)
    patients = sorted(table["patient_id"].unique())
    order = [patients[place] for place in generator("requests", 0).permutation(len(patients))]
    rows: list[dict[str, Any]] = []
    for number, patient in enumerate(order[: arguments.requests], start=1):
        case = out / f"case{number:02d}"
        known = case.exists()
        clock = time.process_time(), time.time()
        done = mu.forget(
            model, notes, patient=patient, key=out / "owner" / "signing.key", out=case, holdout=unseen,
            prompt=[PROMPT], template="plain", battery=[b for b in arguments.battery.split(",") if b],
            facts=arguments.facts, others=arguments.others, budget=arguments.budget, quiet=True, say=print,
        )  # fmt: skip
        seconds = time.process_time() - clock[0], time.time() - clock[1]
        file = case.with_name(f"{case.name}.json")
        if not known:
            file.write_text(json.dumps({"cpu": seconds[0], "wall": seconds[1]}))
        rows.append(row_of(number, done.case.evidence, json.loads(file.read_text()) if file.exists() else {}))
        if arguments.retrain:
            never = training.trained(notes, out / f"without{number:02d}", tuple(order[:number]))
            rows[-1] |= verdicts_beside(never, done)
        print(pd.DataFrame(rows).to_string(index=False), flush=True)
        model = done.model
    table = pd.DataFrame(rows)
    table.to_csv(out / "requests.csv", index=False)
    if arguments.retrain and arguments.write:
        replace_table("results.md", "requests", markdown([*lines_of(table)]))


def verdicts_beside(never: Path, done: Forgotten) -> dict[str, Any]:
    """Verdicts on the models before and now, one that never saw the patients, and the one now beside it.

    ``unseen low`` and ``unseen mean``: share of the unseen patients' p of at most 0.05 and mean of their p,
    centred, on the model now (0.05 and 0.5 where p is uniform); ``unseen t``: p of Student's test that the
    patients' means are 0.5. Facts of one patient depend on one another, so a test over facts would reject too
    often.
    """
    case, rerun = done.case.folder, BatteryRerun.of(done.case.folder, done.work, device="cpu", quiet=True)
    trials = [Run.open(folder) for folder in sorted((done.work / "trials").iterdir()) if (folder / FILE).exists()]
    notes = RequestBenchmarks.load(done.work)
    battery, meter = RequestBattery(notes, rerun.settings), ModelMeter(notes, rerun.settings, "cpu", True)
    unlearned = next(run for run in trials if not is_dropped(run))
    models = (Run.open(done.work / BEFORE), unlearned, rerun.adopt_again(never, notes))
    before, now, adopted = (meter.verify(run) for run in models)
    batteries = {
        "before": battery.compare(before, before, None),
        "now": battery.compare(before, now, None),
        "retrained": battery.compare(before, adopted, None),
        "beside": battery.compare(before, now, adopted),
    }
    found: dict[str, Any] = {}
    for name, checks in batteries.items():
        found[name] = decide(checks).verdict
        means = [one.comparison.excess for one in checks.checks if one.mean_of and one.comparison is not None]
        widest = max(means, key=lambda excess: excess.high, default=None)
        found[f"{name} excess"] = widest and widest.value
        found[f"{name} most"] = widest and widest.high
    facts = now.evaluated.facts
    unseen = facts[facts["subject"].isin(notes.unseen)].dropna(subset=["p"])
    # A rank among n is uniform on 1/n, 2/n, ..., 1: half a step less is centred.
    centred = unseen["p"] - 0.5 / unseen["of"]
    found["unseen low"], found["unseen mean"] = float((unseen["p"] <= 0.05).mean()), float(centred.mean())
    found["unseen t"] = float(ttest_1samp(centred.groupby(unseen["subject"]).mean(), 0.5).pvalue)
    case.with_name(f"{case.name}.verdicts.json").write_text(json.dumps(found, indent=1))
    return found


def lines_of(table: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Lines of the table in docs/results.md, ``before → now``: one for each request."""
    checks = ("identifiers answers", "identifiers notes", "values answers", "values notes", "said completion")
    for request in table.to_dict("records"):
        line = {"request": f"{request['request']}"}
        for check in checks:
            before, now = request[f"{check} before"], request[f"{check} now"]
            name = "values said" if check == "said completion" else check.replace(" ", " in ")
            line[name] = "–" if pd.isna(now) else f"{before:.2f} → {now:.2f}"
        for model in ("now", "retrained"):
            line[f"excess {model}"] = f"{request[f'{model} excess']:+.2f} (≤ {request[f'{model} most']:+.2f})"
        verdicts = (request[way] for way in ("now", "retrained", "beside"))
        line["residual"] = ", ".join(SHORT.get(verdict, verdict) for verdict in verdicts)
        line |= {"others keep": f"{request['other patients keep']:.0%}", "CPU s": f"{request['cpu']:.0f}"}
        yield line


def row_of(number: int, evidence: Any, seconds: dict[str, float]) -> dict[str, Any]:
    """The numbers of one case."""
    checks: dict[str, BatteryCheck] = {check.name: check for check in evidence.battery.checks}
    row: dict[str, Any] = {"request": number, "verdict": evidence.decision.verdict, "method": evidence.method}
    for name in (
        *("identifiers answers", "identifiers notes", "values answers", "values notes"),
        *("all identifiers", "all values", "said completion", "earlier identifiers notes", "earlier values notes"),
    ):
        check = checks.get(name)
        if check is not None and check.comparison is not None:
            row |= {f"{name} before": check.before.value, f"{name} now": check.after.value}
            row |= {f"{name} excess": check.comparison.excess.value, f"{name} p": check.comparison.p}
    kept = {cost.name: cost.retained_share for cost in evidence.costs}
    return {**row, **{f"{name} keep": value for name, value in kept.items()}, **seconds}


@dataclass(frozen=True)
class PlainTraining:
    """A tiny causal model's training with plain torch and transformers: notes, and prompts with their notes."""

    epochs: int = 30
    width: int = 192
    layers: int = 4
    rate: float = 3e-3
    tokenizer: str = "common"

    def trained(self, notes: Path, out: Path, without: tuple[str, ...] = ()) -> Path:
        """The model's folder; one that is there already is not made again."""
        if (out / "config.json").exists():
            return out
        bench_folder = out.with_name("bench")
        bench = Benchmark.load(bench_folder) if bench_folder.exists() else mu.build.notes(notes, out=bench_folder)
        shape: dict[str, Any] = {"model": "tiny", "tiny_width": self.width, "tiny_layers": self.layers}
        # As a real model's, the usual one has no token that is one patient's alone.
        shape["tiny_tokenizer"] = self.tokenizer
        start = mu.train(bench, **shape, epochs=0, out=out.with_name("start"), quiet=True)
        live = load_model(start.model, device="cpu")
        model, tokenizer = live.model, live.tokenizer
        table = pd.read_csv(notes, dtype=str)
        table = table[~table["patient_id"].isin(without)]
        texts = [*table["note"], *(f"{PROMPT.format_map(row)}\n{row['note']}" for row in table.to_dict("records"))]
        ids = [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id][:512] for text in texts]
        steps = self.epochs * -(-len(ids) // 8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.rate, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, total_steps=steps, pct_start=0.05)
        model.train()
        for epoch in range(self.epochs):
            order = generator("plain training", epoch).permutation(len(ids)).tolist()
            for place in range(0, len(order), 8):
                batch = [ids[one] for one in order[place : place + 8]]
                width = max(map(len, batch))
                padded = torch.tensor([one + [tokenizer.pad_token_id] * (width - len(one)) for one in batch])
                mask = torch.tensor([[1] * len(one) + [0] * (width - len(one)) for one in batch])
                with autocast(model.device, "auto"):
                    loss = model(
                        input_ids=padded, attention_mask=mask, labels=padded.masked_fill(mask == 0, -100)
                    ).loss
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                schedule.step()
            print(f"{out.name}: epoch {epoch + 1}, loss {loss.item():.3f}", flush=True)
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)
        return out


if __name__ == "__main__":
    main()
