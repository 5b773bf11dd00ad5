"""The memorization paper's findings as rules on one's own audits: each holds, does not hold, or cannot be settled.

A case is decided only by an interval that leaves its threshold out. The paper states its findings without
intervals on differences and without thresholds; the thresholds are ours.

Source: Memorization in Large Language Models in Medicine, Sections 4.1 to 4.3 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from medunlearn.papers.amnesia.report.cases import Evidence
from medunlearn.papers.amnesia.report.content import Contrast
from medunlearn.papers.memorization.report.cases import Case, Finding
from medunlearn.papers.memorization.report.content import GREEDY, PRIMARY, AuditContent, contrast_of
from medunlearn.papers.memorization.report.epochs import epoch_cases
from medunlearn.reports.readings import number
from medunlearn.reports.verdicts import FAILS, HOLDS, OPEN, Verdict, decide

Judge = Callable[[AuditContent], Iterator[Case]]

MATCHED = "matched tokens, runs of 30"
"""What a trend over positions is of."""

LITTLE_SHARE, LITTLE_POINTS = 0.2, 0.01
"""A decoding that moves a ratio by no more than a fifth of it, or by one point, has little effect."""


def findings(content: AuditContent) -> tuple[Finding, ...]:
    """Every finding with its cases, in the paper's order."""
    return tuple(
        Finding(name, claim, rule, published, needs, tuple(judge(content)))
        for name, claim, rule, published, needs, judge in _FINDINGS
    )


def _differences(relation: str, words: Mapping[Verdict, str]) -> Judge:
    def judge(content: AuditContent) -> Iterator[Case]:
        for row in content.rows("differences"):
            if row["relation"] != relation or row["measure"] != PRIMARY or row["decoding"] != GREEDY:
                continue
            found = contrast_of(row, "difference")
            verdict = decide([found.above])
            evidence = (Evidence(f"{PRIMARY}, difference", found),)
            yield Case(f"{row['model']} − {row['against']}", _where(row), verdict, words[verdict], evidence)

    return judge


def _trends(factor: str, measure: str = PRIMARY, *, falls: bool = False) -> Judge:
    def judge(content: AuditContent) -> Iterator[Case]:
        for row in content.rows("trends"):
            if row["factor"] != factor or row["measure"] != measure:
                continue
            found = contrast_of(row, "slope")
            rises = found.above
            verdict = decide([rises if rises is None or not falls else not rises])
            says = {True: "rises", False: "falls", None: "no trend that can be told from none"}[rises]
            evidence = (Evidence(f"{measure}, change for {row['step']}", found),)
            yield Case(str(row["model"]), _where(row), verdict, says, evidence)

    return judge


def _decoding(content: AuditContent) -> Iterator[Case]:
    for row in content.rows("differences"):
        if row["relation"] != "decoding" or row["measure"] != PRIMARY:
            continue
        found = contrast_of(row, "difference")
        base = content.reading(row["model"], row["corpus"], int(row["prefix_tokens"]), PRIMARY)
        level = 0.0 if base is None or base.value is None else base.value
        margin = max(LITTLE_POINTS, LITTLE_SHARE * level)
        verdict, says = _within(found, margin)
        if level == 0.0 and found.value == 0.0:
            verdict, says = OPEN, "neither repeats anything"
        evidence = (Evidence(f"{PRIMARY}, {row['decoding']} − greedy (margin {margin:.3f})", found),)
        yield Case(str(row["model"]), f"{_where(row)}, {row['decoding']}", verdict, says, evidence)


def _within(found: Contrast, margin: float) -> tuple[Verdict, str]:
    if found.low is None or found.high is None:
        return OPEN, "no interval"
    if -margin <= found.low and found.high <= margin:
        return HOLDS, "little effect"
    if found.low > margin or found.high < -margin:
        return FAILS, "more than little"
    return OPEN, "the interval crosses the margin"


def _first_segment(content: AuditContent) -> Iterator[Case]:
    words = {HOLDS: "most runs start there", FAILS: "most start later", OPEN: "half of them or so, or too few"}
    for row in content.rows("positions"):
        if (row["segment"], row["measure"], row["at_least"]) == (0, "starts", 30):
            name = "share of runs that start in the first 100 tokens, minus a half"
            yield _above_half(row, str(row["model"]), name, words)


def _persistence(content: AuditContent) -> Iterator[Case]:
    words = {HOLDS: "most persists", FAILS: "most does not", OPEN: "half of it or so, or too little"}
    for row in content.rows("persistence"):
        if row["measure"] == "common" and row["by"] == "probe":
            yield _above_half(
                row, f"{row['before']} → {row['after']}", "common over the union, minus a half", words
            )


def _above_half(row: Mapping[str, Any], who: str, name: str, words: Mapping[Verdict, str]) -> Case:
    if number(row["value"]) is None:
        return Case(who, _where(row), OPEN, str(row["reason"]), ())
    found = contrast_of(row, "value", minus=0.5)
    verdict = decide([found.above])
    return Case(who, _where(row), verdict, words[verdict], (Evidence(name, found),))


def _options(content: AuditContent) -> Iterator[Case]:
    for row in content.rows("option_differences"):
        if row["match"] != "exact":
            continue
        found = contrast_of(row, "difference")
        verdict = decide([found.above])
        says = {HOLDS: "rises", FAILS: "falls", OPEN: "no difference that can be told from none"}[verdict]
        evidence = (Evidence("exact match, difference", found),)
        yield Case(f"{row['model']} − {row['against']}", f"prompt {row['prompt']}", verdict, says, evidence)


def _where(row: Mapping[str, Any]) -> str:
    prefix = number(row["prefix_tokens"])
    return str(row["corpus"]) if prefix is None else f"{row['corpus']}, prefix {prefix:.0f}"


_MORE: Mapping[Verdict, str] = {
    HOLDS: "memorizes more",
    FAILS: "memorizes less",
    OPEN: "no difference that can be told from none",
}
_FINDINGS: tuple[tuple[str, str, str, str, str, Judge], ...] = (
    (
        "above baseline",
        "A model trained on a corpus repeats more of it than its baseline does.",
        "Per model, baseline, corpus and prefix length, greedy: the share of probes with a run of 30 tokens, "
        "minus the baseline's on the same probes, is above 0.",
        "Table 2 has two exceptions at a prefix of 50 tokens, and the text names one: Meditron-7B is below "
        "Llama 2 on MEDLINE abstracts (0.50% and 0.51%) and on experience replay (1.95% and 2.27%).",
        "name a model's baselines (baselines:), audited on the same corpora",
        _differences("baseline", _MORE),
    ),
    (
        "larger model",
        "A larger model memorizes more.",
        "Per pair of models that were trained alike, corpus and prefix length, greedy: the larger one's share "
        "of probes with a run of 30 tokens, minus the smaller one's on the same probes, is above 0.",
        "One pair of models (Meditron 7B and 70B) on four corpora.",
        "name pairs of models (larger:)",
        _differences("size", _MORE),
    ),
    (
        "longer prefix",
        "The longer the prefix, the more is repeated.",
        "Per model and corpus, greedy: the mean over records of each record's own slope over the prefix "
        "lengths, a step a length, is above 0; records with a probe of every length alone.",
        "A longer prefix also leaves out short records, which the paper does not correct for.",
        "audit two prefix lengths or more",
        _trends("prefix length"),
    ),
    (
        "decoding",
        "Temperature and top-k have little effect on memorization.",
        "Per model, corpus, prefix length and decoding: the whole interval of its ratio minus greedy's, on the "
        "same probes, lies within a fifth of greedy's ratio, or within one point where that is more. It does "
        "not hold where the interval lies outside.",
        "The paper reads a change of 1.2 points with p = 0.061 and one of 0.03 points with p = 0.0018 as little "
        "alike: a p-value says nothing of how large an effect is.",
        "audit further decodings (decodings=greedy,temperature=0.7,top_k=10)",
        _decoding,
    ),
    (
        "first 100 tokens",
        "Most of what is memorized stands in the first 100 tokens of a response.",
        "Per model, corpus and prefix length, greedy: the share of runs of 30 tokens that start in the first "
        "100 tokens is above a half.",
        "Text and caption of Figure 3 disagree on the length of a run (30 and 50 tokens), and on how a run is "
        "placed the paper is silent.",
        "an audit keeps its responses, and some run was found",
        _first_segment,
    ),
    (
        "further on",
        "The further on in a response, the less of it is memorized.",
        "Per model, corpus and prefix length, greedy: the mean over probes of each probe's own slope, over "
        "segments of 100 tokens, of the share of the segment's tokens that stand in a run of 30 is below 0; probes "
        "alone whose text goes on to the end of the last segment.",
        "Figure 3 counts where runs are, which leans to the front: a long run starts early by necessity.",
        "an audit keeps its responses, and half of a corpus' probes have 200 tokens or more to go on with",
        _trends("position", MATCHED, falls=True),
    ),
    (
        "persistence",
        "Most of what was memorized persists after further fine-tuning.",
        "Per pair, corpus and prefix length, greedy: the probes with a run of 50 tokens before and after, over "
        "those with one before or after, are more than a half.",
        "The text of Section 4.2 gives 8.85% to the fine-tuned model and 7.90% to the pretrained one; Table 2 "
        "has 8.85% for the pretrained model, and Table 7 agrees with Table 2.",
        "name pairs of models before and after (persistence:)",
        _persistence,
    ),
    (
        "option regeneration",
        "After fine-tuning on questions a model gives removed answer options back more often.",
        "Per model, baseline and prompt: exact matches, minus the baseline's on the same questions and removed "
        "options, are above 0.",
        "On MedMCQA in Table 5, Me-LLaMA-13B gains 1.15 points over its baseline and PMC-LLaMA-7B (Reproduced) "
        "loses 0.69.",
        "audit answer options of a model and of its baseline (--options)",
        _options,
    ),
    (
        "more epochs",
        "More epochs of training mean more memorization.",
        "Per training, corpus and prefix length, greedy: the mean over probes of each probe's own slope over "
        "the epochs is above 0.",
        "",
        "audit a training after several epochs (epochs:)",
        _trends("epochs"),
    ),
    (
        "before overfitting",
        "Memorization rises before validation loss stops falling.",
        "Per measure of memorization: its value at the epoch of least validation loss is above its value at the "
        "first epoch, and their intervals do not overlap. They are not paired, so a rise may go unsettled.",
        "Figure 7 gives 7.53% at epoch 7, which is Table 8's ratio at a prefix of 100 tokens; the figure does not "
        "say its prefix length.",
        "give a table of epochs (epoch_table:) with validation_loss and a measure of memorization",
        epoch_cases,
    ),
    (
        "duplication",
        "What stands in the training text more often is memorized more.",
        "Per model, corpus and prefix length, greedy: the slope over records on log2 of the number of copies is "
        "above 0. Not paired: records with many copies may differ in more.",
        "Not a finding of the paper, which did not measure it.",
        "an audit knows how often each record stood in the training text (copies in probes.parquet)",
        _trends("duplication"),
    ),
)


def findings_text(content: AuditContent) -> str:
    """The findings for a terminal: verdict, counts, and the numbers of every case."""
    lines: list[str] = []
    for found in findings(content):
        lines += [f"{found.verdict.upper()}: {found.claim}", f"  {found.summary}"]
        lines += [
            f"  {case.model}, {case.where}: {case.verdict}; {case.says}; " + "; ".join(map(str, case.evidence))
            for case in found.cases
        ]
        lines += [f"  Rule: {found.rule}", ""]
    return "\n".join(lines).rstrip() + "\n"
