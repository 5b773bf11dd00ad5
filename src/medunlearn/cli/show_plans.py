"""Plans on the terminal and as JSON, printed by `--plan` and `--dry-run`, one function per command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def run(result: Any, output: Output, every: bool = False, stages: Iterable[Any] | None = None) -> None:
    """Print what is left, what it lacks and what does not fit; with ``every`` a table of stages above.

    Args:
        stages: rows of the table; by default the stages of the forecast.
    """
    from medunlearn.terminal import short_number, size

    if output.data(result.facts):
        return

    def row(name: str, state: str, cost: Any, disk: float) -> tuple[str, ...]:
        tokens = short_number(cost.tokens) + (f" + {short_number(cost.generated)}" if cost.generated else "")
        flops = short_number(cost.flops) if cost.flops else ""
        memory = size(result.capacity.needed(cost.memory)) if cost.memory.total else ""
        return name, state, tokens if cost.tokens else "", flops, memory, size(disk) if disk else ""

    output.line(f"{result.name}. {result.summary()}")
    if every:
        shown = result.stages if stages is None else stages
        rows = [row(stage.name, stage.state, stage.cost, stage.cost.disk) for stage in shown]
        rows.append(row("all that is left", "", result.total, result.disk))
        output.table("Stages", ("Stage", "State", "Tokens", "FLOPs", "Memory", "Disk"), rows)
        output.line(*(f"{stage.name}: {stage.note}" for stage in result.stages if stage.note))
        output.line("Tokens: run through the model + generated at most. Memory: of the largest stage, about.")
    output.line(*(*_untimed(result), *result.doubts, *result.missing, *result.warnings))


def _untimed(plan: Any) -> tuple[str, ...]:
    """The way to know the hours of work on a device that was not timed yet."""
    unknown = plan.hours is None and plan.total.flops
    return ("Hours are not known: with --time-device this device is timed, once.",) if unknown else ()


train = unlearn = evaluate = run


def forget(plan: Any, output: Output, every: bool = False) -> None:
    if output.data(plan.facts):
        return
    run(plan.cost, output, every, plan.rows())
    output.line(*plan.lines())


def sweep(plan: Any, output: Output, every: bool = False) -> None:
    if output.data(plan.facts):
        return
    price = plan.cost.summary() or "what they take is not known."
    output.line(f"{plan.name}. " + (f"Left: {plan.left} cells, {price}" if plan.left else "Everything is done."))
    if every:
        rows = [
            (row["name"], row["state"], "" if row["seconds"] is None else f"{row['seconds']:.1f}")
            for row in plan.rows()
        ]
        output.table("Cells", ("Cell", "State", "Seconds"), rows)
        output.table("Kinds", ("Kind", "Done", "To do"), plan.counts())
        _costs(plan.cost, output)
    seconds, unknown = plan.seconds_left()
    if seconds:
        output.line(f"By the cells that are done about {seconds:.0f} s for one process.")
    if unknown and seconds:
        output.line(f"Seconds of the other {unknown} are not known: no cell of their kind is done.")
    output.line(*(*_untimed(plan.cost), *plan.cost.lines(), *plan.notes))


def _costs(cost: Any, output: Output) -> None:
    """Print the cost of the remaining cells, by kind."""
    from medunlearn.terminal import short_number, size

    if not cost.kinds:
        return
    rows = []
    for kind in cost.kinds:
        memory = size(cost.capacity.needed(kind.cost.memory)) if kind.cost.memory.total else ""
        time = "" if kind.hours is None else f"{kind.hours:.2g}"
        flops, disk = kind.cost.flops, kind.cost.disk
        rows.append(
            (
                kind.label,
                kind.cells,
                short_number(flops) if flops else "",
                time,
                memory,
                size(disk) if disk else "",
            )
        )
    output.table("Left", ("Kind", "Cells", "FLOPs", "GPU-hours", "Memory", "Disk"), rows)
    for kind in cost.kinds:
        if kind.note:
            output.line(f"{kind.label}: {kind.note}")


def tune(plan: Any, output: Output, every: bool = False) -> None:
    from medunlearn.terminal import short_number

    if output.data(plan.facts):
        return
    output.line(f"{plan.name}. {plan.summary()}")

    def work(of: Any) -> str:
        return (
            " to ".join(dict.fromkeys(short_number(flops) for flops in of.flops if flops is not None))
            or "not known"
        )

    if every and plan.cost is not None:
        run(plan.cost, output, every)
    rows = [
        (of.method, "" if of.trials is None else str(of.trials), str(of.done), work(of), of.space)
        for of in plan.methods
    ]
    output.table("Trials", ("Method", "Trials", "Done", "FLOPs of a trial", "Searched"), rows)
    output.line(*plan.lines())
