"""`forget`: from a model, notes and a request to an unlearned model and the signed case.

| beside ``case/`` | content |
|---|---|
| ``case/`` | the signed case (docs/forget.md); no text, name or id of the patient |
| ``case-model/`` | the resulting model, with its ledger: a Hugging Face folder; for an exact deletion, a run |
| ``case-model.sig`` | with ``model_key``: its signature (:mod:`medunlearn.request.case.signing_keys`) |
| ``case-work/`` | benchmark, adopted model, trials, evaluations: contains notes; delete it when the case is closed
|

Every stage is stored in ``case-work/``, so that an interrupted command resumes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medunlearn.config import ForgetSettings
from medunlearn.data.deletion_requests import forget_records
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import holds_nothing
from medunlearn.data.storage import make_folder
from medunlearn.errors import InputError
from medunlearn.reports.write import free_folder, write_report
from medunlearn.request.case.card_section import describe_requests
from medunlearn.request.case.case_folder import CaseFolder, is_case, write_case
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
from medunlearn.request.case.signing_keys import read_private_key, sign_model
from medunlearn.request.case.verdicts import decide
from medunlearn.request.forget_request import EXACT, ForgetRequest, beside
from medunlearn.request.holders.traces import subject_traces
from medunlearn.request.measuring_models import AUTOMATIC
from medunlearn.request.request_battery import Say
from medunlearn.request.trial_search import NO_ALTERNATIVES
from medunlearn.request.verifying_attacks import with_battery
from medunlearn.results.runs import Run
from medunlearn.study.export import export
from medunlearn.study.report.gather import gather


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
        notes: notes in a form that `build notes` reads, or a benchmark's folder.
        out: folder of the case; model and work folders are created beside it.

    Raises:
        InputError: a patient who is unknown or was forgotten before, no key, a folder that cannot be used.
        ModelError: a broken model.
        StorageError: the disk refused; completed stages are kept, and no partial case is written.
    """
    if out.exists() and not is_case(out) and (not out.is_dir() or not holds_nothing(out)):
        raise InputError(f"{out} is not empty and contains no case. Choose another --out.")
    settings = with_battery(settings)  # its names, as the case records them
    key = read_private_key(settings.key)
    request = ForgetRequest(str(model), Path(notes), settings, out, device, quiet, say)
    request.secret  # noqa: B018  # its refusals come before the work
    work = request.work
    if is_case(out):
        request.refuse_other_settings()
    request.check_settings()
    make_folder(work)
    with lock_folder(work, "forget"):
        say(f"request of {request.received.isoformat()}")
        outcome, evidence = carry_out(request)
        traces = subject_traces(request.benchmarks.benchmark, request.benchmarks.patients)
        case = write_case(out, evidence, key, traces=traces)
        request.record(case)
        append_request(request.model_in, request.model_out, LedgerEntry.of(case.evidence, case.sha256))
        describe_requests(request.model_out)
        if settings.model_key is not None:
            sign_model(request.model_out, settings.model_key, beside(out, "model.sig"))
        evaluations = request.battery.evaluations(outcome.run)
        content = gather("Deletion request", evaluations, request.benchmarks.benchmark)
        report = write_report(content, free_folder(work / "report"))
    say(f"case: {case.evidence.decision.verdict}, {out / 'case.html'}")
    return Forgotten(case, request.model_out, work, report, str(model), outcome.trials, outcome.best)


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


def carry_out(request: ForgetRequest) -> tuple[ForgetOutcome, CaseEvidence]:
    """Measure the model, unlearn, and verify."""
    if request.settings.method == EXACT:
        request.exact_plan  # noqa: B018  # its refusals come before an hour of measuring
    finds_patients = request.battery.finds_patients
    request.say("measured: the model before")
    if finds_patients or request.settings.anyway:
        outcome = _unlearn(request)
        request.say("verify: probes, values and attacks that the choice did not see")
    else:
        request.say("nothing to forget: no way of asking finds the patient in the model; nothing is trained")
        outcome = ForgetOutcome(request.target)
        request.say("verify")
    battery, costs = request.battery.on(outcome.run), request.battery.cost_of(outcome.run)
    if outcome.exact is None:
        export(outcome.run.folder, request.model_out)
    return outcome, _evidence(request, outcome, battery, costs)


def _unlearn(request: ForgetRequest) -> ForgetOutcome:
    if request.settings.method == EXACT:
        # A run, so that the next request can be exact, too.
        run, exact = request.exact_plan.carry_out(request.model_out, device=request.device, quiet=request.quiet)
        after = request.adopted_as_retrained(run, "after")
        return ForgetOutcome(after, EXACT, run.info.config, ("exact: not chosen by numbers",), 0, exact=exact)
    search = request.search
    trials, best = search.best() if request.settings.method == AUTOMATIC else ([search.only()], 0)
    trial, words = trials[best], tuple(trial.words for trial in trials)
    return ForgetOutcome(trial.run, trial.candidate.method, trial.settings, words, best, search.passed_over)


def _evidence(
    request: ForgetRequest, outcome: ForgetOutcome, battery: Battery, costs: Sequence[CostReading]
) -> CaseEvidence:
    benchmark, ledger, secret = request.benchmarks.benchmark, request.ledger, request.secret
    model_in, model_out = digest_model(request.model_in), digest_model(request.model_out)
    models, level = (model_in.fingerprint, model_out.fingerprint), benchmark.subject_level
    return CaseEvidence(
        created=datetime.now(UTC),
        request=DeletionRequest(
            patients=tuple(sorted(secret.pseudonym(who, level) for who in request.benchmarks.patients)),
            secret=secret.secret_id,
            received=request.received,
            asked="forget and delete files" if request.settings.delete_files else "forget",
        ),
        model_in=model_in,
        model_out=model_out,
        notes=digest_notes(benchmark, forget_records(benchmark), request.benchmarks.earlier_records),
        ledger=LedgerDigest(rows=len(ledger.rows), head=ledger.head),
        method=outcome.method,
        passed_over=tuple(PassedOver(method=name, reason=NO_ALTERNATIVES) for name in outcome.passed_over),
        settings=public_settings(outcome.settings),
        software=software(),
        battery=battery,
        costs=tuple(costs),
        exact=outcome.exact,
        decision=decide(battery, exact=outcome.exact, models=models, earlier=len(ledger.requests)),
    )
