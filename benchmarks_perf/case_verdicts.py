"""Verdicts on control models of which it is known what should come out, and rates of verdicts in simulations.

    python benchmarks_perf/case_verdicts.py OUT [--size small middle] [--patients 20] [--only NAME ...] [--draws 9]

Chat models of an invented hospital (chat_hospital.py) are measured as the model *after* a request, without any
unlearning: by themselves beside the model before, with notes of real unseen patients and with invented ones. Each
request is carried out on the notes of its own patients and of those who never ask, so that one model without all
askers is the retrained one of every request. ``--only`` names controls, ``--requests`` requests (``1-01`` is the
first patient alone, ``5`` the first five, ``twin`` a twin). Everything resumes; ``--again`` decides anew from
the models' stored measurements, ``--read`` only makes the tables, ``--write`` puts them into docs/results.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from chat_hospital import IDENTIFIERS, PROMPT, ChatTraining, write_hospital
from control_models import CONTROLS, TWIN, ControlCase, ControlModels
from page_tables import markdown, replace_table
from verdict_simulations import SHORT, simulated

from medunlearn.config import ForgetSettings, check
from medunlearn.request.battery_rerun import BatteryRerun
from medunlearn.request.case.signing_keys import make_key
from medunlearn.request.case.verdicts import RULES, decide
from medunlearn.request.forget_request import ForgetRequest
from medunlearn.request.measuring_models import MeasuredModel, ModelMeter
from medunlearn.request.request_battery import RequestBattery
from medunlearn.request.request_benchmarks import RequestBenchmarks

SIZES: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"width": 32, "layers": 2, "epochs": 1, "rate": 5e-3},
    "small": {"width": 96, "layers": 2, "epochs": 24, "rate": 5e-3},
    "middle": {"width": 192, "layers": 4, "epochs": 22, "rate": 4e-3},
}
BASELINES = ("real", "invented")


@dataclass(frozen=True)
class VerdictTable:
    """Cells of one size: request x baseline x control, each a file in the folder.

    Attributes:
        options: settings of `forget`.
    """

    out: Path
    size: str
    models: ControlModels
    unseen: Path
    options: Mapping[str, Any]

    @staticmethod
    def of(out: Path, size: str, *, askers: int, retained: int, unseen: int, **options: Any) -> VerdictTable:
        out.mkdir(parents=True, exist_ok=True)
        notes = write_hospital(out / "notes.csv", askers + retained, twins=True)
        never = write_hospital(out / "unseen.csv", unseen, seed=1)
        if not (out / "owner" / "signing.key").exists():
            make_key(out / "owner" / "signing.key")
        training = ChatTraining(pd.read_csv(notes, dtype=str), **SIZES[size])
        return VerdictTable(out / size, size, ControlModels(out / size, training, askers), never, options)

    def run(self, request: str, baseline: str, controls: Collection[str], *, again: bool = False) -> None:
        """Make the cells of a request that are missing, with a line for each."""
        own = {name: control for name, control in CONTROLS.items() if name in controls}
        own = {name: control for name, control in own.items() if control.is_for(request, name)}
        missing = [name for name in own if again or not self._file(request, baseline, name).exists()]
        if not missing:
            return
        meter = RequestMeter.open(self, request, baseline)
        for name in missing:
            cell = meter.cell(name, own[name], request)
            cell |= {"size": self.size, "request": request, "baseline": baseline, "control": name}
            file = self._file(request, baseline, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(cell, indent=1))
            print(line_of(cell), flush=True)

    def cells(self) -> list[dict[str, Any]]:
        return [json.loads(file.read_text()) for file in sorted((self.out / "cells").glob("*.json"))]

    def _file(self, request: str, baseline: str, control: str) -> Path:
        return self.out / "cells" / f"{request} {baseline} {control}.json"


@dataclass(frozen=True)
class RequestMeter:
    """A request's patients and the model before, against which models are measured as the one after."""

    models: ControlModels
    rerun: BatteryRerun
    benchmarks: RequestBenchmarks
    meter: ModelMeter
    before: MeasuredModel

    @staticmethod
    def open(table: VerdictTable, request: str, baseline: str) -> RequestMeter:
        models, folder = table.models, table.out / f"{request}-{baseline}"
        folder.mkdir(parents=True, exist_ok=True)
        notes, patients = models.training.table, models.patients_of(request)
        stay = [*patients, *models.patients[models.askers :]]
        notes[notes["patient_id"].isin(stay)].to_csv(folder / "notes.csv", index=False)
        settings = {
            "patient": ",".join(patients),
            "key": table.out.parent / "owner" / "signing.key",
            "holdout": table.unseen if baseline == "real" else None,
            "prompt": [PROMPT],
            "build": {"identifier_columns": list(IDENTIFIERS)},
            **table.options,
        }
        asked = ForgetRequest.open(
            models.all(),
            folder / "notes.csv",
            check(ForgetSettings, settings),
            folder / "case",
            device="cpu",
            quiet=True,
        )
        asked.receive()
        benchmarks = asked.read_notes()
        target, meter = asked.adopt_target(benchmarks), asked.meter(benchmarks)
        rerun = BatteryRerun(asked.work, asked.settings, "cpu", True, print)
        with timed(folder / "before.seconds"):
            before = meter.verify(target)
        return RequestMeter(models, rerun, benchmarks, meter, before)

    def cell(self, name: str, control: ControlCase, request: str) -> dict[str, Any]:
        """A control's verdict and numbers."""
        seconds = self.rerun.work.parent / f"{name}.seconds"
        after, before = self.before, self.before
        if control.model is not None:
            model = control.model(self.models, request)
            with timed(seconds):
                after = self.meter.verify(self.rerun.adopt_again(model, self.benchmarks))
        if name == "never seen":
            before = after
        if name == "output filtered":
            after = without_text(after, self.benchmarks.patients)
        battery = RequestBattery(self.benchmarks, self.rerun.settings)
        checks, costs = battery.compare(before, after, None), battery.costs(before, after, None)
        pseudonyms = [self.benchmarks.pseudonyms[who] for who in self.benchmarks.patients]
        decision = decide(checks, costs, models=("before", "after"), patients=pseudonyms)
        files = (self.rerun.work.parent / "before.seconds", seconds)
        return {
            "verdict": decision.verdict,
            "others": decision.others,
            "right": control.is_right(decision.verdict, decision.others),
            "patients": [
                one.verdict for one in sorted(decision.patients, key=lambda one: pseudonyms.index(one.patient))
            ],
            "reasons": decision.reasons,
            "costs": {cost.name: cost.retained_share for cost in costs},
            "checks": [number for check in checks.checks if (number := numbers_of(check))],
            "problems": checks.problems,
            "cpu": [float(file.read_text()) if file.exists() else 0.0 for file in files],
        }


@contextmanager
def timed(file: Path) -> Iterator[None]:
    """CPU seconds of a block, in a file; a block that is repeated only reads what it stored."""
    start = time.process_time()
    yield
    if not file.exists():
        file.write_text(f"{time.process_time() - start:.1f}")


def without_text(measured: MeasuredModel, patients: Sequence[str]) -> MeasuredModel:
    """The same model behind a filter that lets no value of the patients through.

    A filter is no folder of weights: what reads generated text sees nothing, what reads probabilities sees all.
    """
    standings = measured.standings
    values = {
        name: {who: 0.0 if name.startswith("said") and who in patients else value for who, value in of_way.items()}
        for name, of_way in standings.values.items()
    }
    return replace(measured, standings=replace(standings, values=values))


def numbers_of(check: Any) -> dict[str, Any]:
    """A check's numbers, as far as there are some."""
    compared = check.comparison
    own = {"check": check.name, "before": check.before.value, "after": check.after.value, "n": check.probes.n}
    if compared is not None:
        own |= {"excess": compared.excess.value, "most": compared.excess.high, "p": compared.p}
    tests = [(test.excess, test.p, test.p_before) for test in check.patients]
    return {**own, "unseen": check.unseen and check.unseen.value, "patients": tests}


def line_of(cell: Mapping[str, Any]) -> str:
    right = {True: "right", False: "WRONG", None: "undecided"}[cell["right"]]
    what = f"{cell['size']}, request {cell['request']}, {cell['baseline']} strangers, {cell['control']}"
    return f"{what}: {cell['verdict']}, others {cell['others']}: {right} ({sum(cell['cpu']):.0f} s)"


def control_rows(cells: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """Lines of the table: a control of a size and a number of patients, beside each baseline."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for cell in cells:
        patients = cell["request"].partition("-")[0]
        groups.setdefault((cell["size"], cell["control"], patients), []).append(cell)
    order = [*SIZES], [*CONTROLS]
    for key in sorted(groups, key=lambda key: (order[0].index(key[0]), order[1].index(key[1]), key[2].zfill(3))):
        own = groups[key]
        line = {"model": key[0], "control": key[1], "patients": key[2], "should be": CONTROLS[key[1]].goal}
        for baseline in BASELINES:
            line[f"{baseline} strangers"] = outcome([cell for cell in own if cell["baseline"] == baseline])
        wrong = sum(cell["right"] is False for cell in own)
        line["wrong"] = f"{wrong} of {len(own)}"
        line["CPU s"] = f"{sum(sum(cell['cpu']) for cell in own) / len(own):.0f}"
        yield line


def outcome(cells: Sequence[Mapping[str, Any]]) -> str:
    """``none, kept``; of several requests ``17 none, 3 inconclusive; 20 kept``."""
    verdicts = Counter(SHORT.get(cell["verdict"], cell["verdict"]) for cell in cells)
    others = Counter("lost" if cell["others"] == "not kept" else cell["others"] for cell in cells)
    if len(cells) == 1:
        return ", ".join([*verdicts, *others])
    parts = [", ".join(f"{n} {word}" for word, n in own.most_common()) for own in (verdicts, others)]
    return "; ".join(parts) if cells else "–"


def usual_requests(askers: int) -> list[str]:
    """The first patient alone, several patients, a twin, then each patient alone."""
    several = [f"{number}" for number in (5, 20, 2, 12) if number <= askers]
    return ["1-01", *several, TWIN, *(f"1-{place:02d}" for place in range(2, askers + 1))]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", nargs="+", choices=[*SIZES], default=["small", "middle"])
    parser.add_argument("--patients", type=int, default=20, help="patients who may ask")
    parser.add_argument("--others", type=int, default=10, help="patients who do not, the twins among them")
    parser.add_argument("--unseen", type=int, default=12)
    parser.add_argument("--facts", type=int, default=12)
    parser.add_argument("--battery", default="none", help="attacks of the battery, with commas")
    parser.add_argument("--only", nargs="+", choices=[*CONTROLS, "simulations"], default=[*CONTROLS, "simulations"])
    parser.add_argument("--requests", nargs="+")
    parser.add_argument("--baselines", nargs="+", choices=BASELINES, default=BASELINES)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--again", action="store_true", help="decide anew from stored measurements")
    parser.add_argument("--read", action="store_true", help="only make the tables of what is there")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/results.md")
    own = parser.parse_args(words)
    counts = {"askers": own.patients, "retained": own.others, "unseen": own.unseen}
    options = {"facts": own.facts, "others": own.unseen, "battery": own.battery}
    tables = [VerdictTable.of(own.out, size, **counts, **options) for size in own.size]
    asked = own.requests or usual_requests(own.patients)
    for table in [] if own.read else tables:
        for request in asked:
            for baseline in own.baselines:
                table.run(request, baseline, own.only, again=own.again)
    made = {f"control verdicts {RULES}": [*control_rows([cell for table in tables for cell in table.cells()])]}
    if "simulations" in own.only:
        made["verdict rates"] = [
            *simulated(own.out / "simulations.json", own.draws, read=own.read, again=own.again)
        ]
    for name, rows in made.items():
        if rows:
            print(markdown(rows))
        if rows and own.write:
            replace_table("results.md", name, markdown(rows))


if __name__ == "__main__":
    main()
