"""`forget`: from a model, notes and a request to a model that has forgotten and the case that shows it.

| beside ``case/`` | content |
|---|---|
| ``case/`` | the signed case (docs/cases.md); no text, name or id of the patient |
| ``case-model/`` | the model that came out, with its ledger: a Hugging Face folder; of an exact deletion, a run |
| ``case-model.sig`` | with ``model_key``: its signature (:mod:`medunlearn.cases.model_signature`) |
| ``case-work/`` | benchmark, adopted model, trials, evaluations: holds notes; delete it when the case is closed |

Every stage is kept in ``case-work/`` and found again, so that the command goes on where it was cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from medunlearn.cases.card_section import describe_requests
from medunlearn.cases.case_folder import CaseFolder, is_case, write_case
from medunlearn.cases.digests import digest_model, digest_notes, software
from medunlearn.cases.evidence import (
    NOTHING_TRAINED,
    Battery,
    CaseEvidence,
    CostReading,
    DeletionRequest,
    ExactDeletion,
    LedgerDigest,
    PassedOver,
    public_settings,
)
from medunlearn.cases.holders.traces import subject_traces
from medunlearn.cases.ledger import LedgerEntry, RequestLedger, append_request, read_ledger
from medunlearn.cases.model_signature import check_model_key, sign_model
from medunlearn.cases.pseudonyms import OwnerSecret
from medunlearn.cases.signing_keys import read_private_key
from medunlearn.cases.verdicts import decide
from medunlearn.config import AdoptSettings, ForgetSettings, check
from medunlearn.data.deletion_requests import REQUEST, read_subjects
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import holds_nothing
from medunlearn.data.storage import make_folder, read_json, write_json
from medunlearn.errors import InputError
from medunlearn.forgetting.battery_rerun import (
    BEFORE,
    REQUEST_FILE,
    RETRAINED,
    record_request,
    refuse_other_settings,
)
from medunlearn.forgetting.candidates import AUTO, ForgetCandidate
from medunlearn.forgetting.exact_deletion import ExactPlan, plan_exactly, training_benchmark
from medunlearn.forgetting.request_battery import AUTOMATIC, RequestBattery, Say
from medunlearn.forgetting.request_benchmarks import RequestBenchmarks, build_benchmarks
from medunlearn.forgetting.trial_search import NO_ALTERNATIVES, ForgetTrial, TrialSearch
from medunlearn.pipeline.adopt import Adoption, adopt
from medunlearn.pipeline.export import export
from medunlearn.pipeline.part_check import unlearning_method
from medunlearn.pipeline.report.gather import gather
from medunlearn.reports.write import free_folder, write_report
from medunlearn.results.runs import FILE, Run

EXACT = "exact"


@dataclass(frozen=True)
class Forgotten:
    """Result of `forget`.

    Attributes:
        case: the case.
        model: the model that came out.
        work: folder that holds notes, to be deleted when the case is closed.
        before: the model that went in; it still knows the patient.
        report: page with all numbers behind the case, for the owner alone.
        trials: words on each, in order; the chosen one is ``chosen``.
    """

    case: CaseFolder
    model: Path
    work: Path
    report: Path
    before: str
    trials: tuple[str, ...]
    chosen: int | None


def forget(
    model: str | Path,
    notes: Path,
    settings: ForgetSettings,
    out: Path,
    *,
    device: str = "auto",
    quiet: bool = False,
    say: Say = lambda line: None,
) -> Forgotten:
    """Carry out a deletion request. Resumes.

    Args:
        model: Hugging Face folder, LoRA adapter, hub id, or run.
        notes: as `build notes` reads them, or a benchmark's folder.
        out: folder of the case; the model and the work stand beside it.

    Raises:
        InputError: somebody who is not there or was forgotten before, no key, a folder that cannot be used.
        ModelError: a broken model.
        StorageError: the disk refused; what is done is kept, and there is no half of a case.
    """
    if out.exists() and not is_case(out) and (not out.is_dir() or not holds_nothing(out)):
        raise InputError(f"{out} is not empty and holds no case. Choose another --out.")
    key, secret = read_private_key(settings.key), OwnerSecret.beside(settings.key)
    work = beside(out, "work")
    request = ForgetRequest(str(model), Path(notes), settings, out, work, secret, device, quiet, say)
    if is_case(out):
        refuse_other_settings(out, work, settings)
    request.check_methods()
    make_folder(work)
    with lock_folder(work, "forget"):
        say(f"request of {request.received.isoformat()}")
        run, evidence, trials, chosen = request.carried_out()
        traces = subject_traces(request.benchmarks.benchmark, request.benchmarks.patients)
        case = write_case(out, evidence, key, traces=traces)
        record_request(work, case, settings)
        request.write_ledger(case)
        if settings.model_key is not None:
            sign_model(request.model_out, settings.model_key, beside(out, "model.sig"))
        content = gather("Deletion request", request.battery.evaluations(run), request.benchmarks.benchmark)
        report = write_report(content, free_folder(work / "report"))
    say(f"case: {case.evidence.decision.verdict}, {out / 'case.html'}")
    return Forgotten(case, request.model_out, work, report, str(model), trials, chosen)


def beside(out: Path, name: str) -> Path:
    """``case-work`` of ``case``."""
    whole = out.absolute()
    return whole.with_name(f"{whole.name}-{name}")


@dataclass
class ForgetRequest:
    """A request that is being carried out, stage by stage."""

    model: str
    notes: Path
    settings: ForgetSettings
    out: Path
    work: Path
    secret: OwnerSecret
    device: str
    quiet: bool
    say: Say

    @cached_property
    def received(self) -> date:
        """Day on which the request came: as given, else the day on which the command was given first."""
        file = self.work / REQUEST_FILE
        known = read_json(file) if file.exists() else {}
        if self.settings.received is None and known:
            return date.fromisoformat(known["received"])
        day = self.settings.received or datetime.now(UTC).date()
        write_json(file, {**known, "received": day.isoformat()})
        return day

    @property
    def model_out(self) -> Path:
        """Folder of the model that comes out."""
        return beside(self.out, "model")

    @cached_property
    def source(self) -> Run | str:
        """The model: a run, a folder, or a hub id."""
        return Run.open(self.model) if (Path(self.model) / FILE).exists() else self.model

    @cached_property
    def ledger(self) -> RequestLedger:
        """Of the model that went in; empty of one on a hub."""
        return read_ledger(Path(self.model)) if Path(self.model).is_dir() else RequestLedger()

    @cached_property
    def benchmarks(self) -> RequestBenchmarks:
        self.say("notes: read, probes made")
        return build_benchmarks(self.notes, self.settings, self.ledger, self.secret, self.work, quiet=self.quiet)

    def adopted(self, model: Run | Path | str, name: str, **more: Any) -> Run:
        """A model as a run that is asked about the request's patients."""
        settings = self.settings
        values = {"context": "closed_book", "seed": settings.seed, **more}
        if settings.template is not None:
            values["template"] = settings.template
        elif (Path(self.model) / FILE).exists():
            values["template"] = Run.open(Path(self.model)).rendering().template
        checked = check(AdoptSettings, values)
        how: dict[str, Any] = {"device": self.device, "quiet": self.quiet}
        if isinstance(model, Run):
            return Adoption.of_run(model, self.benchmarks.benchmark, checked).run(self.work / name, **how)
        return adopt(model, self.benchmarks.benchmark, checked, self.work / name, **how)

    @cached_property
    def target(self) -> Run:
        """The model that went in."""
        self.say(f"adopt: {self.model}")
        return self.adopted(self.source, BEFORE, **({"base": self.settings.base} if self.settings.base else {}))

    @cached_property
    def retrained(self) -> Run | None:
        """The model that never saw the patients, where one is given."""
        if self.settings.retrained is None:
            return None
        folder = self.settings.retrained
        source = Run.open(folder) if (folder / FILE).exists() else folder
        return self.adopted(source, RETRAINED, role="retrained", without=REQUEST, allow_broken=True)

    @cached_property
    def battery(self) -> RequestBattery:
        return RequestBattery(
            self.benchmarks, self.settings, self.target, self.retrained, self.device, self.quiet, self.say
        )

    def carried_out(self) -> tuple[Run, CaseEvidence, tuple[str, ...], int | None]:
        """Measure, make it forget, verify: the model, the evidence, words on each trial, and the chosen one."""
        if self.settings.method == EXACT:
            self.exact_plan  # noqa: B018  # its refusals come before an hour of measuring
        found = self.battery.finds_patients
        self.say("measured: the model before")
        trials, chosen, passed_over = self._trials(found=found)
        run, method, settings = self._chosen(trials, chosen)
        self.say("verify: probes, values and attacks that the choice did not see" if trials else "verify")
        battery, read_costs = self.battery.on(run), self.battery.cost_of(run)
        exact = self.deleted[1] if method == EXACT else None
        if exact is None:
            export(run.folder, self.model_out)
        evidence = self._evidence(battery, read_costs, method, settings, exact, passed_over)
        words = tuple(
            f"{t.candidate.words}: {t.reading.words if t.reading else 'not chosen by numbers'}" for t in trials
        )
        return run, evidence, words, chosen

    def _trials(self, *, found: bool) -> tuple[list[ForgetTrial], int | None, Collection[str]]:
        """The models that were tried, the place of the chosen one, and methods that could not be used.

        No model and no place where nothing is to be forgotten.
        """
        settings = self.settings
        if not found and not settings.anyway:
            self.say("nothing to forget: no way of asking finds the patient in the model; nothing is trained")
            return [], None, ()
        if settings.method == EXACT:
            made, _ = self.deleted
            after = self.adopted(made, "after", role="retrained", without=REQUEST, allow_broken=True)
            return [ForgetTrial(0, ForgetCandidate(EXACT, 0), after, made.info.config, None)], 0, ()
        search = TrialSearch(self.battery, AUTO if settings.method == AUTOMATIC else self.candidates, self.work)
        trials, chosen = search.best() if settings.method == AUTOMATIC else ([search.only()], 0)
        return trials, chosen, search.passed_over

    @property
    def candidates(self) -> Sequence[ForgetCandidate]:
        """Tries at most, in order."""
        settings = self.settings
        return AUTO[: settings.budget] if settings.method == AUTOMATIC else (ForgetCandidate(settings.method, 0),)

    def check_methods(self) -> None:
        """Refuse wrong settings of `unlearn` before a model is read.

        Raises:
            ConfigError: every mistake.
            UnknownNameError: no such method.
            InputError: an exact deletion of what is no run of ours; no key that a model can be signed with.
        """
        if self.settings.model_key is not None:
            check_model_key(self.settings.model_key)
        if self.settings.method == EXACT:
            self._trained_run  # noqa: B018
        for candidate in self.candidates if self.settings.method != EXACT else ():
            unlearning_method(candidate.usual_settings(self.settings.unlearn, self.settings.seed))

    @cached_property
    def deleted(self) -> tuple[Run, ExactDeletion]:
        """The model that is made again without the patients: a run, so that the next request can be exact, too."""
        return self.exact_plan.carry_out(self.model_out, device=self.device, quiet=self.quiet)

    @cached_property
    def exact_plan(self) -> ExactPlan:
        """The deletion by training again, before anything is computed.

        Raises:
            InputError: it cannot be done; as of :func:`plan_exactly`.
        """
        patients = list(read_subjects(self.settings.patient))
        run = self._trained_run
        benchmark = training_benchmark(run)
        if any("," in patient for patient in patients):
            raise InputError(
                "--method exact takes no patient id with a comma: the training's record would not tell it from "
                "several. Change the id in the notes, or leave --method out."
            )
        split = f"{benchmark.subject_level}={','.join(patients)}"
        return plan_exactly(run, benchmark, split, base_unseen=self.settings.base_unseen, quiet=self.quiet)

    @property
    def _trained_run(self) -> Run:
        if not (Path(self.model) / FILE).exists():
            raise InputError(
                f"--method exact trains again, and {self.model} is no run of `medunlearn train`. Leave --method "
                "out."
            )
        return Run.of(self.model)

    def _chosen(self, trials: list[ForgetTrial], chosen: int | None) -> tuple[Run, str, Mapping[str, Any]]:
        if chosen is None:
            return self.target, NOTHING_TRAINED, {}
        trial = trials[chosen]
        return trial.run, trial.candidate.method, trial.settings

    def _evidence(
        self,
        battery: Battery,
        read_costs: list[CostReading],
        method: str,
        settings: Mapping[str, Any],
        exact: ExactDeletion | None,
        passed_over: Collection[str],
    ) -> CaseEvidence:
        benchmark, level = self.benchmarks.benchmark, self.benchmarks.benchmark.subject_level
        forget_records = frozenset(r.record_id for r in benchmark.records_of(benchmark.split(REQUEST), "forget"))
        model_in, model_out = digest_model(self._given), digest_model(self.model_out)
        decision = decide(
            battery,
            exact=exact,
            models=(model_in.fingerprint, model_out.fingerprint),
            earlier=len(self.ledger.requests),
        )
        return CaseEvidence(
            created=datetime.now(UTC),
            request=DeletionRequest(
                patients=tuple(sorted(self.secret.pseudonym(who, level) for who in self.benchmarks.patients)),
                secret=self.secret.secret_id,
                received=self.received,
                asked="forget and delete files" if self.settings.delete_files else "forget",
            ),
            model_in=model_in,
            model_out=model_out,
            notes=digest_notes(benchmark, forget_records, self.benchmarks.earlier_records),
            ledger=LedgerDigest(rows=len(self.ledger.rows), head=self.ledger.head),
            method=method,
            passed_over=tuple(PassedOver(method=name, reason=NO_ALTERNATIVES) for name in passed_over),
            settings=public_settings(settings),
            software=software(),
            battery=battery,
            costs=tuple(read_costs),
            exact=exact,
            decision=decision,
        )

    @property
    def _given(self) -> Path:
        """The model that went in, on this machine."""
        return Path(self.model) if Path(self.model).is_dir() else self.target.model

    def write_ledger(self, case: CaseFolder) -> None:
        """Write the ledger of the model that came out; given again, nothing changes."""
        evidence = case.evidence
        entry = LedgerEntry(
            evidence.request.patients,
            evidence.request.received.isoformat(),
            evidence.created.date().isoformat(),
            evidence.decision.verdict,
            case.sha256,
            evidence.model_in.fingerprint,
            evidence.model_out.fingerprint,
            evidence.request.secret,
        )
        append_request(self._given, self.model_out, entry)
        describe_requests(self.model_out)
