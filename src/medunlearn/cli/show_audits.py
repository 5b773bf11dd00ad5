"""Results of audits on the terminal and as JSON; no text of records unless it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medunlearn.cli.output import Output, absent, records, with_interval

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.audit.audit import Audit

EXAMPLES = 3
CELL = ["corpus", "prefix_tokens", "decoding", "measure"]


def audit(result: Audit, output: Output, *, paper_bootstrap: bool = False, show_text: bool = False) -> None:
    """
    Args:
        paper_bootstrap: also the paper's 100 x 100 bootstrap and rank-sum test
        show_text: show the longest shared runs, which are text of records
    """
    if output.data(lambda: _audit_json(result, paper_bootstrap)):
        return
    table = result.table()
    for (corpus, decoding), part in table.groupby(["corpus", "decoding"], sort=False):
        _corpus(result, f"{corpus}, {decoding}", part, output)
    scores = result.scores()
    for (measure, reason), part in scores[scores["value"].isna()].groupby(["measure", "reason"], sort=False):
        output.line(f"Unscored, {len(part)} x {measure}: {reason}.")
    for one in (result, *result.baselines):
        output.line(f"{one.label}: lengths in {one.unit}.")
    subjects = "Intervals: 95%, bootstrap over subjects (a record is its own where no subject is known)"
    output.line(f"{subjects}; differences are paired on probes.")
    if paper_bootstrap:
        _paper(result, output)
    if result.stages is not None:
        _parts(result.stages, output)
    if show_text:
        spans = result.spans().sort_values("length", ascending=False, kind="stable").drop_duplicates("text")
        rows = spans.head(EXAMPLES)[["probe_id", "length", "in_response", "text"]].itertuples(index=False)
        output.table("Longest shared runs", ("probe", f"{result.noun}", "from", "text"), map(tuple, rows))


def _audit_json(result: Audit, paper: bool) -> dict[str, Any]:
    values = {
        "folder": str(result.run.folder),
        "model": result.label,
        "results": result.run.info["results"],
        "table": records(result.table()),
    }
    if (parts := result.stages) is not None:
        if parts.identifiers is not None:
            values["identifiers"] = parts.identifiers.summary()
        if parts.kinds is not None:
            values["kinds"] = records(_kind_counts(parts.kinds))
        if parts.options is not None:
            values["options"] = records(parts.options.table())
    return values | ({"paper_bootstrap": records(result.paper_table())} if paper else {})


def _corpus(result: Audit, title: str, part: pd.DataFrame, output: Output) -> None:
    """The model beside its baselines, measures in their own order."""
    own = part[part["model"] == result.label]
    others = [one.label for one in result.baselines]
    columns = ["measure", "prefix", result.label]
    for label in others:
        columns += [label, f"minus {label}" if len(others) > 1 else "difference"]
    cells = {(label, *key): row for label in others for key, row in _by_cell(part[part["model"] == label])}
    places = {name: place for place, name in enumerate(dict.fromkeys(own["measure"]))}
    first = own.drop_duplicates(CELL).assign(place=own["measure"].map(places))
    rows = []
    for key, row in _by_cell(first.sort_values(["place", "prefix_tokens"], kind="stable")):
        if row["n_scored"]:
            shown = [row["measure"], row["prefix_tokens"] or "mixed", with_interval(row)]
            for label in others:
                other = cells.get((label, *key))
                shown += ["" if other is None else with_interval(other), _difference(own, key, label)]
            rows.append((*shown, f"{row['n_scored']}/{row['n_scored'] + row['n_unscored']}"))
    output.table(f"{title}, {own['n_subjects'].max()} subjects", (*columns, "scored"), rows)


def _by_cell(table: pd.DataFrame) -> list[tuple[tuple[Any, ...], Mapping[Any, Any]]]:
    return [(tuple(row[name] for name in CELL), row) for row in table.to_dict("records")]


def _difference(own: pd.DataFrame, key: Sequence[Any], label: str) -> str:
    rows = own[own["baseline"] == label] if "baseline" in own else own[:0]
    for cell, row in _by_cell(rows):
        if cell == tuple(key) and not absent(row["difference"]):
            return with_interval(row, "difference", "difference_low", "difference_high")
    return ""


def _paper(result: Audit, output: Output) -> None:
    from medunlearn.statistics.two_sample import WARNING

    table = result.paper_table()
    rows = []
    for row in table[table["n_scored"] > 0].to_dict("records"):
        p = "" if absent(row.get("p_rank_sum")) else f"{row['p_rank_sum']:.2g} ({row['baseline']})"
        cell = (row["corpus"], row["measure"], row["prefix_tokens"] or "mixed", row["decoding"])
        rows.append((row["model"], *cell, with_interval(row), p))
    columns = ("model", "corpus", "measure", "prefix", "decoding", "mean of 100 x 100", "p (rank sum)")
    output.table("The paper's bootstrap and test", columns, rows)
    output.line(WARNING)


def _parts(parts: Any, output: Output) -> None:
    """A table for each further step."""
    if parts.identifiers is not None:
        _identifiers(parts.identifiers, output)
    if parts.kinds is not None:
        rows = [tuple(row.values()) for row in _kind_counts(parts.kinds).to_dict("records")]
        output.table("shared runs by kind", ("sorted by", "group", "kind", "runs"), rows)
    if parts.options is not None:
        _options(parts.options, output)


def _kind_counts(kinds: pd.DataFrame) -> pd.DataFrame:
    """Shared runs by how they were sorted; what no rule takes is a row of its own."""
    counted = kinds.fillna({"group": "not sorted", "kind": ""}).groupby(["by", "group", "kind"], sort=True)
    return counted.size().rename("runs").reset_index()


def _options(options: Any, output: Output) -> None:
    table = options.table()
    # What gold and wrong options give apart is in the JSON.
    table = table[~table["measure"].str.endswith(("_gold", "_wrong"))]
    own = [name for name in ("prompt", "group", "measure") if name in table.columns]
    rows = []
    for row in table.to_dict("records"):
        gap = (
            ""
            if absent(row.get("difference"))
            else with_interval(row, "difference", "difference_low", "difference_high")
        )
        counts = f"{row['n']}/{row['n'] + row['n_unscored']}"
        rows.append((*(row[name] for name in own), with_interval(row), gap, counts))
    output.table("answer options", (*own, options.label, "minus baseline", "scored"), rows)


def identifiers(result: Any, output: Output) -> None:
    if isinstance(result, tuple):
        _estimate(result, output)
    elif not output.data(lambda: {"folder": str(result.folder), **result.summary()}):
        _identifiers(result, output)


def _estimate(plan: tuple[Any, Any], output: Output) -> None:
    """Preview of the requests, and the guard's decision on them."""
    estimate, decision = plan
    if not output.data(lambda: {"estimate": estimate.to_json(), "guard": decision.to_json()}):
        output.line(f"Nothing was sent. {estimate}")
        output.line(decision.reason)


def _identifiers(found: Any, output: Output) -> None:
    """Identifiers by group and kind, sensitive content, and the detector's recall."""
    _counts("identifiers that leaked (Table 9)", found.table9, "title", output)
    _counts("by kind", found.kinds, "kind", output)
    if found.table10 is not None:
        _counts("further sensitive content, by term lists (Table 10)", found.table10, "title", output)
    if (judged := found.judged) is not None and found.judged_table10 is not None:
        of = f"{len(judged.outputs)} responses"
        title = f"further sensitive content, by the judge {judged.model}, in {of} (Table 10)"
        _counts(title, found.judged_table10, "title", output)
        for why, count in judged.unanswered.items():
            output.line(f"Not judged, {count}: {why}.")
    for line in found.notes():
        output.line(line)


def _counts(title: str, table: pd.DataFrame, name: str, output: Output) -> None:
    there, columns = table[table["frequency"] > 0], ("variant", name, "frequency", "responses", "subjects")
    rows = [
        (*(row[one] for one in columns), with_interval(row, "per_response"), row["examples"])
        for row in there.to_dict("records")
    ]
    output.table(title, (*columns, "per response", "examples"), rows)
    if nothing := [str(one) for one in dict.fromkeys(table[name]) if one not in set(there[name])]:
        output.line(f"Nothing found: {', '.join(nothing)}.")


def sheet(result: Any, output: Output) -> None:
    path, spans = result if isinstance(result, tuple) else (result, None)
    output.data({"sheet": str(path), **({} if spans is None else {"spans": spans})})
    if not output.json:
        number = "" if spans is None else f" {spans} spans;"
        output.say(f"{path}:{number} it holds text of records; keep it where those may be")


def corrected(result: pd.DataFrame, output: Output) -> None:
    columns = ("kind", "found", "confirmed", "rejected", "open", "missed", "corrected")
    _with_shares("corrected counts", result, columns, output)


def recall(result: tuple[pd.DataFrame, int], output: Output, *, detector: str = "patterns") -> None:
    table, texts = result
    _with_shares(f"{detector} on {texts} texts", table, ("kind", "labelled", "found", "detected", "right"), output)


def _with_shares(title: str, table: pd.DataFrame, columns: Sequence[str], output: Output) -> None:
    if output.data(lambda: records(table)):
        return
    rows = [
        (
            *(row[name] for name in columns),
            *(with_interval(row, name, f"{name}_low", f"{name}_high") for name in ("recall", "precision")),
            row["reason"],
        )
        for row in table.to_dict("records")
    ]
    output.table(title, (*columns, "recall", "precision", ""), rows)


def kinds(result: Any, output: Output) -> None:
    if isinstance(result, tuple):
        _estimate(result, output)
        return
    counts, agreed = result.counts, result.agreement()
    tables = {"counts": counts, "agreement": agreed}
    facts = {"folder": str(result.audit.folder), "judge": result.judge}
    if output.data(lambda: facts | {name: records(table) for name, table in tables.items()}):
        return
    rows = [
        (row["by"], row["group"], row["title"], row["spans"], f"{100 * row['share']:.1f}%")
        for row in counts.to_dict("records")
    ]
    judge = "" if result.judge is None else f"; the judge is {result.judge}"
    output.table(f"memorized spans by kind (Table 3){judge}", ("by", "group", "kind", "spans", "of all"), rows)
    if len(agreed):
        lines = [
            (
                f"{row['first']} and {row['second']}",
                row["of"],
                row["measure"].replace("_", " "),
                with_interval(row),
                row["words"] or row["reason"] or "",
                row["n"],
            )
            for row in agreed.to_dict("records")
        ]
        output.table("agreement", ("ways", "of", "measure", "value", "", "spans"), lines)


def diagnosis(result: Any, output: Output) -> None:
    from medunlearn.papers.memorization.diagnosis import report
    from medunlearn.papers.memorization.diagnosis.rise import rise_finding
    from medunlearn.reports.claims import cases_table

    if output.data(
        lambda: {
            "folder": str(result.record.folder),
            "accuracy": records(result.accuracy),
            "differences": records(result.differences),
            "rise": result.results["rise"],
            "epochs": records(result.epochs),
        }
    ):
        return
    rise = rise_finding(result.results["rise"])
    for title, table in (
        (f"top-k accuracy, {result.settings.part} part", report.accuracy_table(result)),
        ("differences, paired on patients", report.difference_table(result)),
        ("does memorization rise while the validation loss falls?", cases_table(rise) if rise else None),
    ):
        if table is not None:
            output.table(title, [str(cell) for cell in table.columns], [list(map(str, row)) for row in table.rows])
    if (epochs := report.epoch_table(result)) is not None:
        # Without intervals, which stand in the report, an epoch takes a narrow column.
        rows = [[str(row[0]), *(cell.text for cell in row[1:])] for row in epochs.rows]
        output.table("epoch by epoch", [cell.text for cell in epochs.columns], rows)
    for line in (report.stopping(result), report.small_text(result), f"Report: {result.report}"):
        if line:
            output.line(line)


def audit_demo(result: Any, output: Output, out: str) -> None:
    from medunlearn.papers.memorization.demo.demo import WHOLE

    names = ("findings", "positions", "persistence")
    if output.data(
        lambda: {
            "folder": out,
            "report": str(result.report),
            **{name: records(getattr(result, name)) for name in names},
        }
    ):
        return
    audit(result.audits[WHOLE], output)
    starts, tokens = (
        result.positions.query("measure == @name").to_dict("records") for name in ("starts", "tokens")
    )
    rows = [
        (row["corpus"], row["prefix_tokens"], f"{row['first']}-{row['last']}", *map(with_interval, (row, other)))
        for row, other in zip(starts, tokens, strict=True)
    ]
    columns = ("corpus", "prefix", "tokens", "of all runs", "of all matched tokens")
    output.table("where memorized runs of 30 start, and where matched tokens are (Figure 3)", columns, rows)
    rows = [
        (row["prefix_tokens"], row["measure"].replace("_", " "), with_interval(row), row["n"])
        for row in result.persistence.to_dict("records")
    ]
    title = "what is memorized before or after further fine-tuning, runs of 50 (Table 7)"
    output.table(title, ("prefix", "share", "of the union", "probes"), rows)
    rows = [
        (row["statement"], with_interval(row, "difference"), row["n"], row["verdict"])
        for row in result.findings.to_dict("records")
    ]
    output.table("Is it so? Each difference is above 0 where it is", ("what", "difference", "texts", "it"), rows)
    output.say(f"{result.report}: the same with figures")
