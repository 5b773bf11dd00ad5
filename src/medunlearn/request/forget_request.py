"""A deletion request with its resumable stages in ``case-work/``, and a rerun of its battery on the current model.

``case-work/`` contains the battery's inputs: the benchmarks, the measurements of the model before, and
``request.json``. The model before may be deleted: its measurements are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from medunlearn.config import AdoptSettings, ForgetSettings, check
from medunlearn.data.deletion_requests import REQUEST, forget_records, read_subjects
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import InputError
from medunlearn.models.folders import is_adapter
from medunlearn.registry import refuse_unnamed
from medunlearn.request.case.case_folder import CaseFolder
from medunlearn.request.case.digests import digest_notes
from medunlearn.request.case.evidence import Battery, CaseEvidence
from medunlearn.request.case.ledger import RequestLedger, read_ledger
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.case.signing_keys import check_model_key
from medunlearn.request.exact_deletion import ExactPlan, plan_request, trained_run
from medunlearn.request.measuring_models import AUTOMATIC
from medunlearn.request.request_battery import ALPHA, NAME, VERSION, RequestBattery, Say
from medunlearn.request.request_benchmarks import RequestBenchmarks, build_benchmarks
from medunlearn.request.trial_search import AUTO, ForgetCandidate, TrialSearch
from medunlearn.results.runs import FILE, Run
from medunlearn.study.adopt import adopt
from medunlearn.study.estimate.blueprint import blueprint_of
from medunlearn.study.presets import unlearning_method

REQUEST_FILE = "request.json"
BEFORE, RETRAINED, RERUNS = "before", "retrained", "reruns"
"""Runs in ``case-work/``: the model that went in, the retrained one, and a folder of those tested afterwards."""
EXACT = "exact"
"""Method: train again without the patients."""


def beside(out: Path, name: str) -> Path:
    """The folder ``case-work`` of ``case``."""
    whole = out.absolute()
    return whole.with_name(f"{whole.name}-{name}")


def run_or_model(model: str | Path) -> Run | str | Path:
    """The run in a folder; or the folder or hub id, if it is a model without a run."""
    return Run.open(model) if (Path(model) / FILE).exists() else model


@dataclass
class ForgetRequest:
    """A deletion request: its model, notes, ledger and runs, each computed or read on first use."""

    model: str
    notes: Path
    settings: ForgetSettings
    out: Path
    device: str
    quiet: bool
    say: Say

    @property
    def work(self) -> Path:
        return beside(self.out, "work")

    @property
    def model_out(self) -> Path:
        """Folder of the resulting model."""
        return beside(self.out, "model")

    @cached_property
    def secret(self) -> OwnerSecret:
        """The owner's secret. Raises InputError if it is missing or invalid."""
        return OwnerSecret.beside(self.settings.key)

    @cached_property
    def received(self) -> date:
        """Date of the request: from the settings, else the day of the first command."""
        file = self.work / REQUEST_FILE
        record = read_json(file) if file.exists() else {}
        if self.settings.received is None and record:
            return date.fromisoformat(record["received"])
        day = self.settings.received or datetime.now(UTC).date()
        write_json(file, {**record, "received": day.isoformat()})
        return day

    def record(self, case: CaseFolder) -> None:
        """Record the settings of a case's battery, once the case is written."""
        file, settings = self.work / REQUEST_FILE, self.settings.model_dump(mode="json")
        write_json(file, {**read_json(file), "case": case.sha256, "settings": settings})

    def refuse_other_settings(self) -> None:
        """Refuse a request whose case was written with other settings, before anything is computed.

        Files, folders and patients may have moved or been renamed; the stages themselves check those.

        Raises:
            InputError: names the settings.
        """
        file, settings = self.work / REQUEST_FILE, self.settings
        before = read_json(file).get("settings", {}) if file.exists() else {}
        now = settings.model_dump(mode="json")
        movable = {"patient", *(name for name, value in settings if isinstance(value, Path))}
        if settings.received is None:
            movable.add("received")  # the day on which the command was given first
        other = [name for name in before.keys() & now.keys() - movable if before[name] != now[name]]
        if other:
            words = ", ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in sorted(other))
            raise InputError(
                f"{self.out} is the case of a request with other settings: {words}. A case is never overwritten. "
                "Choose another --out."
            )

    @cached_property
    def source(self) -> Run | str | Path:
        """The model: a run, a folder, or a hub id."""
        return run_or_model(self.model)

    @property
    def model_in(self) -> Path:
        """Folder of the input model, on this machine."""
        return Path(self.model) if Path(self.model).is_dir() else self.target.model

    @cached_property
    def ledger(self) -> RequestLedger:
        """Ledger of the input model; empty for a hub model."""
        return read_ledger(Path(self.model)) if Path(self.model).is_dir() else RequestLedger()

    @cached_property
    def benchmarks(self) -> RequestBenchmarks:
        self.say("notes: read them and make probes")
        return build_benchmarks(self.notes, self.settings, self.ledger, self.secret, self.work, quiet=self.quiet)

    def adopted(self, model: Run | str | Path, name: str, **values: Any) -> Run:
        """A model as a run that can be asked about the request's patients."""
        if self.settings.template is not None:
            values["template"] = self.settings.template
        elif isinstance(self.source, Run):
            values["template"] = self.source.rendering().template
        settings = check(AdoptSettings, {"context": "closed_book", "seed": self.settings.seed, **values})
        benchmark, out = self.benchmarks.benchmark, self.work / name
        return adopt(model, benchmark, settings, out, device=self.device, quiet=self.quiet)

    @cached_property
    def target(self) -> Run:
        """The input model as a run."""
        self.say(f"adopt: {self.model}")
        return self.adopted(self.source, BEFORE, **({"base": self.settings.base} if self.settings.base else {}))

    @cached_property
    def retrained(self) -> Run | None:
        """The model that never saw the patients, if given."""
        folder = self.settings.retrained
        return None if folder is None else self.adopted_as_retrained(run_or_model(folder), RETRAINED)

    def adopted_as_retrained(self, model: Run | str | Path, name: str) -> Run:
        """Like :meth:`adopted`, for a model that never saw the patients and may do poorly on their texts."""
        return self.adopted(model, name, role="retrained", without=REQUEST, allow_broken=True)

    @cached_property
    def battery(self) -> RequestBattery:
        return RequestBattery(
            self.benchmarks, self.settings, self.target, self.retrained, self.device, self.quiet, self.say
        )

    @property
    def candidates(self) -> Sequence[ForgetCandidate]:
        """Candidate settings to try at most, in order."""
        settings = self.settings
        return AUTO[: settings.budget] if settings.method == AUTOMATIC else (ForgetCandidate(settings.method, 0),)

    def check_settings(self) -> None:
        """Refuse what cannot work before a model's weights are read.

        Raises:
            ConfigError: every mistake in settings of `unlearn`.
            UnknownNameError: no such method.
            InputError: an exact deletion of a model without a training run; no usable key to sign the model.
            ModelError: no retrained model in the folder given for it.
        """
        if self.settings.model_key is not None:
            check_model_key(self.settings.model_key)
        if self.settings.retrained is not None:
            retrained = run_or_model(self.settings.retrained)
            blueprint_of(str(retrained.model if isinstance(retrained, Run) else retrained))
        if self.settings.method == EXACT:
            trained_run(Path(self.model))
            return
        for candidate in self.candidates:
            unlearning_method(candidate.usual_settings(self.settings.unlearn, self.settings.seed))

    @property
    def search(self) -> TrialSearch:
        """The trials; skipped methods do not count against the budget."""
        candidates = AUTO if self.settings.method == AUTOMATIC else self.candidates
        return TrialSearch(self.battery, candidates, self.work)

    @cached_property
    def exact_plan(self) -> ExactPlan:
        """The plan of exact deletion. Raises InputError like :func:`plan_request`."""
        patients, base_unseen = read_subjects(self.settings.patient), self.settings.base_unseen
        return plan_request(Path(self.model), patients, base_unseen=base_unseen, quiet=self.quiet)


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
            run = self.adopted(model)
            if run.info.problems:
                return Battery(name=NAME, version=VERSION, alpha=ALPHA, problems=run.info.problems)
            self.say(f"verify: battery {evidence.battery.name} on {model}")
            return self.battery.on(run)

    @cached_property
    def battery(self) -> RequestBattery:
        """The case's battery, with the measurements of the model before."""
        retrained = None if self.settings.retrained is None else Run.open(self.work / RETRAINED)
        benchmarks, target = RequestBenchmarks.load(self.work), Run.open(self.work / BEFORE)
        return RequestBattery(benchmarks, self.settings, target, retrained, self.device, self.quiet, self.say)

    def adopted(self, model: Path) -> Run:
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
        return adopt(run_or_model(model), self.battery.benchmarks.benchmark, check(AdoptSettings, values), **how)


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
