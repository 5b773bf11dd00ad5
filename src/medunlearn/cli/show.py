"""Results on the terminal and as JSON, one function per command."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medunlearn.cli.output import Output, Row, records
from medunlearn.cli.result_tables import by_model, paper_view, warn_of_broken
from medunlearn.data.origins import NOTE, is_drawn
from medunlearn.errors import MedunlearnError

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.data.benchmark import Benchmark
    from medunlearn.reports.view import ResultView
    from medunlearn.results.runs import Run

ROUNDED = 0.1  # share of what an adapter learned; from here on the rounding of a merge is mentioned


def view(result: Any, output: Output) -> None:
    """Print a result that brings its own view: tables, sentences and data."""
    shown: ResultView = result.view()
    if not output.data(lambda: dict(shown.data)):
        output.warn(shown.warnings)
        for audited in shown.audits:
            from medunlearn.cli.show_audits import audit

            audit(audited, output)
        output.view(shown)
    if shown.failure:
        raise MedunlearnError(shown.failure)


def _measures(output: Output, table: pd.DataFrame, models: Iterable[Any]) -> None:
    def scored(row: Row) -> str:
        return f"{row['n_scored']}/{row['n_scored'] + row['n_unscored']}"

    title = "{}, {} fold".format
    by_model(output, table[table["kind"] == "all"], title, ["side", "fold"], ["measure"], models, counts=scored)
    subjects = table.groupby("side", sort=False)["n_subjects"].max().items()
    sizes = ", ".join(f"{side} {n_subjects}" for side, n_subjects in subjects)
    output.line(f"Intervals: 95%, over subjects ({sizes}); none of fewer than five.")
    if any(map(is_drawn, table["measure"].unique())):
        output.line(NOTE)


def build(result: Benchmark, output: Output, *, out: str) -> None:
    from medunlearn.data.storage import read_json

    file = Path(out) / "build.json"
    facts = read_json(file) if file.exists() else {}
    facts.pop("status", None)
    if output.data(lambda: {"folder": str(out), **result.facts(), **({"build": facts} if facts else {})}):
        return
    counts = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in result.counts().items())
    output.say(f"{out}: {counts}")
    if reason := result.undecided:
        output.say(f"{reason[0].upper()}{reason[1:]}: no number on this benchmark decides anything")
    if skipped := result.notes.get("skipped rows"):
        output.say(f"{len(skipped)} rows were left out; they are listed in {Path(out) / 'benchmark.yaml'}")
    for reason, n in result.notes.get("notes left out", {}).items():
        output.say(f"left out: {n:,} notes {reason}")
    for fact in (
        "patients without a usable note",
        "patients without a probe",
        "notes whose text several patients have",
    ):
        if n := result.notes.get(fact):
            output.say(f"{fact}: {n:,}")


def build_keywords(result: Any, output: Output, *, extractor: str = "offline") -> None:
    facts = result.facts
    if output.data({"path": str(result.path), **facts}):
        return
    rows = [("questions with keywords", facts["with_keywords"]), ("keywords", facts["keywords"])]
    rows += [(f"without: {why}", count) for why, count in facts["without"].items()]
    output.table(f"keywords by {extractor}", ("what", "count"), rows)
    output.say(f"{result.path}: it holds phrases of the records; keep it where those may be")


def train(result: Run, output: Output) -> None:
    results = result.info["results"]
    loss = "" if results["final_loss"] is None else f", final loss {results['final_loss']:.4f}"
    short = (
        ""
        if results.get("memorized", True)
        else ("; it has not learned its texts by heart (a mean loss below 0.2 a token): give it more --epochs")
    )
    _show_training(result, output, f"{results['steps']} steps{loss}{short}")


def adopt(result: Run, output: Output) -> None:
    """Print the losses of an adopted model for each way of asking, and the one that later commands use."""
    if output.data(result.info):
        return
    from medunlearn.study.adopt import adopted_losses, rendering_words

    results, losses = result.info.results, adopted_losses(result)
    warn_of_broken(output, {result.label: result.info.problems})
    texts = ["not finite" if loss.loss is None else f"{loss.loss:.3f}" for loss in losses]
    columns = [(loss.what, loss.template, loss.items, loss.tokens) for loss in losses]
    rows = [(*cells, loss) for cells, loss in zip(columns, texts, strict=True)]
    title = f"mean loss on training texts, nats a token; uniform guessing: {results['uniform_loss']:.3f}"
    output.table(title, ("what", "template", "items", "tokens", "loss"), rows)
    source, form = results["source"], results["saved"]["form"]
    what = "LoRA adapter" if source["kind"] == "adapter" else "model"
    where = "copied" if form == "copy" else "its weights stay where they are"
    output.say(
        f"{result.folder}: {what} {source['name']}, {where}; {rendering_words(result)} (--template, --context)"
    )


def unlearn(result: Run, output: Output, *, method: str) -> None:
    results = result.info["results"]
    from medunlearn.study.epochs.rank_stop import RankStop
    from medunlearn.study.forget_loss import ForgetLoss

    work = f"{results['steps']} steps of {method}"
    if "edit" in results:
        numbers = (f"{name} {v}" for name, v in results["edit"].items() if isinstance(v, int | float | str))
        work = f"edited by {method} ({', '.join(numbers)})"
    _show_training(result, output, f"{work} on {results['split']['name']}")
    loss, stop = ForgetLoss.of(results), RankStop.of(results)
    if not output.json and stop is not None:
        output.say(f"{stop.words[0].upper()}{stop.words[1:]}")
    if output.json or loss is None or not loss.words:
        return
    output.say(f"{loss.words[0].upper()}{loss.words[1:]}")
    if loss.is_unchanged:
        output.warn([f"hardly anything was unlearned: {loss.words}. {next_try(result.info['config'], method)}"])


def next_try(config: Mapping[str, Any], method: str) -> str:
    """Advice where a method changed hardly anything."""
    if config.get("lr") is None:
        return f"Give {method} other settings (medunlearn list methods {method})."
    return (
        f"Give it a larger --lr (now {config['lr']:g}) or more --epochs (now {config['epochs']:g}), or let "
        "`medunlearn tune` search."
    )


def _show_training(run: Run, output: Output, work: str) -> None:
    if output.data(run.info):
        return
    results = run.info["results"]
    output.say(f"{run.folder}: {work}")
    if epochs := results.get("epochs"):
        end = f"ended early after epoch {epochs['done']}" if epochs["stopped_early"] else f"{epochs['done']} epochs"
        best = "no epoch has a number" if epochs["best"] is None else f"the best was epoch {epochs['best']}"
        model = f"the model is epoch {epochs['chosen']}'s ({epochs['select']})"
        output.say(f"{end}; {best}; {model}; see epochs.parquet")
    for line in slow_ways(results):
        output.say(line)
    share = results.get("saved", {}).get("merge_rounding", 0.0)
    if share >= ROUNDED:
        output.say(
            f"merging the LoRA adapter rounded: what that changed is {share:.0%} of what was learned; "
            "--weights fp32 or a larger --lr keeps it"
        )


def slow_ways(results: Mapping[str, Any]) -> Iterable[str]:
    """Sentences on faster ways to run a model that were not available to it."""
    for name, what in (("batches", "batches"), ("option_batches", "batches of options")):
        if "padded" in results.get(name, ""):
            yield f"slower than it could be; {what} were {results[name]}"
    if results.get("context") == "note" and results.get("generation", "").startswith("whole"):
        yield f"slower than it could be; answers were decoded from {results['generation']}"


def evaluate(result: Any, output: Output, *, benchmark: str) -> None:
    for model in result.models:
        for line in slow_ways(model.record.info["results"]):
            output.say(f"{model.run.label}: {line}")
    paper, table = paper_view("evaluate", result, benchmark), result.table()
    facts, health = {"table": table, "comparisons": result.comparisons}, {"health": result.problems}
    facts |= {"private": result.private_table(), "image_control": result.image_control}
    refused = {} if result.reference is None else {"reference": list(result.reference.reasons)}
    if reason := next((model.undecided for model in result.models if model.undecided), ""):
        refused |= {"drawn": [reason]}
    if output.data(
        lambda: {name: part.to_dict("records") for name, part in facts.items()} | health | refused | {**paper.data}
    ):
        return
    warn_of_broken(output, result.problems)
    _measures(output, table, result.models)
    _private(output, result)
    _image_control(output, result.image_control)
    contexts = ", ".join(sorted({model.context for model in result.models}))
    output.line(f"Asked in context: {contexts}. With --json or --out also by kind of question.")
    output.line(*dict.fromkeys(model.probes for model in result.models if model.probes))
    _extractor(output, result.models)
    output.line(*result.caveats)
    output.view(paper)


def _private(output: Output, result: Any) -> None:
    """Print the same table for private questions, whose answers are in no retained record."""
    private = result.private_table()
    if len(private):
        output.line("On private questions alone (no record that may be kept holds the answer):")
        _measures(output, private, result.models)


def _image_control(output: Output, control: Any) -> None:
    """Print the loss with another patient's image and with a blank image, by kind of question."""
    if not len(control):
        return
    main = {"generation": "rouge_l_f", "classification": "option_accuracy"}
    rows = [
        row
        for row in control.to_dict("records")
        if row["measure"] == main.get(row["kind"], "exact_match") and row["fold"] == "train"
    ]
    head = ("model", "side", "kind", "measure", "image", "true", "value", "difference", "low", "high", "n_subjects")
    output.frame("Is the image needed? The true image minus another one", rows, head)


def score(result: Any, output: Output) -> None:
    from medunlearn.audit.audit_result import Audit

    if isinstance(result, Audit):
        from medunlearn.cli.show_audits import audit

        audit(result, output, all=True)
        return
    problems = {result.run.label: result.record.info.problems}
    if not output.data(lambda: {"table": result.summary.to_dict("records"), "health": problems}):
        warn_of_broken(output, problems)
        _measures(output, result.summary.assign(model=result.run.label), [result])
        output.line(*([f"No number here decides anything: {result.undecided}."] if result.undecided else []))
        _extractor(output, [result])


def _extractor(output: Output, models: Sequence[Any]) -> None:
    """Print which extractor found the keywords of the leakage score."""
    from medunlearn.metrics.leakage.leakage_score import extractor_words

    if by := extractor_words({model.extractor for model in models} - {""}):
        output.line(f"ls: {by}.")


def utility(result: Any, output: Output) -> None:
    """Print the main metric of each task, a column per model, and ``utility`` last; the files contain the
    others.
    """
    table = result.table()
    if output.data(lambda: {"table": records(table), "health": result.problems}):
        return
    warn_of_broken(output, result.problems)
    table = table[table["counts"] | (table["name"] == "utility")].rename(columns={"name": "task"})
    table, title = table.assign(about=result.models[0].description), "Utility: {}".format
    options: dict[str, Any] = {"counts": lambda row: str(row["n_scored"]), "empty_rows": True}
    by_model(output, table, title, ["about"], ["task", "metric"], result.models, **options)
    for reason in dict.fromkeys(table["reason"].dropna()):
        output.line(f"{reason[0].upper()}{reason[1:]}.")


def judge(result: Any, output: Output) -> None:
    if not output.data(lambda: {"folder": str(result.run.folder), **result.run.info["results"]}):
        output.line(result.words)
        output.say(f"{result.run.folder}: judged.md, and its tables as Parquet")


def annotate(result: tuple[Path, Path], output: Output) -> None:
    table, page = result
    if not output.data({"csv": str(table), "page": str(page)}):
        output.say(f"{page}: open it in a browser; it loads and sends nothing")
        output.say(f"{table}: the same to fill in with a spreadsheet. Both hold text of records: keep them private")


def agree(result: Any, output: Output) -> None:
    if not output.data(lambda: {name: records(getattr(result, name)) for name in ("agreement", "confusion")}):
        output.line(result.words)


def export(result: Path, output: Output, *, push: str | None = None) -> None:
    if not output.data({"folder": str(result), "pushed": push}):
        output.say(f"{result}: model and tokenizer" + (f", pushed to {push}" if push else ""))


def export_tasks(result: Any, output: Output) -> None:
    facts = {"folder": str(result.folder), "groups": list(result.groups), "tasks": dict(result.tasks)}
    if not output.data(facts):
        output.table("tasks", ("task", "questions"), result.tasks.items())
        output.say(f"{result.folder}: groups {', '.join(result.groups)}")


def listing(result: tuple[str, list[dict[str, str]]], output: Output, *, name: str | None = None) -> None:
    """Print names, each with its first sentence; of a single one everything."""
    title, rows = result
    if output.data(rows) or not rows:
        return
    if name is None:
        output.table(title, ("name", "what"), [(row["name"], first_sentence(row["what"])) for row in rows])
        output.line(f"Everything about one of them: medunlearn list {title} NAME; as data: --json.")
        return
    for row in rows:
        output.line(title, *(f"{key}: {text}" for key, text in row.items() if key != "name" and text))


def first_sentence(text: str) -> str:
    """A text up to the end of its first sentence."""
    return re.split(r"\.(?= [A-Z]|$)", text, maxsplit=1)[0]


def demo(result: Any, output: Output, *, what: str | None = None, out: str = "demo", open: bool = True) -> None:  # noqa: A002
    """
    Args:
        open: open the report in a browser
    """
    if what == "forget":
        from medunlearn.cli.show_requests import forget

        forget(result, output)
    else:
        view(result, output)
        # Without a screen the opener of Linux fails in several lines; the page's path is printed in any case.
        screen = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
        if open and screen and not (output.quiet or output.json):
            import click

            click.launch(str(result.report))


def sweep(result: Any, output: Output) -> None:
    """Print the number of cells by kind and status, and the selected rates."""
    from medunlearn.data.storage import read_json

    if not output.data(lambda: {"report": result.report, **read_json(result.folder / "sweep.json")}):
        counts = Counter(zip(result.cells["kind"], result.cells["status"], strict=True))
        output.table("Cells", ("Kind", "State", "Number"), [(*what, number) for what, number in counts.items()])
        rates = result.search[result.search["chosen"].astype(bool)]
        if len(rates):
            rows = [
                (row.method, f"{row.lr:g}", *(f"{value:.3f}" for value in (row.utility, row.forgetting, row.score)))
                for row in rates.itertuples()
            ]
            output.table("Learning rates", ("Method", "Lr", "Utility", "Forgetting", "Score"), rows)
        if result.content is not None:
            shown = result.content.view()
            output.warn(shown.warnings)
            output.view(shown)
        output.line(f"report: {result.report}" if result.report else "There is no report: no model was evaluated.")
    if result.failed:
        raise MedunlearnError(result.failures())


def tune(result: Any, output: Output) -> None:
    """Print the best settings of each method, and their results on the reporting half."""
    from medunlearn.data.storage import read_json
    from medunlearn.reports.tune_report import headline, main_tables

    if not output.data(lambda: {"report": result.report, **read_json(result.folder / "tune.json")}):
        content = result.content()
        output.line(*result.caveats)
        for table in main_tables(content):
            output.block(table.title, table)
        if answer := headline(content):
            output.line(f"{answer.label}: {answer.answer}. {answer.sentences[0]}")
        output.line(f"report: {result.report}")
    if result.failed:
        raise MedunlearnError(result.failures())


def report(result: tuple[ResultView, Path], output: Output) -> None:
    shown, page = result
    if not output.data({"report": str(page), **shown.data}):
        output.warn(shown.warnings)
        output.view(shown)
        output.say(f"report: {page}")
