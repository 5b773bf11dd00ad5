"""`forget`: from a model, notes and a request to an unlearned model and the signed case, as a graph of stages.

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

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from medunlearn.config import ForgetSettings
from medunlearn.data.folder_lock import lock_folder
from medunlearn.data.leftovers import holds_nothing
from medunlearn.data.storage import make_folder
from medunlearn.errors import InputError
from medunlearn.request.case.case_folder import is_case
from medunlearn.request.case.signing_keys import read_private_key
from medunlearn.request.forget_request import EXACT, ForgetRequest, Say
from medunlearn.request.forget_stages import ClosingStages, Forgotten, MeasuringStages, TrialStages
from medunlearn.request.request_pricing import RequestPricing
from medunlearn.study.stages import Graph, LocalStage, step


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
    read_private_key(settings.key)
    request = ForgetRequest.open(model, notes, settings, out, device=device, quiet=quiet, say=say)
    make_folder(request.work)
    with lock_folder(request.work, "forget"):
        graph = request_graph(request)
        return graph.graph.run_here()[graph.forgotten]


class RequestGraph(NamedTuple):
    """A request's graph and its stages, with its tries and the last stage."""

    graph: Graph
    cells: tuple[LocalStage[Any], ...]
    tries: tuple[LocalStage[Any], ...]
    forgotten: LocalStage[Forgotten]


def request_graph(request: ForgetRequest) -> RequestGraph:
    """The stages of a request: each takes the results of those that it names, and is free unless it has a price.

    ``adopt -> measure before -> try 1 ... try n -> choose -> measure after -> export -> case -> report``
    """
    measuring, unlearning, closing = MeasuringStages(request), TrialStages(request), ClosingStages(request)
    exactly, cost = request.settings.method == EXACT, RequestPricing

    received = step("receive the request", request.receive, price=cost.receipt)
    plan = step("plan the exact deletion", request.plan_exactly) if exactly else None
    notes = step("read the notes", request.read_notes, price=cost.notes)
    target = step("adopt the model", request.adopt_target, notes, price=cost.target)
    retrained = others = None
    if request.settings.retrained is not None:
        price = cost.retrained_model
        retrained = step("adopt the retrained model", request.adopt_retrained, notes, target, price=price)
        name = "measure the retrained model"
        others = step(name, measuring.retrained, notes, retrained, price=cost.measurement_retrained)
    name = "measure the model before"
    before = step(name, measuring.before, notes, target, retrained, price=cost.measurement_before)
    needed = step("find the patient", measuring.finds_patient, notes, before)

    tries = [step("begin to try", unlearning.begin, notes, target, needed, price=cost.baseline)]
    for place, candidate in () if exactly else request.trials():
        name, go_on = f"try {place + 1}: {candidate.words}", partial(unlearning.go_on, place, candidate)
        price = partial(cost.trial, place=place, candidate=candidate)
        tries.append(step(name, go_on, tries[-1], price=price))
    name = "make the model without the patients" if exactly else "choose"
    chosen = step(name, unlearning.choose, notes, target, needed, tries[-1], plan, price=cost.exact_deletion)

    after = step("measure the model after", measuring.after, notes, before, chosen, price=cost.measurement_after)
    checks = step("compare", closing.compare, notes, before, after, others)
    model = step("export the model", closing.export, chosen, price=cost.export)
    evidence = step("gather the evidence", closing.evidence, received, notes, target, chosen, checks, model)
    case = step("write the case", closing.write_case, notes, evidence)
    ledger = step("append to the ledger", closing.append_to_ledger, target, case)
    report = step("write the report", closing.write_report, notes, before, after, others, ledger)
    forgotten = step("close", closing.close, chosen, case, report)

    stages: list[LocalStage[Any] | None] = [received, plan, notes, target, retrained, before, needed, *tries]
    stages += [chosen, after, others, checks, model, evidence, case, ledger, report, forgotten]
    cells = tuple(stage for stage in stages if stage is not None)
    return RequestGraph(Graph.of(cells), cells, tuple(tries[1:]), forgotten)
