"""Runs for the terminal and as JSON: training, adoption, unlearning, and the checks of their files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from medunlearn.result_view import ResultView
from medunlearn.terminal import sentence

if TYPE_CHECKING:
    from medunlearn.results.runs import Run
    from medunlearn.results.verify import Verification

ROUNDED = 0.1  # share of what an adapter learned; from here on the rounding of a merge is mentioned


def train_view(result: Run) -> ResultView:
    """Steps and the final loss of a training."""
    results = result.info["results"]
    loss = "" if results["final_loss"] is None else f", final loss {results['final_loss']:.4f}"
    short = "; it has not learned its texts by heart (a mean loss below 0.2 a token): give it more --epochs"
    return _training(result, f"{results['steps']} steps{loss}{'' if results.get('memorized', True) else short}")


def unlearn_view(result: Run) -> ResultView:
    """Steps of an unlearning, and whether it changed anything."""
    from medunlearn.study.epochs.rank_stop import RankStop
    from medunlearn.study.forget_loss import ForgetLoss

    results, config = result.info["results"], result.info["config"]
    method = config["method"]
    work = f"{results['steps']} steps of {method}"
    if "edit" in results:
        numbers = (f"{name} {v}" for name, v in results["edit"].items() if isinstance(v, int | float | str))
        work = f"edited by {method} ({', '.join(numbers)})"
    loss, stop = ForgetLoss.of(results), RankStop.of(results)
    more = [sentence(part.words) for part in (stop, loss) if part is not None and part.words]
    unchanged: tuple[str, ...] = ()
    if loss is not None and loss.words and loss.is_unchanged:
        unchanged = (f"hardly anything was unlearned: {loss.words}. {next_try(config, method)}",)
    return _training(result, f"{work} on {results['split']['name']}", *more, warnings=unchanged)


def next_try(config: Mapping[str, Any], method: str) -> str:
    """Advice where a method changed hardly anything."""
    if config.get("lr") is None:
        return f"Give {method} other settings (medunlearn list methods {method})."
    return (
        f"Give it a larger --lr (now {config['lr']:g}) or more --epochs (now {config['epochs']:g}), or let "
        "`medunlearn tune` search."
    )


def _training(run: Run, work: str, *more: str, warnings: tuple[str, ...] = ()) -> ResultView:
    return ResultView(run.info, warnings=warnings, notes=[f"{run.folder}: {work}", *_remarks(run), *more])


def _remarks(run: Run) -> Iterator[str]:
    """Sentences on epochs, slow ways, and the rounding of a merge."""
    results = run.info["results"]
    if epochs := results.get("epochs"):
        end = f"ended early after epoch {epochs['done']}" if epochs["stopped_early"] else f"{epochs['done']} epochs"
        best = "no epoch has a number" if epochs["best"] is None else f"the best was epoch {epochs['best']}"
        model = f"the model is epoch {epochs['chosen']}'s ({epochs['select']})"
        yield f"{end}; {best}; {model}; see epochs.parquet"
    yield from slow_ways(results)
    share = results.get("saved", {}).get("merge_rounding", 0.0)
    if share >= ROUNDED:
        yield (
            f"merging the LoRA adapter rounded: what that changed is {share:.0%} of what was learned; "
            "--weights fp32 or a larger --lr keeps it"
        )


def slow_ways(results: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on faster ways to run a model that were not available to it."""
    for name, what in (("batches", "batches"), ("option_batches", "batches of options")):
        if "padded" in results.get(name, ""):
            yield f"slower than it could be; {what} were {results[name]}"
    if results.get("context") == "note" and results.get("generation", "").startswith("whole"):
        yield f"slower than it could be; answers were decoded from {results['generation']}"


def adopt_view(result: Run) -> ResultView:
    """Losses of an adopted model for each way of asking, and the one that later commands use."""
    from medunlearn.models.health import banner
    from medunlearn.reports.view import plain_table
    from medunlearn.study.adopt import adopted_losses, rendering_words

    results = result.info.results
    rows = (
        (
            loss.what,
            loss.template,
            loss.items,
            loss.tokens,
            "not finite" if loss.loss is None else f"{loss.loss:.3f}",
        )
        for loss in adopted_losses(result)
    )
    title = f"mean loss on training texts, nats a token; uniform guessing: {results['uniform_loss']:.3f}"
    table = plain_table(("what", "template", "items", "tokens", "loss"), rows, title)
    source, form = results["source"], results["saved"]["form"]
    what = "LoRA adapter" if source["kind"] == "adapter" else "model"
    where = "copied" if form == "copy" else "its weights stay where they are"
    place = f"{result.folder}: {what} {source['name']}, {where}; {rendering_words(result)} (--template, --context)"
    return ResultView(result.info, [table], banner({result.label: result.info.problems}), [place])


def verify_view(result: Any) -> ResultView:
    """The checks of runs or of a case; or the files that hold a subject."""
    return _checks_view(result) if hasattr(result, "checks") else result.view()


def _checks_view(result: Verification) -> ResultView:
    """One line per check; a failure if something differs or is missing, or if nothing could be checked."""
    from medunlearn.reports.view import records_table, same_names

    table = result.table()
    tables = [
        records_table(part, same_names("what", "name", "state", "note"), str(folder))
        for folder, part in table.groupby("run", sort=False)
    ]
    counts = Counter(check.state for check in result.checks)
    failure = ""
    if result.wrong:
        failure = f"{len(result.wrong)} of {len(result.checks)} checks failed: {result.wrong[0]}"
    elif not result.ok:
        failure = "Nothing could be checked, so nothing is verified. The notes above say what is missing."
    states = ", ".join(f"{number:,} {state}" for state, number in counts.items())
    return ResultView({"ok": result.ok, "checks": table}, [*tables, states], failure=failure)
