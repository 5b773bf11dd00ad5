"""Plans on the terminal and as JSON, printed by `--plan` and `--dry-run`, one function per command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medunlearn.cli.output import Output


def estimates(plans: Mapping[str, Any], output: Output) -> None:
    output.data(lambda: {name: plan.to_json() for name, plan in plans.items()})
    for name, plan in plans.items():
        output.say(f"{name}: {plan}")
    output.say("Nothing was sent.")


def judge(plan: Any, output: Output) -> None:
    from medunlearn.llm.usage import in_money

    plans = [(name, estimate, plan.decisions[name]) for name, estimate in plan.estimates.items()]
    if output.data(lambda: {name: {"estimate": e.to_json(), "guard": d.to_json()} for name, e, d in plans}):
        return
    rows = []
    for name, e, _ in plans:
        money = "no price" if e.most.money is None else f"at most {in_money(e.most.money)}"
        rows.append((name, e.requests, e.stored, e.likely.tokens, e.most.tokens, money))
    columns = ("judge", "requests", "need none", "likely tokens", "at most", "money")
    output.table("Nothing was sent.", columns, rows)
    output.line(*dict.fromkeys(decision.reason for _, _, decision in plans))


def run(result: Any, output: Output) -> None:
    """Print the remaining work of each stage; warnings come last, where they are noticed."""
    from medunlearn.study.estimate.capacity import shown_bytes

    if output.data(result.facts):
        return

    def row(name: str, state: str, work: Any, disk: float) -> tuple[str, ...]:
        tokens = _short(work.tokens) + (f" + {_short(work.generated)}" if work.generated else "")
        flops, memory = _short(work.flops) if work.flops else "", work.memory and shown_bytes(work.memory.total)
        return name, state, tokens if work.tokens else "", flops, memory or "", shown_bytes(disk) if disk else ""

    rows = [row(stage.name, stage.state, stage.work, stage.disk) for stage in result.stages]
    rows.append(row("all that is left", "", result.total, result.disk))
    output.table(result.name, ("Stage", "State", "Tokens", "FLOPs", "Memory", "Disk"), rows)
    for stage in result.stages:
        if stage.note:
            output.line(f"{stage.name}: {stage.note}")
    output.line("Tokens: run through the model + generated at most. Memory: of the largest stage, about.")
    output.line(*(*result.doubts, result.has(), *result.warnings))


def forget(plan: Any, output: Output) -> None:
    if output.data(plan.to_json):
        return
    run(plan.cost, output)
    output.line(*plan.lines())
    output.line(f"FLOPs that are left: {_short(plan.least_flops)} to {_short(plan.cost.total.flops)}.")


def _short(number: float) -> str:
    """A number with three digits and a unit: 749k, 11.4T."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}E"


def sweep(plan: Any, output: Output) -> None:
    if output.data(plan.facts):
        return
    rows = [
        (row["name"], row["state"], "" if row["seconds"] is None else f"{row['seconds']:.1f}")
        for row in plan.rows()
    ]
    output.table(plan.name, ("Cell", "State", "Seconds"), rows)
    output.table("Cells", ("Kind", "Done", "To do"), plan.counts())
    _costs(plan.cost, output)
    seconds, unknown = plan.seconds_left()
    if plan.left:
        output.line(f"Left: {plan.left} cells." + (f" About {seconds:.0f} s for one process." if seconds else ""))
        if unknown:
            which = f"of the other {unknown}" if seconds else "of them"
            output.line(f"Seconds {which} are not known: no cell of their kind is done.")
    else:
        output.line("Everything is done.")
    output.line(*(*plan.cost.lines(), *plan.notes))


def _costs(cost: Any, output: Output) -> None:
    """Print the cost of the remaining cells, by kind."""
    from medunlearn.study.estimate.capacity import shown_bytes

    if not cost.kinds:
        return
    rows = []
    for kind in cost.kinds:
        memory = shown_bytes(kind.work.memory.total) if kind.work.memory else ""
        time = "" if kind.hours is None else f"{kind.hours:.2g}"
        flops = _short(kind.work.flops) if kind.work.flops else ""
        rows.append((kind.label, kind.cells, flops, time, memory, shown_bytes(kind.disk) if kind.disk else ""))
    output.table("Left", ("Kind", "Cells", "FLOPs", "GPU-hours", "Memory", "Disk"), rows)
    for kind in cost.kinds:
        if kind.note:
            output.line(f"{kind.label}: {kind.note}")


def tune(plan: Any, output: Output) -> None:
    if output.data(plan.facts):
        return

    def work(of: Any) -> str:
        return " to ".join(dict.fromkeys(_short(flops) for flops in of.flops if flops is not None)) or "not known"

    rows = [
        (of.method, "" if of.trials is None else str(of.trials), str(of.done), work(of), of.space)
        for of in plan.methods
    ]
    output.table(plan.name, ("Method", "Trials", "Done", "FLOPs of a trial", "Searched"), rows)
    output.line(*plan.lines())
