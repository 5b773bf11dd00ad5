"""Work of the stages of a deletion request (:mod:`medunlearn.request.graph`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from medunlearn.data.deletion_requests import forget_records
from medunlearn.errors import InputError
from medunlearn.reports.blocks import Facts
from medunlearn.reports.view import ResultView
from medunlearn.reports.write import free_folder, write_report
from medunlearn.request.case.card_section import describe_requests
from medunlearn.request.case.case_folder import CaseFolder, write_case
from medunlearn.request.case.digests import digest_model, digest_notes, public_settings, software
from medunlearn.request.case.evidence import (
    NOTHING_TRAINED,
    Battery,
    CaseEvidence,
    CostReading,
    DeletionRequest,
    ExactDeletion,
    LedgerDigest,
    PassedOver,
)
from medunlearn.request.case.ledger import LedgerEntry, append_request
from medunlearn.request.case.next_steps import next_steps
from medunlearn.request.case.officer_page import result_blocks
from medunlearn.request.case.signing_keys import read_private_key, sign_model
from medunlearn.request.case.verdicts import decide
from medunlearn.request.exact_deletion import ExactPlan
from medunlearn.request.forget_request import AFTER, EXACT, ForgetRequest, beside
from medunlearn.request.holders.traces import subject_traces
from medunlearn.request.measuring_models import MeasuredModel
from medunlearn.request.request_battery import RequestBattery
from medunlearn.request.request_benchmarks import RequestBenchmarks
from medunlearn.request.trial_search import NO_ALTERNATIVES, ForgetCandidate, TrialSearch, Tries
from medunlearn.results.runs import Run
from medunlearn.study.report.gather import gather
from medunlearn.terminal import relative_path


@dataclass(frozen=True)
class Forgotten:
    """Result of `forget`.

    Attributes:
        model: the resulting model.
        work: folder that contains notes, to be deleted when the case is closed.
        report: page with all numbers of the case, only for the owner.
        before: the input model, which still knows the patient.
        trials: description of each trial, in order.
        best: index of the trial that made the model; None if nothing was trained.
    """

    case: CaseFolder
    model: Path
    work: Path
    report: Path
    before: str
    trials: tuple[str, ...]
    best: int | None

    def view(self) -> ResultView:
        """The page's results, the verdict and the next steps, and what is in each file."""
        evidence = self.case.evidence
        paths = {"case": self.case.folder, "model": self.model, "work": self.work, "report": self.report}
        files = {
            self.case.folder / "case.html": "the page for the privacy officer",
            self.model: "the model that came out, with its ledger",
            self.report: "all numbers behind the case, for you alone",
            self.work: "holds notes, and what `verify --work` needs; delete it when the case is closed",
        }
        if evidence.method != NOTHING_TRAINED:
            files[Path(self.before)] = "still knows the patient; whoever has both models can tell who was forgotten"
        places = {name: str(path) for name, path in paths.items()}
        more = {"trials": list(self.trials), "next_steps": list(next_steps(evidence))}
        facts = Facts(tuple((relative_path(path), text) for path, text in files.items()))
        return ResultView(
            lambda: {**places, **more, **evidence.model_dump(mode="json")}, [*result_blocks(evidence), facts]
        )


@dataclass(frozen=True)
class ForgetOutcome:
    """The resulting model of a request, and how it was made; by default nothing was trained.

    Attributes:
        settings: settings of the method.
        trials, best: as in :class:`Forgotten`.
        passed_over: methods that could not be applied.
    """

    run: Run
    method: str = NOTHING_TRAINED
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: tuple[str, ...] = ()
    best: int | None = None
    passed_over: Collection[str] = ()
    exact: ExactDeletion | None = None


class Checks(NamedTuple):
    """Checks of the model after, and its cost for others."""

    battery: Battery
    costs: Sequence[CostReading]


@dataclass(frozen=True)
class MeasuringStages:
    """Measurements of the models of a request, stored in their runs."""

    request: ForgetRequest

    def before(self, notes: RequestBenchmarks, target: Run, retrained: Run | None = None) -> MeasuredModel:
        """The model before; ``retrained`` is there by then, as a second model of attacks."""
        measured = self.request.meter(notes).verify(target)
        self.request.say("measured: the model before")
        return measured

    def finds_patient(self, notes: RequestBenchmarks, before: MeasuredModel) -> bool:
        """True if there is something to forget, or it is to be forgotten anyway."""
        settings = self.request.settings
        return RequestBattery(notes, settings).finds_patients(before) or settings.anyway

    def after(self, notes: RequestBenchmarks, before: MeasuredModel, chosen: ForgetOutcome) -> MeasuredModel:
        meter, after = self.request.meter(notes), before
        if chosen.run is before.run:
            self.request.say("verify")
        else:
            self.request.say("verify: probes, values and attacks that the choice did not see")
            after = meter.verify(chosen.run)
        return RequestBattery(notes, self.request.settings).with_earlier(after, meter, before.run)

    def retrained(self, notes: RequestBenchmarks, run: Run) -> MeasuredModel:
        return self.request.meter(notes).verify(run)


class Search(NamedTuple):
    """A search and its trials so far."""

    search: TrialSearch
    tries: Tries


@dataclass(frozen=True)
class TrialStages:
    """The tries of a request, and its choice."""

    request: ForgetRequest

    def begin(self, notes: RequestBenchmarks, target: Run, needed: bool) -> Search:
        """The search before its first trial; over where there is nothing to try.

        Raises:
            InputError: settings would be chosen beside invented patients who are not believable to the model.
        """
        request, meter = self.request, self.request.meter(notes)
        is_measured = needed and meter.searches
        before = meter.choosing(target) if is_measured else None
        battery = RequestBattery(notes, request.settings)
        if before is not None and (fault := battery.baseline_fault(before[1])):
            raise InputError(
                f"Settings cannot be chosen: {fault}. Name notes of patients whom the model never saw (--holdout), "
                "or a method (--method counterfactual), which is one run without a choice."
            )
        if not needed:
            request.say("nothing to forget: no way of asking finds the patient in the model; nothing is trained")
        search = TrialSearch(battery, meter, target, before, request.work, request.say)
        return Search(search, Tries(over=not needed))

    def go_on(self, place: int, candidate: ForgetCandidate, search: Search) -> Search:
        return search._replace(tries=search.search.go_on(search.tries, place, candidate))

    def choose(
        self, notes: RequestBenchmarks, target: Run, needed: bool, search: Search, plan: ExactPlan | None
    ) -> ForgetOutcome:
        request = self.request
        if not needed:
            return ForgetOutcome(target)
        if plan is not None:
            # A run, so that the next request can be exact, too.
            run, exact = plan.carry_out(request.model_out, device=request.device, quiet=request.quiet)
            after = request.adopt_without(run, notes, target, AFTER)
            return ForgetOutcome(after, EXACT, run.info.config, ("exact: not chosen by numbers",), 0, exact=exact)
        trials, best = search.search.best(search.tries)
        trial, words = trials[best], tuple(trial.words for trial in trials)
        passed_over = search.tries.passed_over
        return ForgetOutcome(trial.run, trial.candidate.method, trial.settings, words, best, passed_over)


@dataclass(frozen=True)
class ClosingStages:
    """The evidence of a request, from its measurements to the signed case and the report."""

    request: ForgetRequest

    def compare(
        self, notes: RequestBenchmarks, before: MeasuredModel, after: MeasuredModel, retrained: MeasuredModel | None
    ) -> Checks:
        battery = RequestBattery(notes, self.request.settings)
        return Checks(battery.compare(before, after, retrained), battery.costs(before, after, retrained))

    def export(self, chosen: ForgetOutcome) -> Path:
        """Export the resulting model; an exact deletion made it in its place."""
        from medunlearn.study.export import export

        if chosen.exact is None:
            export(chosen.run.folder, self.request.model_out)
        return self.request.model_out

    def evidence(
        self,
        received: date,
        notes: RequestBenchmarks,
        target: Run,
        chosen: ForgetOutcome,
        checks: Checks,
        model: Path,
    ) -> CaseEvidence:
        request, benchmark = self.request, notes.benchmark
        ledger, secret = request.ledger, request.secret
        model_in, model_out = digest_model(request.model_in(target)), digest_model(model)
        models = (model_in.fingerprint, model_out.fingerprint)
        patients = tuple(sorted(notes.pseudonyms[who] for who in notes.patients))
        return CaseEvidence(
            created=datetime.now(UTC),
            request=DeletionRequest(
                patients=patients,
                secret=secret.secret_id,
                received=received,
                asked="forget and delete files" if request.settings.delete_files else "forget",
            ),
            model_in=model_in,
            model_out=model_out,
            notes=digest_notes(
                benchmark,
                forget_records(benchmark),
                total=(notes.totals.records, notes.totals.patients),
                earlier=notes.totals.earlier_records,
            ),
            ledger=LedgerDigest(rows=len(ledger.rows), head=ledger.head),
            method=chosen.method,
            passed_over=tuple(PassedOver(method=name, reason=NO_ALTERNATIVES) for name in chosen.passed_over),
            settings=public_settings(chosen.settings),
            software=software(),
            battery=checks.battery,
            costs=tuple(checks.costs),
            exact=chosen.exact,
            decision=decide(
                checks.battery,
                checks.costs,
                exact=chosen.exact,
                models=models,
                patients=patients,
                earlier=sum(not {*row.entry.patients} <= {*patients} for row in ledger.requests),
            ),
        )

    def write_case(self, notes: RequestBenchmarks, evidence: CaseEvidence) -> CaseFolder:
        request, traces = self.request, subject_traces(notes.benchmark, notes.patients)
        case = write_case(request.out, evidence, read_private_key(request.settings.key), traces=traces)
        request.record(case)
        return case

    def append_to_ledger(self, target: Run, case: CaseFolder) -> Path:
        """Append the request to the resulting model's ledger, describe it in the card, and sign the model."""
        request, model = self.request, self.request.model_out
        append_request(request.model_in(target), model, LedgerEntry.of(case.evidence, case.sha256))
        describe_requests(model)
        if request.settings.model_key is not None:
            sign_model(model, request.settings.model_key, beside(request.out, "model.sig"))
        return model

    def write_report(
        self,
        notes: RequestBenchmarks,
        before: MeasuredModel,
        after: MeasuredModel,
        retrained: MeasuredModel | None,
        model: Path,
    ) -> Path:
        models = [before, *([] if after.run is before.run else [after]), *([retrained] if retrained else [])]
        content = gather("Deletion request", [own.evaluated for own in models], notes.benchmark)
        return write_report(content, free_folder(self.request.work / "report"))

    def close(self, chosen: ForgetOutcome, case: CaseFolder, report: Path) -> Forgotten:
        request = self.request
        request.say(f"case: {case.evidence.decision.verdict}, {request.out / 'case.html'}")
        model, work, before = request.model_out, request.work, request.model
        return Forgotten(case, model, work, report, before, chosen.trials, chosen.best)
