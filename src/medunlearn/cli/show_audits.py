"""Results of audits on the terminal and as JSON; record text only on request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from medunlearn.cli.output import Output, Row, records
from medunlearn.cli.result_tables import warn_of_broken
from medunlearn.config.audit import PREFIX
from medunlearn.terminal import absent, with_interval

if TYPE_CHECKING:
    import pandas as pd

    from medunlearn.audit.audit_result import Audit, StageResults
    from medunlearn.audit.worst_cases import WorstCase

EXAMPLES = 3
CASES = 5
LEAK = "run_30"
"""The measure that says whether text of a subject came out."""
CELL = ["corpus", "prefix_tokens", "decoding", "measure"]
_of_baseline = partial(with_interval, value="difference", low="difference_low", high="difference_high")


def audit(
    result: Audit,
    output: Output,
    *,
    paper_bootstrap: bool = False,
    show_text: bool = False,
    all: bool = False,  # noqa: A002
) -> None:
    """
    Args:
        paper_bootstrap: also the paper's 100 x 100 bootstrap and rank-sum test
        show_text: show the longest shared runs, which are text of records
        all: every measure and stage, not the first screen alone
    """
    if output.data(lambda: _audit_json(result, paper_bootstrap, show_text)):
        return
    warn_of_broken(output, result.problems)
    _first_screen(result, output, whole=all)
    if all:
        _measures(result, output)
    if paper_bootstrap:
        _paper(result, output)
    if all and result.stages is not None:
        _stages(result.stages, output)
    if show_text:
        spans = result.spans().sort_values("length", ascending=False, kind="stable").drop_duplicates("text")
        columns = {"probe": "probe_id", result.noun: "length", "from": "in_response", "text": "text"}
        output.frame("Longest shared runs", spans.head(EXAMPLES), columns)


def _first_screen(result: Audit, output: Output, *, whole: bool) -> None:
    """Print the answer with its basis, searches that were not made, and the worst cases, on one screen."""
    from medunlearn.audit.attacker_tiers import tier_rows
    from medunlearn.audit.extraction import share_text
    from medunlearn.audit.sampled_extraction import sample_rows
    from medunlearn.audit.screen_sentences import bound, gap_text
    from medunlearn.audit.way_extraction import way_rows

    screen = result.first_screen()
    output.line(f"{result.label}: {screen.answer}.")
    several = len({corpus for corpus, *_ in screen.groups}) > 1
    if screen.groups and not screen.extraction.problems:
        rows = [
            [
                *([corpus] if several else []),
                group,
                share_text(share),
                bound(share),
                "" if gap is None else gap_text(gap, test),
            ]
            for corpus, group, share, gap, test in screen.groups
        ]
        columns = [*(["corpus"] if several else []), "extracted", "subjects", "95%, exact", "trained minus these"]
        output.table("", columns, rows)
    tiers = tier_rows(screen.tiers, bound)
    for rows_by_column in (way_rows(screen.ways), tiers, sample_rows(screen.samples, screen.extraction)):
        if rows_by_column:
            output.table("", list(rows_by_column[0]), [list(row.values()) for row in rows_by_column])
    output.line(*screen.conclusions)
    if result.unused_chat_template:
        from medunlearn.reports.rank_tables import UNUSED_CHAT

        output.line(UNUSED_CHAT)
    output.line(f"Not looked for: {'; '.join(screen.missing)}.")
    visible = screen.cases if whole else screen.cases[:CASES]
    if visible:
        beside = any(case.baseline is not None for case in visible)
        worst: list[list[object]] = [
            [
                f"{case.patient}{' (never seen)' if case.unseen else ''}",
                f"{case.length or ''}{', boilerplate' if case.boilerplate else ''}",
                "" if case.in_response is None else case.in_response,
                case.prompt_title,
                _kinds_of(case, whole=whole),
                *([case.baseline or "none"] if beside else []),
            ]
            for case in visible
        ]
        columns = ["patient", f"{result.noun} in a row", "from", "prompt", "identifiers"]
        columns += ["baseline's run"] if beside else []
        output.table(f"worst cases, {len(visible)} of {len(screen.cases):,}", columns, worst)
    if not whole:
        output.line(
            f"--all shows every measure. The page: medunlearn report {result.run.folder} --out FOLDER. Whose "
            "a case is: Audit.patients() in Python."
        )


def _kinds_of(case: WorstCase, *, whole: bool) -> str:
    """``4: Hospital names, ...``; every kind if everything is shown."""
    visible = case.kinds if whole else (*case.kinds[:1], *(["..."] if len(case.kinds) > 1 else []))
    return f"{case.identifiers}: {', '.join(visible)}" if case.identifiers else ""


def _measures(result: Audit, output: Output) -> None:
    """Print every measure next to the baselines, with unscored probes and an explanation of the intervals."""
    titles = result.way_titles
    names = ["corpus", "decoding", *(["way"] if titles else [])]
    for (corpus, decoding, *way), part in result.table().groupby(names, sort=False):
        _corpus(result, ", ".join([str(corpus), str(decoding), *(titles[str(name)] for name in way)]), part, output)
    scores = result.scores()
    for (measure, reason), part in scores[scores["value"].isna()].groupby(["measure", "reason"], sort=False):
        output.line(f"Unscored, {len(part)} x {measure}: {reason}.")
    for model in (result, *result.baselines):
        output.line(f"{model.label}: lengths in {model.unit}. {model.run.info.probe_set}".rstrip())
    _show_leaking(result, output)
    subjects = "Intervals: 95%, over subjects (a record is its own where no subject is known)"
    output.line(f"{subjects}; differences are paired on probes.")


def _stages(stages: StageResults, output: Output) -> None:
    if stages.identifiers is not None:
        _identifiers(stages.identifiers, output)
    if stages.kinds is not None:
        rows = [tuple(row.values()) for row in _kind_counts(stages.kinds).to_dict("records")]
        output.table("shared runs by kind", ("sorted by", "group", "kind", "runs"), rows)
    if stages.options is not None:
        _options(stages.options, output)


def _audit_json(result: Audit, paper: bool, show_text: bool) -> dict[str, Any]:
    from medunlearn.audit.probe_summary import leaking_subjects
    from medunlearn.audit.shared_wording import own_runs

    values = {
        "folder": str(result.run.folder),
        "model": result.label,
        "results": result.run.info["results"],
        "health": result.problems,
        "first_screen": result.first_screen(show_text=CASES if show_text else 0).data(),
        "table": records(result.table()),
        "leaking_subjects": records(leaking_subjects(own_runs(result.scores(), result.spans()), LEAK)),
    }
    if (stages := result.stages) is not None:
        if stages.identifiers is not None:
            values["identifiers"] = stages.identifiers.summary()
        if stages.kinds is not None:
            values["kinds"] = records(_kind_counts(stages.kinds))
        if stages.options is not None:
            values["options"] = records(stages.options.table())
    return values | ({"paper_bootstrap": records(result.paper_table())} if paper else {})


def _show_leaking(result: Audit, output: Output) -> None:
    """Print the share of subjects whose text leaked, with its bound."""
    from medunlearn.audit.probe_summary import leaking_subjects
    from medunlearn.audit.shared_wording import own_runs
    from medunlearn.reports.formatting import share_of_subjects, subjects_for_bounds

    if result.run.info.problems:
        output.line("What a broken model does not repeat is no bound on what it memorized.")
        return
    rows = leaking_subjects(own_runs(result.scores(), result.spans()), LEAK).to_dict("records")
    for row in rows:
        visible = share_of_subjects(row["n_leaking"], row["n_subjects"], "subject")
        output.line(f"{row['corpus']}, {row['decoding']}: {LEAK} in the responses of {visible}.")
    if any(not row["n_leaking"] for row in rows):
        output.line(subjects_for_bounds(noun="subject"))


def _corpus(result: Audit, title: str, part: pd.DataFrame, output: Output) -> None:
    """Print the model next to its baselines, measures in their fixed order."""
    model_rows, labels = part[part["model"] == result.label], [model.label for model in result.baselines]
    columns: dict[str, Any] = {"measure": "measure", "prefix": _prefix, result.label: with_interval}
    for label in labels:
        values = _cells(part[part["model"] == label].to_dict("records"), with_interval)
        rows = model_rows[model_rows["baseline"] == label] if "baseline" in model_rows else model_rows[:0]
        gaps = _cells(
            reversed([row for row in rows.to_dict("records") if not absent(row["difference"])]), _of_baseline
        )
        name = f"minus {label}" if len(labels) > 1 else "difference"
        columns |= {label: partial(_look_up, values), name: partial(_look_up, gaps)}
    places = {name: place for place, name in enumerate(dict.fromkeys(model_rows["measure"]))}
    first = model_rows.drop_duplicates(CELL).assign(place=model_rows["measure"].map(places))
    first = first[first["n_scored"] > 0].sort_values(["place", "prefix_tokens"], kind="stable")
    columns["scored"] = lambda row: f"{row['n_scored']}/{row['n_scored'] + row['n_unscored']}"
    output.frame(f"{title}, {model_rows['n_subjects'].max()} subjects", first, columns)


def _prefix(row: Row) -> Any:
    return row["prefix_tokens"] or ("" if str(row.get("way") or PREFIX) != PREFIX else "mixed")


def _cells(rows: Iterable[Row], text: Any) -> dict[tuple[Any, ...], str]:
    return {tuple(row[name] for name in CELL): text(row) for row in rows}


def _look_up(cells: dict[tuple[Any, ...], str], row: Row) -> str:
    return cells.get(tuple(row[name] for name in CELL), "")


def _paper(result: Audit, output: Output) -> None:
    from medunlearn.statistics.two_sample import WARNING

    def p(row: Row) -> str:
        return "" if absent(row.get("p_rank_sum")) else f"{row['p_rank_sum']:.2g} ({row['baseline']})"

    table = result.paper_table()
    columns = {"model": "model", "corpus": "corpus", "measure": "measure", "prefix": _prefix}
    columns |= {"decoding": "decoding", "mean of 100 x 100": with_interval, "p (rank sum)": p}
    output.frame("The paper's bootstrap and test", table[table["n_scored"] > 0], columns)
    output.line(WARNING)


def _kind_counts(kinds: pd.DataFrame) -> pd.DataFrame:
    """Print shared runs by sorter; spans that no rule sorts get their own row."""
    groups = kinds.fillna({"group": "not sorted", "kind": ""}).groupby(["by", "group", "kind"], sort=True)
    return groups.size().rename("runs").reset_index()


def _options(options: Any, output: Output) -> None:
    table = options.table()
    # What gold and wrong options give apart is in the JSON.
    table = table[~table["measure"].str.endswith(("_gold", "_wrong"))]
    columns: dict[str, Any] = {
        **{name: name for name in ("prompt", "group", "measure") if name in table.columns},
        options.label: with_interval,
        "minus baseline": lambda row: "" if absent(row.get("difference")) else _of_baseline(row),
        "scored": lambda row: f"{row['n']}/{row['n'] + row['n_unscored']}",
    }
    output.frame("answer options", table, columns)


def identifiers(result: Any, output: Output) -> None:
    if isinstance(result, tuple):
        _estimate(result, output)
    elif not output.data(lambda: {"folder": str(result.folder), **result.summary()}):
        _identifiers(result, output)


def _estimate(plan: tuple[Any, Any], output: Output) -> None:
    """Print a preview of the requests, and the guard's decision on them."""
    estimate, decision = plan
    if not output.data(lambda: {"estimate": estimate.to_json(), "guard": decision.to_json()}):
        output.line(f"Nothing was sent. {estimate}")
        output.line(decision.reason)


def _identifiers(search: Any, output: Output) -> None:
    """Print identifiers by group and kind, sensitive content, and the detector's recall."""
    _counts("identifiers that leaked (Table 9)", search.table9, "title", output)
    _counts("by kind", search.kinds, "kind", output)
    if search.table10 is not None:
        _counts("further sensitive content, by term lists (Table 10)", search.table10, "title", output)
    if (judged := search.judged) is not None and search.judged_table10 is not None:
        responses = f"{len(judged.outputs)} responses"
        title = f"further sensitive content, by the judge {judged.model}, in {responses} (Table 10)"
        _counts(title, search.judged_table10, "title", output)
        for why, count in judged.unanswered.items():
            output.line(f"Not judged, {count}: {why}.")
    output.line(*search.notes())


def _counts(title: str, table: pd.DataFrame, name: str, output: Output) -> None:
    there = table[table["frequency"] > 0]
    columns = {column: column for column in ("variant", name, "frequency", "responses", "subjects")}
    output.frame(title, there, columns | {"per response": _per_response, "examples": "examples"})
    if nothing := [str(label) for label in dict.fromkeys(table[name]) if label not in set(there[name])]:
        output.line(f"Nothing found: {', '.join(nothing)}.")


def _per_response(row: Row) -> str:
    return with_interval(row, "per_response")


def sheet(result: Any, output: Output) -> None:
    path, spans = result if isinstance(result, tuple) else (result, None)
    if not output.data({"sheet": str(path), **({} if spans is None else {"spans": spans})}):
        number = "" if spans is None else f" {spans} spans;"
        output.say(f"{path}:{number} it holds text of records; keep it where those may be")


def corrected(result: pd.DataFrame, output: Output) -> None:
    columns = ("kind", "found", "confirmed", "rejected", "open", "missed", "corrected")
    _with_shares("corrected counts", result, columns, output)


def recall(result: Any, output: Output) -> None:
    tables, versions, overlap, styles, texts = result
    facts: dict[str, Any] = {name: records(table) for name, table in tables.items()}
    facts = {"detectors": facts, "versions": versions, "overlap": records(overlap), "texts": texts}
    if output.data(lambda: facts | {"styles": None if styles is None else records(styles)}):
        return
    columns = ("labelled", "found", "detected", "right")
    for name, table in tables.items():
        _with_shares(f"{name} ({versions[name]}) on {texts} texts", table, ("kind", *columns), output)
    if styles is not None:
        _with_shares("by style of note", styles, ("style", "group", *columns), output)
    if len(tables) > 1:
        counts: dict[str, Any] = {"found by": "found_by", "labels": "labelled", "names": "names"}
        counts |= {"dates, ages": "dates_ages", "other": "other"}
        share = {"of all": lambda row: f"{100 * row['share']:.1f}%"}
        output.frame("overlap of the detectors", overlap, counts | share)


def _with_shares(title: str, table: pd.DataFrame, names: Sequence[str], output: Output) -> None:
    columns: dict[str, Any] = {name: name for name in names}
    for share in ("recall", "precision"):
        columns[share] = partial(with_interval, value=share, low=f"{share}_low", high=f"{share}_high")
    if not output.data(lambda: records(table)):
        output.frame(title, table, {**columns, "": "reason"})


def kinds(result: Any, output: Output) -> None:
    if isinstance(result, tuple):
        _estimate(result, output)
        return
    counts, agreed = result.counts, result.agreement()
    facts = {"folder": str(result.audit.folder), "judge": result.judge}
    if output.data(lambda: {**facts, "counts": records(counts), "agreement": records(agreed)}):
        return
    judge = "" if result.judge is None else f"; the judge is {result.judge}"
    columns: dict[str, Any] = {"by": "by", "group": "group", "kind": "title", "spans": "spans"}
    columns["of all"] = lambda row: f"{100 * row['share']:.1f}%"
    output.frame(f"memorized spans by kind (Table 3){judge}", counts, columns)
    if len(agreed):
        columns = {
            "ways": lambda row: f"{row['first']} and {row['second']}",
            "of": "of",
            "measure": lambda row: row["measure"].replace("_", " "),
            "value": with_interval,
            "": lambda row: row["words"] or row["reason"] or "",
            "spans": "n",
        }
        output.frame("agreement", agreed, columns)
