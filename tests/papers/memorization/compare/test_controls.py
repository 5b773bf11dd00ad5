"""Every claim and every piece of advice on models that did nothing, on memorizing ones, and on scrambled ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from medunlearn.data.responses import Response
from medunlearn.papers.memorization.compare import audit_content
from medunlearn.papers.memorization.compare.trends import SAME_MODEL
from medunlearn.papers.memorization.report import AuditContent, audit_report, findings, recommendations
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.claims import FAILS, HOLDS, NOT_MEASURABLE, OPEN, Case, Finding
from medunlearn.reports.markdown import to_markdown

from .conftest import known, store_audit, write_options

RULES = [claim["name"] for claim in paper_yaml("memorization", "claims")]
ADVICE = [entry["name"] for entry in paper_yaml("memorization", "recommendations")]
RECORDS, PREFIXES, COPIES = 120, (50, 100), (1, 4, 16)
TEXT, LIMIT = 300, 300
MODELS = ("base", "med", "large", "tuned", "early")
RELATIONS = {
    "baselines": {label: ["base"] for label in MODELS[1:]},
    "larger": [["large", "med"]],
    "persistence": [["med", "tuned"]],
    "epochs": {"training of med": {"early": 1, "med": 4}},
    "clinical": ["notes"],
}
Match = Callable[[str, int, int, str], tuple[int, int]]
"""Record, copies, prefix, decoding -> length of the run that comes back, and its place in the response."""


def write(
    folder: Path, match: Match, *, text: int = TEXT, limit: int = LIMIT, decoding: str = "temperature_0.7"
) -> Path:
    """One audit; what comes back is set. A run gives away a name and is of a patient's note."""
    probes, scores, spans, responses, copies, leaks = [], [], [], [], [], []
    for number in range(RECORDS):
        record, many = f"r{number}", COPIES[number % len(COPIES)]
        for prefix in PREFIXES:
            probe = f"{record}@{prefix}"
            probes.append((probe, record, record, "notes", prefix, list(range(text))))
            copies.append(many)
            for variant in ("greedy", decoding):
                length, place = match(record, many, prefix, variant)
                length = min(length, text, limit)
                scores += [(probe, variant, f"run_{n}", float(length >= n), None) for n in (30, 50)]
                responses.append(Response(probe, variant, 0, "words", tuple(range(limit)), finished=False))
                if length:
                    spans.append((probe, variant, length, place, f"{record} says"))
                    leaks.append((record, probe, variant, 0, "name", 0, 4, "exact", f"Name {record}", True, False))
    folder = store_audit(folder, folder.name, probes, scores, spans, responses, copies=copies)
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**info, "config": {"max_new_tokens": limit}}))
    names = ["record_id", "probe_id", "variant", "sample", "kind", "place", "end", "match", "value"]
    table = pd.DataFrame(leaks, columns=[*names, "in_record", "in_prefix"])
    table.to_parquet(folder / "findings.parquet")
    rows = [(*leak[1:4], 0, "patient_information", "harmful", "rules") for leak in leaks]
    table = pd.DataFrame(rows, columns=["probe_id", "variant", "sample", "span", "kind", "group", "by"])
    table.to_parquet(folder / "kinds.parquet")
    return folder


def phrases(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
    """Set phrases: more of them in copied records and behind long prefixes, at the beginning, 60 tokens each."""
    return (60 if known(record) < 0.1 + 0.002 * prefix + 0.02 * copies else 0), 0


def of_others(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
    """As often as :func:`phrases`, in other records."""
    return phrases(f"other {record}", copies, prefix, decoding)


def memorized(factor: float) -> Match:
    """What comes back of a model that memorizes as the paper says, over a baseline that hardly repeats."""

    def match(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
        rate = factor * (0.1 + 0.003 * prefix + 0.04 * copies) * (1.0 if decoding == "greedy" else 0.999)
        return (130 if known(record) < rate else 0), 0

    return match


def scrambled(label: str) -> Match:
    """Runs of random records at random places, whatever is asked."""

    def match(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
        what = f"{label}/{record}/{prefix}/{decoding}"
        return (60 if known(what) < 0.4 else 0), int(known(f"place of {what}") * (LIMIT - 60))

    return match


def rarely(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
    return (60 if known(record) < 0.02 else 0), 0


def epochs(folder: Path, trained: tuple[float, ...], held_out: tuple[float, ...]) -> Path:
    lines = {"run_30": trained, "run_30 (held out)": held_out, "validation_loss": (3.0, 2.0, 1.0)}
    rows = [
        (epoch, measure, value, value - 0.05, value + 0.05)
        for measure, values in lines.items()
        for epoch, value in enumerate(values)
    ]
    path = folder / "epochs.parquet"
    pd.DataFrame(rows, columns=["epoch", "measure", "value", "low", "high"]).to_parquet(path)
    return path


def content(
    folder: Path,
    matches: Mapping[str, Match],
    options: Mapping[str, float],
    trained: tuple[float, ...],
    held_out: tuple[float, ...],
    **changes: Any,
) -> AuditContent:
    for label, match in matches.items():
        write(folder / label, match)
        write_options(folder / label, options[label])
    relations = {**RELATIONS, "epoch_table": epochs(folder, trained, held_out), **changes}
    return audit_content([folder / label for label in matches], relations, replicates=200)


@pytest.fixture(scope="module")
def controls(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, AuditContent]:
    def make(name: str, *args: Any) -> AuditContent:
        return content(tmp_path_factory.mktemp(name), *args)

    flat, risen, alike = (0.1, 0.1, 0.1), (0.1, 0.3, 0.5), dict.fromkeys(MODELS, 0.5)
    factors = {"med": 1.0, "large": 1.4, "tuned": 0.9, "early": 0.3}
    memorizers = {label: memorized(factor) for label, factor in factors.items()}
    return {
        "nothing": make("nothing", dict.fromkeys(MODELS, phrases), alike, flat, flat),
        "nothing, other records": make(
            "others", {"base": phrases, **dict.fromkeys(MODELS[1:], of_others)}, alike, risen, risen
        ),
        "everything": make(
            "everything", {"base": rarely, **memorizers}, {**dict.fromkeys(MODELS, 0.7), "base": 0.2}, risen, flat
        ),
        "scrambled": make(
            "scrambled", {"base": rarely, **{label: scrambled(label) for label in MODELS[1:]}}, alike, risen, risen
        ),
    }


def finding(content: AuditContent, name: str) -> Finding:
    return next(one for one in findings(content) if one.name == name)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_holds_of_memorizers_and_not_of_models_that_did_nothing(
    controls: Mapping[str, AuditContent], rule: str
) -> None:
    verdicts = {name: finding(one, rule).verdict for name, one in controls.items()}
    assert verdicts["everything"] == HOLDS
    assert HOLDS not in (verdicts["nothing"], verdicts["nothing, other records"])
    # Scrambled models do repeat more than the baseline: that much is true of them.
    assert (verdicts["scrambled"] == HOLDS) == (rule == "above baseline")
    assert finding(controls["everything"], rule).cases


@pytest.mark.parametrize("advice", ADVICE)
def test_no_advice_for_models_that_did_nothing(controls: Mapping[str, AuditContent], advice: str) -> None:
    called = {name: {one.name for one in recommendations(each, findings(each))} for name, each in controls.items()}
    assert advice not in called["nothing"]
    # Nothing in these audits is a set phrase or knowledge by its kind.
    assert (advice in called["everything"]) == (advice not in {"clinical narrative", "set phrases", "knowledge"})


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> AuditContent:
    """Memorizing models without a baseline."""
    models = {label: memorized(1.0) for label in MODELS[1:]}
    rates, risen, flat = dict.fromkeys(MODELS, 0.5), (0.1, 0.3, 0.5), (0.1, 0.1, 0.1)
    return content(tmp_path_factory.mktemp("alone"), models, rates, risen, flat, baselines={})


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in {"more epochs", "before overfitting"}])
def test_without_a_baseline_nothing_is_called_memorized(alone: AuditContent, rule: str) -> None:
    # Pairs before and after are held against each other, and are equal here.
    assert finding(alone, rule).verdict == (OPEN if rule == "option regeneration" else NOT_MEASURABLE)


def cases(tmp_path: Path, rule: str, match: Match, **how: Any) -> tuple[Case, ...]:
    for label, what in (("base", rarely), ("med", match)):
        write(tmp_path / label, what, **how)
    folders = [tmp_path / label for label in ("base", "med")]
    return finding(audit_content(folders, {"baselines": {"med": ["base"]}}, replicates=100), rule).cases


@pytest.mark.parametrize(("text", "limit"), [(300, 60), (60, 300), (300, 199)])
def test_a_short_window_does_not_put_memorization_at_the_front(tmp_path: Path, text: int, limit: int) -> None:
    """The first 100 of at most 60 tokens hold all of them; of 199, more than half."""
    decided = cases(tmp_path, "first 100 tokens", memorized(1.0), text=text, limit=limit)
    assert {case.verdict for case in decided} == {NOT_MEASURABLE}
    assert all("of what could be repeated stands in the first 100 tokens" in case.says for case in decided)


def test_a_text_that_is_repeated_whole_does_not_stand_in_the_first_100_tokens(tmp_path: Path) -> None:
    """One run of 300 tokens starts at the first; a third of its tokens are among the first 100."""
    decided = cases(tmp_path, "first 100 tokens", lambda record, *_: (300 if known(record) < 0.8 else 0, 0))
    assert {case.verdict for case in decided} == {FAILS}
    assert {round(case.evidence[0].value or 0.0, 6) for case in decided} == {round(1 / 3 - 1 / 2, 6)}


def test_top_1_decoding_is_no_other_decoding(tmp_path: Path) -> None:
    (case, *_) = cases(tmp_path, "decoding", memorized(1.0), decoding="top_k_1")
    assert (case.verdict, case.says) == (NOT_MEASURABLE, "top-1 decoding is greedy")


def test_set_phrases_that_stay_are_no_memory_that_stays(tmp_path: Path) -> None:
    """The tuned model lost all that it had memorized and kept the baseline's phrases, which are more."""

    def both(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
        return (60 if known(record) < 0.9 else 0), 0

    def only_phrases(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
        return (60 if known(record) < 0.6 else 0), 0

    for label, match in (("base", only_phrases), ("med", both), ("tuned", only_phrases)):
        write(tmp_path / label, match)
    relations = {"baselines": {"med": ["base"]}, "persistence": [["med", "tuned"]]}
    folders = [tmp_path / label for label in ("base", "med", "tuned")]
    persisted = finding(audit_content(folders, relations, replicates=100), "persistence")
    assert persisted.verdict == FAILS
    for label in ("med", "tuned"):
        path = tmp_path / label / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "inputs": {"model": "the same"}}))
    persisted = finding(audit_content(folders, relations, replicates=100), "persistence")
    assert {(case.verdict, case.says) for case in persisted.cases} == {(NOT_MEASURABLE, SAME_MODEL)}


def test_silence_about_identifiers_is_no_clean_result(tmp_path: Path) -> None:
    """Nothing came back, and nobody looked for identifiers: the page says both, and how high the ratio may be."""
    for label in ("base", "med"):
        folder = write(tmp_path / label, lambda *_: (0, 0))
        for name in ("findings", "kinds"):
            (folder / f"{name}.parquet").unlink()
    quiet = audit_content([tmp_path / label for label in ("base", "med")], {"baselines": {"med": ["base"]}})
    page = to_markdown(audit_report(quiet))
    assert recommendations(quiet, findings(quiet)) == ()
    assert "identifiers and sensitive details (--identifiers)" in page
    assert "removed answer options (--options)" in page
    assert f"{RECORDS} subjects" in page
    assert OPEN in {one.verdict for one in findings(quiet)}
