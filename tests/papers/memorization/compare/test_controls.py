"""Every claim and every piece of advice on models that did nothing, on memorizing ones, and on scrambled ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest

from medunlearn.data.responses import Response
from medunlearn.papers.memorization.compare import audit_content, read_tables
from medunlearn.papers.memorization.compare.ratios import decoding_differences, differences, ratios
from medunlearn.papers.memorization.compare.trends import SAME_MODEL, beyond_baselines
from medunlearn.papers.memorization.report import AuditContent, audit_report, findings, recommendations
from medunlearn.papers.memorization.report.content import COLUMNS, AuditedModel, stacked
from medunlearn.papers.paper_files import paper_yaml
from medunlearn.reports.claims import FAILS, HOLDS, NOT_MEASURABLE, OPEN, Case, Finding
from medunlearn.reports.markdown import to_markdown

from .conftest import hardness, store_audit, write_options

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
    return (60 if hardness(record) < 0.1 + 0.002 * prefix + 0.02 * copies else 0), 0


def of_others(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
    """As often as :func:`phrases`, in other records."""
    return phrases(f"other {record}", copies, prefix, decoding)


def memorized(factor: float) -> Match:
    """Runs of a model that memorizes as the paper says, over a baseline that hardly repeats."""

    def match(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
        rate = factor * (0.1 + 0.003 * prefix + 0.04 * copies) * (1.0 if decoding == "greedy" else 0.999)
        return (130 if hardness(record) < rate else 0), 0

    return match


def scrambled(label: str) -> Match:
    """Runs of random records at random places, whatever is asked."""

    def match(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
        what = f"{label}/{record}/{prefix}/{decoding}"
        return (60 if hardness(what) < 0.4 else 0), int(hardness(f"place of {what}") * (LIMIT - 60))

    return match


def rarely(record: str, copies: int, prefix: int, decoding: str) -> tuple[int, int]:
    return (60 if hardness(record) < 0.02 else 0), 0


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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Audits of five models by what they were made to repeat."""
    factors = {"med": 1.0, "large": 1.4, "tuned": 0.9, "early": 0.3}
    matches: dict[str, dict[str, Match]] = {
        "nothing": dict.fromkeys(MODELS, phrases),
        "nothing, other records": {"base": phrases, **dict.fromkeys(MODELS[1:], of_others)},
        "everything": {"base": rarely, **{label: memorized(factor) for label, factor in factors.items()}},
        "scrambled": {"base": rarely, **{label: scrambled(label) for label in MODELS[1:]}},
    }
    root = tmp_path_factory.mktemp("controls")
    for name, by_label in matches.items():
        for label, match in by_label.items():
            write(root / name / label, match)
            repeated = name == "everything" and label != "base"
            write_options(root / name / label, 0.7 if repeated else 0.2 if name == "everything" else 0.5)
    return {name: root / name for name in matches}


FLAT, RISEN = (0.1, 0.1, 0.1), (0.1, 0.3, 0.5)


@pytest.fixture(scope="module")
def controls(folders: Mapping[str, Path]) -> Mapping[str, AuditContent]:
    def content(folder: Path) -> AuditContent:
        trained = FLAT if folder.name == "nothing" else RISEN
        held_out = FLAT if folder.name in ("nothing", "everything") else RISEN
        relations = {**RELATIONS, "epoch_table": epochs(folder, trained, held_out)}
        return audit_content([folder / label for label in MODELS], relations, replicates=200)

    return {name: content(folder) for name, folder in folders.items()}


def finding(content: AuditContent, name: str) -> Finding:
    return next(finding for finding in findings(content) if finding.name == name)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_holds_of_memorizers_and_not_of_models_that_did_nothing(
    controls: Mapping[str, AuditContent], rule: str
) -> None:
    verdicts = {name: finding(content, rule).verdict for name, content in controls.items()}
    assert verdicts["everything"] == HOLDS
    assert HOLDS not in (verdicts["nothing"], verdicts["nothing, other records"])
    # Scrambled models do repeat more than the baseline: that much is true of them.
    assert (verdicts["scrambled"] == HOLDS) == (rule == "above baseline")
    assert finding(controls["everything"], rule).cases


@pytest.mark.parametrize("advice", ADVICE)
def test_no_advice_for_models_that_did_nothing(controls: Mapping[str, AuditContent], advice: str) -> None:
    called = {
        name: {entry.name for entry in recommendations(controls[name], findings(controls[name]))}
        for name in ("nothing", "everything")
    }
    assert advice not in called["nothing"]
    # Nothing in these audits is a set phrase or knowledge by its kind.
    assert (advice in called["everything"]) == (advice not in {"clinical narrative", "set phrases", "knowledge"})


@pytest.fixture(scope="module")
def alone(folders: Mapping[str, Path]) -> AuditContent:
    """Memorizing models without a baseline."""
    audits = [folders["everything"] / label for label in MODELS[1:]]
    return audit_content(audits, {**RELATIONS, "baselines": {}}, replicates=20)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in {"more epochs", "before overfitting"}])
def test_without_a_baseline_nothing_is_called_memorized(alone: AuditContent, rule: str) -> None:
    # Pairs before and after are held against each other, and are equal here.
    assert finding(alone, rule).verdict == (OPEN if rule == "option regeneration" else NOT_MEASURABLE)


def cases(folder: Path, rule: str, *, tuned: bool = False) -> tuple[Case, ...]:
    """Cases of a rule on audits of med and its baseline, base, from the tables that rules read alone."""
    audits = {label: read_tables(folder / label) for label in ("base", "med", *(["tuned"] if tuned else []))}
    med, draws = audits["med"], {"replicates": 100, "seed": 0}
    gaps = [differences(med, audits["base"], "baseline", draws), *decoding_differences(med, draws)]
    tables = {name: stacked(name, []) for name in COLUMNS} | {
        "ratios": stacked("ratios", [ratios(med, draws)]),
        "differences": stacked("differences", gaps),
        "beyond": beyond_baselines(audits, {"med": ["base"]}, [("med", "tuned")] if tuned else [], draws),
    }
    models = [AuditedModel(label, "tokens", ("base",) if label == "med" else (), {}) for label in audits]
    return finding(AuditContent("", tuple(models), tables), rule).cases


def write_all(folder: Path, **matches: Match) -> Path:
    for label, match in matches.items():
        write(folder / label, match)
    return folder


@pytest.mark.parametrize(("text", "limit"), [(300, 60), (60, 300), (300, 199)])
def test_a_short_window_does_not_put_memorization_at_the_front(tmp_path: Path, text: int, limit: int) -> None:
    """The first 100 of at most 60 tokens hold all of them; of 199, more than half."""
    for label, match in (("base", rarely), ("med", memorized(1.0))):
        write(tmp_path / label, match, text=text, limit=limit)
    decided = cases(tmp_path, "first 100 tokens")
    assert {case.verdict for case in decided} == {NOT_MEASURABLE}
    assert all("of what could be repeated stands in the first 100 tokens" in case.says for case in decided)


def test_a_text_that_is_repeated_whole_does_not_stand_in_the_first_100_tokens(tmp_path: Path) -> None:
    """One run of 300 tokens starts at the first; a third of its tokens are among the first 100."""
    folder = write_all(tmp_path, base=rarely, med=lambda record, *_: (300 if hardness(record) < 0.8 else 0, 0))
    decided = cases(folder, "first 100 tokens")
    assert {case.verdict for case in decided} == {FAILS}
    assert {round(case.evidence[0].value or 0.0, 6) for case in decided} == {round(1 / 3 - 1 / 2, 6)}


def test_top_1_decoding_is_no_other_decoding(tmp_path: Path) -> None:
    for label, match in (("base", rarely), ("med", memorized(1.0))):
        write(tmp_path / label, match, decoding="top_k_1")
    (case, *_) = cases(tmp_path, "decoding")
    assert (case.verdict, case.says) == (NOT_MEASURABLE, "top-1 decoding is greedy")


def test_set_phrases_that_stay_are_no_memory_that_stays(tmp_path: Path) -> None:
    """The tuned model lost all that it had memorized and kept the baseline's phrases, which are more."""

    def below(share: float) -> Match:
        return lambda record, *_: (60 if hardness(record) < share else 0, 0)

    folder = write_all(tmp_path, base=below(0.6), med=below(0.9), tuned=below(0.6))
    assert {case.verdict for case in cases(folder, "persistence", tuned=True)} == {FAILS}
    for label in ("med", "tuned"):
        path = folder / label / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "inputs": {"model": "the same"}}))
    same = {(case.verdict, case.says) for case in cases(folder, "persistence", tuned=True)}
    assert same == {(NOT_MEASURABLE, SAME_MODEL)}


def test_silence_about_identifiers_is_no_clean_result(tmp_path: Path) -> None:
    """Nothing came back, and nobody looked for identifiers: the page says both, and how high the ratio may be."""
    write_all(tmp_path, base=lambda *_: (0, 0), med=lambda *_: (0, 0))
    for path in (*tmp_path.glob("*/findings.parquet"), *tmp_path.glob("*/kinds.parquet")):
        path.unlink()
    quiet = audit_content([tmp_path / label for label in ("base", "med")], {"baselines": {"med": ["base"]}})
    page = to_markdown(audit_report(quiet))
    assert recommendations(quiet, findings(quiet)) == ()
    assert "identifiers and sensitive details (--identifiers)" in page
    assert "removed answer options (--options)" in page
    assert f"{RECORDS} subjects" in page
    assert OPEN in {finding.verdict for finding in findings(quiet)}
