"""The battery of a case again, on a model as it is now: after a fine-tune, a merge, a quantization.

``case-work/`` holds what it takes: the benchmarks, the model before as it was measured, and ``request.json``. The
model before itself may be gone by then: its numbers are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from medunlearn.cases.case_folder import CaseFolder
from medunlearn.cases.digests import digest_notes
from medunlearn.cases.evidence import Battery, CaseEvidence
from medunlearn.config import AdoptSettings, ForgetSettings, check
from medunlearn.data.deletion_requests import REQUEST
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import InputError
from medunlearn.forgetting.request_battery import ALPHA, NAME, VERSION, RequestBattery, Say
from medunlearn.forgetting.request_benchmarks import RequestBenchmarks
from medunlearn.models.folders import is_adapter
from medunlearn.pipeline.adopt import Adoption, adopt
from medunlearn.results.runs import FILE, Run

REQUEST_FILE = "request.json"
BEFORE, RETRAINED, RERUNS = "before", "retrained", "reruns"
"""Runs in ``case-work/``: the model that went in, the retrained one, and a folder of those tested afterwards."""


def record_request(work: Path, case: CaseFolder, settings: ForgetSettings) -> None:
    """Write the settings of a case's battery down, once the case is there."""
    known = read_json(work / REQUEST_FILE)
    write_json(work / REQUEST_FILE, {**known, "case": case.sha256, "settings": settings.model_dump(mode="json")})


def refuse_other_settings(out: Path, work: Path, settings: ForgetSettings) -> None:
    """Refuse a request whose case was written with other settings, before anything is computed.

    The stages themselves refuse other files, folders and patients, which may have moved or be named otherwise.

    Raises:
        InputError: names the settings.
    """
    file = work / REQUEST_FILE
    known = read_json(file).get("settings", {}) if file.exists() else {}
    given = settings.model_dump(mode="json")
    elsewhere = {"patient", *(name for name, value in settings if isinstance(value, Path))}
    if settings.received is None:
        elsewhere.add("received")  # the day on which the command was given first
    other = [name for name in known.keys() & given.keys() - elsewhere if known[name] != given[name]]
    if other:
        words = ", ".join(f"{name} was {known[name]!r} and is {given[name]!r}" for name in sorted(other))
        raise InputError(
            f"{out} is the case of a request with other settings: {words}. A case is never overwritten. Choose "
            "another --out."
        )


@dataclass(frozen=True)
class BatteryRerun:
    """A :data:`~medunlearn.cases.case_checks.BatteryRunner` of one case.

    Attributes:
        work: ``case-work/`` of the case.
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
        """The battery of a case by its work folder.

        Raises:
            InputError: no work folder, one of another case, one that was changed, or a battery of another version.
        """
        evidence = CaseFolder.open(case)
        return BatteryRerun(work, _settings(work, evidence), device, quiet, say)

    def __call__(self, evidence: CaseEvidence, model: Path) -> Battery:
        """The battery on a model; a broken one has no checks, but problems.

        Raises:
            ModelError: parts of the model are missing.
        """
        with lock_folder(self.work, "verify"):
            run = self.adopted(model)
            if run.info.problems:
                return Battery(name=NAME, version=VERSION, alpha=ALPHA, problems=run.info.problems)
            self.say(f"verify: battery {evidence.battery.name} on {model}")
            return self.battery.on(run)

    @cached_property
    def _benchmarks(self) -> RequestBenchmarks:
        return RequestBenchmarks.load(self.work)

    @cached_property
    def battery(self) -> RequestBattery:
        """The case's battery, beside the model before."""
        retrained = None if self.settings.retrained is None else Run.open(self.work / RETRAINED)
        target = Run.open(self.work / BEFORE)
        return RequestBattery(self._benchmarks, self.settings, target, retrained, self.device, self.quiet, self.say)

    def adopted(self, model: Path) -> Run:
        """The model as a run that is asked as the model before was."""
        values: dict[str, Any] = {
            "context": "closed_book",
            "seed": self.settings.seed,
            "template": Run.open(self.work / BEFORE).rendering().template,
            "allow_broken": True,
        }
        if self.settings.base is not None and is_adapter(model):
            values["base"] = self.settings.base
        settings, benchmark = check(AdoptSettings, values), self._benchmarks.benchmark
        how: dict[str, Any] = {"device": self.device, "quiet": self.quiet}
        if (model / FILE).exists():
            adoption = Adoption.of_run(Run.open(model), benchmark, settings)
            return adoption.run(self.work / RERUNS / adoption.folder_name, **how)
        return adopt(model, benchmark, settings, beside=self.work / RERUNS, **how)


def _settings(work: Path, case: CaseFolder) -> ForgetSettings:
    """Settings of the case's battery.

    Raises:
        InputError: the folder is not that of the case.
    """
    if not (work / REQUEST_FILE).exists():
        raise InputError(f"{work} holds no {REQUEST_FILE}. Name the folder that `forget` wrote beside the case.")
    known: Mapping[str, Any] = read_json(work / REQUEST_FILE)
    if "case" not in known:
        raise InputError(f"The request in {work} is not complete. Give its `medunlearn forget` again.")
    evidence = case.evidence
    if known["case"] != case.sha256:
        raise InputError(f"{work} is the work of another case than {case.folder}. Name that of this case.")
    benchmark = RequestBenchmarks.load(work).benchmark
    forget = frozenset(record.record_id for record in benchmark.records_of(benchmark.split(REQUEST), "forget"))
    notes = digest_notes(benchmark, forget)
    if (notes.sha256, notes.forget_records) != (evidence.notes.sha256, evidence.notes.forget_records):
        raise InputError(f"The notes in {work} are not those of {case.folder} any more. Name a copy of its work.")
    if (evidence.battery.name, evidence.battery.version) != (NAME, VERSION):
        raise InputError(
            f"{case.folder} was verified with battery {evidence.battery.name}, version "
            f"{evidence.battery.version}; this medunlearn has {NAME}, version {VERSION}."
        )
    settings = check(ForgetSettings, known["settings"])
    margins = {check.comparison.margin for check in evidence.battery.checks if check.comparison is not None}
    if not margins <= {settings.margin}:
        raise InputError(f"{work / REQUEST_FILE} has another margin than the case. Name a copy of its work.")
    return settings
