"""A rerun of a case's battery on the current model, from its work folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medunlearn.config import AdoptSettings, ForgetSettings, check
from medunlearn.data.deletion_requests import forget_records
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.storage import read_json
from medunlearn.errors import InputError
from medunlearn.models.folders import is_adapter
from medunlearn.registry import refuse_unnamed
from medunlearn.request.case.case_folder import CaseFolder
from medunlearn.request.case.digests import digest_notes
from medunlearn.request.case.evidence import Battery, CaseEvidence
from medunlearn.request.forget_request import BEFORE, REQUEST_FILE, RERUNS, RETRAINED, Say, run_or_model
from medunlearn.request.measuring_models import ModelMeter, template_in_doubt
from medunlearn.request.request_battery import ALPHA, NAME, VERSION, RequestBattery
from medunlearn.request.request_benchmarks import RequestBenchmarks
from medunlearn.results.runs import Run
from medunlearn.study.adopt import adopt


@dataclass(frozen=True)
class BatteryRerun:
    """Rerun of the battery of one case, a :data:`~medunlearn.request.case.case_checks.BatteryRunner`.

    Attributes:
        work: the case's folder ``case-work/``.
    """

    work: Path
    settings: ForgetSettings
    device: str
    quiet: bool
    say: Say

    @staticmethod
    def of(
        case: Path, work: Path, *, device: str = "auto", quiet: bool = False, say: Say = lambda line: None
    ) -> BatteryRerun:
        """The battery rerun for a case and its work folder.

        Raises:
            InputError: no work folder, one of another case, one that was changed, or a battery of another version.
        """
        evidence = CaseFolder.open(case)
        return BatteryRerun(work, _settings(work, evidence), device, quiet, say)

    def __call__(self, evidence: CaseEvidence, model: Path) -> Battery:
        """The battery's results on a model; a broken one has problems instead of checks.

        Raises:
            ModelError: parts of the model are missing.
        """
        with lock_folder(self.work, "verify"):
            benchmarks = RequestBenchmarks.load(self.work)
            run = self.adopt_again(model, benchmarks)
            if run.info.problems:
                return Battery(name=NAME, version=VERSION, alpha=ALPHA, problems=run.info.problems)
            self.say(f"verify: battery {evidence.battery.name} on {model}")
            old = Run.open(self.work / BEFORE)
            meter = ModelMeter(benchmarks, self.settings, self.device, self.quiet, template_in_doubt(old))
            if not meter.is_measured_in_second(old):  # by an older version: the model before may be gone
                meter = replace(meter, second_template=None)
            retrained = None if self.settings.retrained is None else Run.open(self.work / RETRAINED)
            meter = replace(meter, retrained=retrained, before=old)
            beside = None if retrained is None else meter.verify(retrained)
            battery = RequestBattery(benchmarks, self.settings)
            before, after = meter.verify(old), meter.verify(run)
            after = battery.with_earlier(after, meter, old if meter.is_measured_on_earlier(old) else None)
            return battery.compare(before, after, beside)

    def adopt_again(self, model: Path, benchmarks: RequestBenchmarks) -> Run:
        """The model as a run with the prompt settings of the model before."""
        values: dict[str, Any] = {
            "context": "closed_book",
            "seed": self.settings.seed,
            "template": Run.open(self.work / BEFORE).rendering().template,
            "allow_broken": True,
        }
        if self.settings.base is not None and is_adapter(model):
            values["base"] = self.settings.base
        how: dict[str, Any] = {"beside": self.work / RERUNS, "device": self.device, "quiet": self.quiet}
        return adopt(run_or_model(model), benchmarks.benchmark, check(AdoptSettings, values), **how)


def _settings(work: Path, case: CaseFolder) -> ForgetSettings:
    """Settings of the case's battery.

    Raises:
        InputError: the folder is not that of the case.
    """
    if not (work / REQUEST_FILE).exists():
        raise InputError(f"{work} contains no {REQUEST_FILE}. Name the folder that `forget` wrote beside the case.")
    record: Mapping[str, Any] = read_json(work / REQUEST_FILE)
    if "case" not in record:
        raise InputError(f"The request in {work} is not complete. Run its `medunlearn forget` again.")
    evidence = case.evidence
    if record["case"] != case.sha256:
        raise InputError(f"{work} is the work of another case than {case.folder}. Name that of this case.")
    benchmark = RequestBenchmarks.load(work).benchmark
    notes = digest_notes(benchmark, forget_records(benchmark))
    if (notes.sha256, notes.forget_records) != (evidence.notes.sha256, evidence.notes.forget_records):
        raise InputError(
            f"The notes in {work} are no longer those of {case.folder}. Name an unchanged copy of its work folder."
        )
    if (evidence.battery.name, evidence.battery.version) != (NAME, VERSION):
        raise InputError(
            f"{case.folder} was verified with battery {evidence.battery.name}, version "
            f"{evidence.battery.version}; this medunlearn has {NAME}, version {VERSION}."
        )
    settings = check(ForgetSettings, record["settings"])
    for name in settings.battery:
        refuse_unnamed("attack", name)
    margins = {check.comparison.margin for check in evidence.battery.checks if check.comparison is not None}
    if not margins <= {settings.margin}:
        raise InputError(
            f"{work / REQUEST_FILE} has another margin than the case. Name an unchanged copy of its work folder."
        )
    return settings
