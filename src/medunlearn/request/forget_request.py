"""A deletion request: its model, notes, settings and folders, and the model adopted as a run.

``case-work/`` contains the battery's inputs: the benchmarks, the measurements of the model before, and
``request.json``. The model before may be deleted: its measurements are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from medunlearn.audit.identifiers.same_person import read_same_person
from medunlearn.config import AdoptSettings, ForgetSettings, check
from medunlearn.config.adoption import BETTER
from medunlearn.config.forgetting import ALL, AUTOMATIC
from medunlearn.data.deletion_requests import REQUEST, read_subjects
from medunlearn.data.storage import read_json, write_json
from medunlearn.errors import InputError
from medunlearn.models.shape import shape_of
from medunlearn.request.case.case_folder import CaseFolder, is_case
from medunlearn.request.case.ledger import RequestLedger, read_ledger
from medunlearn.request.case.ledger_checks import refuse_lost_requests
from medunlearn.request.case.pseudonyms import OwnerSecret
from medunlearn.request.case.signing_keys import check_model_key
from medunlearn.request.exact_deletion import ExactPlan, plan_request, trained_run
from medunlearn.request.measuring_models import ModelMeter, template_in_doubt
from medunlearn.request.request_benchmarks import RequestBenchmarks, build_benchmarks
from medunlearn.request.trial_search import AUTO, ForgetCandidate
from medunlearn.request.verifying_attacks import with_battery
from medunlearn.results.runs import FILE, Run, is_complete
from medunlearn.study.presets import unlearning_method

Say = Callable[[str], None]
REQUEST_FILE = "request.json"
BEFORE, RETRAINED, AFTER, RERUNS = "before", "retrained", "after", "reruns"
"""Runs in ``case-work/``: the model that went in, the retrained one, what an exact deletion made, and a folder of
those tested afterwards.
"""
EXACT = "exact"
"""Method: train again without the patients."""


def beside(out: Path, name: str) -> Path:
    """The folder ``case-work`` of ``case``."""
    whole = out.absolute()
    return whole.with_name(f"{whole.name}-{name}")


def run_or_model(model: str | Path) -> Run | str | Path:
    """The run in a folder; or the folder or hub id, if it is a model without a run."""
    return Run.open(model) if (Path(model) / FILE).exists() else model


@dataclass(frozen=True)
class ForgetRequest:
    """A deletion request that may be carried out: everything that it starts from.

    Attributes:
        secret: the owner's secret, for pseudonyms.
        ledger: ledger of the input model; empty for a hub model.
    """

    model: str
    notes: Path
    settings: ForgetSettings
    out: Path
    secret: OwnerSecret
    ledger: RequestLedger
    device: str = "auto"
    quiet: bool = False
    say: Say = lambda line: None

    @staticmethod
    def open(
        model: str | Path, notes: Path, settings: ForgetSettings, out: Path, *, planned: bool = False, **how: Any
    ) -> ForgetRequest:
        """The request, after refusing what cannot work before a model's weights are read.

        Args:
            planned: only for a plan, which may be of other settings than a case that is there.

        Raises:
            ConfigError: every mistake in settings of `unlearn`.
            UnknownNameError: no such method, or no such attack.
            InputError: no owner's secret; a ledger that was removed, shortened or rewritten; a case with other
                settings; an exact deletion of a model without a training run; no usable key to sign the model.
            ModelError: no retrained model in the folder given for it.
        """
        settings = with_battery(settings)  # its names, as the case records them
        secret = OwnerSecret.beside(settings.key)
        ledger = RequestLedger()
        if Path(model).is_dir():
            ledger = read_ledger(Path(model))
            refuse_lost_requests(ledger, Path(model), [out.absolute().parent])
        request = ForgetRequest(str(model), Path(notes), settings, out, secret, ledger, **how)
        if (recorded := request._settings_of_case()) and "earlier" not in recorded:
            # As the version that wrote the case did.
            request = replace(request, settings=settings.model_copy(update={"earlier": ALL}))
        if is_case(out) and not planned:
            request._refuse_other_settings()
        request._check_settings()
        return request

    @property
    def work(self) -> Path:
        return beside(self.out, "work")

    @property
    def model_out(self) -> Path:
        """Folder of the resulting model."""
        return beside(self.out, "model")

    @property
    def candidates(self) -> Sequence[ForgetCandidate]:
        """Candidate settings, in order; methods without alternative answers do not count against the budget."""
        automatic = self.settings.method == AUTOMATIC
        return AUTO if automatic else (ForgetCandidate(self.settings.method, 0),)

    def trials(self) -> Iterator[tuple[int, ForgetCandidate]]:
        """Places and candidates that may be tried: of each method as many as the budget."""
        numbers = Counter[str]()
        for place, candidate in enumerate(self.candidates):
            if numbers[candidate.method] < self.settings.budget:
                yield place, candidate
            numbers[candidate.method] += 1

    def source(self) -> Run | str | Path:
        """The model: a run, a folder, or a hub id."""
        return run_or_model(self.model)

    def model_in(self, target: Run) -> Path:
        """Folder of the input model, on this machine."""
        return Path(self.model) if Path(self.model).is_dir() else target.model

    def receive(self) -> date:
        """Record the date of the request: from the settings, else the day of the first command."""
        file = self.work / REQUEST_FILE
        record = read_json(file) if file.exists() else {}
        if self.settings.received is None and record:
            return date.fromisoformat(record["received"])
        day = self.settings.received or datetime.now(UTC).date()
        write_json(file, {**record, "received": day.isoformat()})
        self.say(f"request of {day.isoformat()}")
        return day

    def record(self, case: CaseFolder) -> None:
        """Record the settings of a case's battery, once the case is written."""
        file, settings = self.work / REQUEST_FILE, self.settings.model_dump(mode="json")
        write_json(file, {**read_json(file), "case": case.sha256, "settings": settings})

    def read_notes(self) -> RequestBenchmarks:
        """The benchmarks of the notes, built or read again."""
        self.say("notes: read them and make probes")
        return build_benchmarks(self.notes, self.settings, self.ledger, self.secret, self.work, quiet=self.quiet)

    def plan_exactly(self) -> ExactPlan:
        """The plan of exact deletion. Raises InputError like :func:`plan_request`."""
        settings = self.settings
        patients, persons = read_subjects(settings.patient), read_same_person(settings.same_person)
        return plan_request(Path(self.model), patients, persons, base_unseen=settings.base_unseen, quiet=self.quiet)

    def adopt_target(self, benchmarks: RequestBenchmarks) -> Run:
        """The input model as a run."""
        self.say(f"adopt: {self.model}")
        base, source = {"base": self.settings.base} if self.settings.base else {}, self.source()
        usual = source.rendering().template if isinstance(source, Run) else BETTER
        return self._adopt(source, benchmarks, BEFORE, template=self.settings.template or usual, **base)

    def adopt_retrained(self, benchmarks: RequestBenchmarks, target: Run) -> Run:
        """The model given as retrained, as a run."""
        assert self.settings.retrained is not None
        return self.adopt_without(run_or_model(self.settings.retrained), benchmarks, target, RETRAINED)

    def adopt_without(self, model: Run | str | Path, benchmarks: RequestBenchmarks, target: Run, name: str) -> Run:
        """A model as a run that never saw the patients, asked as the target is; it may do poorly on their texts."""
        values: dict[str, Any] = {"role": "retrained", "without": REQUEST, "allow_broken": True}
        return self._adopt(model, benchmarks, name, template=target.rendering().template, **values)

    def meter(self, benchmarks: RequestBenchmarks) -> ModelMeter:
        """Meter of models on the request's patients."""
        before = Run.open(self.work / BEFORE) if is_complete(self.work / BEFORE) else None
        second = None if before is None else template_in_doubt(before)
        beside = self.work / RETRAINED
        has_retrained = self.settings.retrained is not None and is_complete(beside)
        retrained = Run.open(beside) if has_retrained else None
        meter = ModelMeter(benchmarks, self.settings, self.device, self.quiet, second, retrained, before)
        if before is not None and second and is_case(self.out) and not meter.is_measured_in_second(before):
            return replace(meter, second_template=None)  # the case of an older version
        return meter

    def _adopt(self, model: Run | str | Path, benchmarks: RequestBenchmarks, name: str, **values: Any) -> Run:
        from medunlearn.study.adopt import adopt

        own: dict[str, Any] = {"context": "closed_book", "seed": self.settings.seed, **values}
        settings = check(AdoptSettings, own)
        how: dict[str, Any] = {"device": self.device, "quiet": self.quiet}
        return adopt(model, benchmarks.benchmark, settings, self.work / name, **how)

    def _settings_of_case(self) -> Mapping[str, Any]:
        """The settings that the case in the folder was written with; empty without one."""
        file = self.work / REQUEST_FILE
        settings: Mapping[str, Any] = read_json(file).get("settings", {}) if file.exists() else {}
        return settings

    def _refuse_other_settings(self) -> None:
        """Refuse a request whose case was written with other settings, before anything is computed.

        Files, folders and patients may have moved or been renamed; the stages themselves check those.

        Raises:
            InputError: names the settings.
        """
        settings, before = self.settings, self._settings_of_case()
        now = settings.model_dump(mode="json")
        movable = {"patient", "same_person", *(name for name, value in settings if isinstance(value, Path))}
        if settings.received is None:
            movable.add("received")  # the day on which the command was given first
        other = [name for name in before.keys() & now.keys() - movable if before[name] != now[name]]
        if other:
            words = ", ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in sorted(other))
            raise InputError(
                f"{self.out} is the case of a request with other settings: {words}. A case is never overwritten. "
                "Choose another --out."
            )

    def _check_settings(self) -> None:
        settings = self.settings
        if settings.model_key is not None:
            check_model_key(settings.model_key)
        if settings.retrained is not None:
            retrained = run_or_model(settings.retrained)
            shape_of(str(retrained.model if isinstance(retrained, Run) else retrained))
        if settings.method == EXACT:
            trained_run(Path(self.model))
            return
        for candidate in self.candidates[: settings.budget]:
            unlearning_method(candidate.usual_settings(settings.unlearn, settings.seed))
