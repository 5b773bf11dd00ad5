"""The memorization paper's findings as claims on one's own audits.

A case is decided only by an interval that leaves its threshold out. The paper states its findings without intervals
on differences and without thresholds; the thresholds are ours. Claims about memorized text are decided only of
models that repeat more than their baselines: what a baseline repeats, too, was not memorized in training.

Source: Memorization in Large Language Models in Medicine, Sections 4.1 to 4.3 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from medunlearn.papers.memorization.report.content import GREEDY, MATCHED, PRIMARY, AuditContent, evidence_of
from medunlearn.reports.claims import FAILS, HOLDS, NOT_MEASURABLE, OPEN, Case, Evidence, Finding, Verdict, settle
from medunlearn.reports.readings import number

Cases = Iterator[Case]
Judge = Callable[[AuditContent], Cases]
EpochValue = tuple[float, float | None, float | None]
"""Value, low, high."""

LOSS = "validation loss"
LITTLE_SHARE, LITTLE_POINTS = 0.2, 0.01
"""A decoding that moves a ratio by no more than a fifth of it, or by one point, has little effect."""

_NO_DIFFERENCE = "no difference that can be told from none"
_NO_MORE = "repeats no more than its baseline"


def findings(content: AuditContent) -> tuple[Finding, ...]:
    """Every claim with its cases, in the paper's order."""
    return tuple(
        Finding(name, claim, rule, tuple(judge(content)), published=published, needs=needs)
        for name, claim, rule, published, needs, judge in _FINDINGS
    )


def _case(model: str, where: str, evidence: Evidence, words: Mapping[Verdict, str], *, falls: bool = False) -> Case:
    verdict = settle([evidence], "below" if falls else "above")
    says = words.get(verdict, evidence.reason or "too few subjects")
    return Case({"model": model, "where": where}, verdict, says, (evidence,))


def _undecided(model: str, where: str, says: str, verdict: Verdict = OPEN, *evidence: Evidence) -> Case:
    return Case({"model": model, "where": where}, verdict, says, evidence)


def _where(row: Mapping[str, Any]) -> str:
    prefix = number(row["prefix_tokens"])
    return str(row["corpus"]) if prefix is None else f"{row['corpus']}, prefix {prefix:.0f}"


def _trained(content: AuditContent, label: str) -> bool:
    """Whether a model is more than a baseline of others."""
    return label not in content.baselines or any(one.label == label and one.baselines for one in content.models)


def _memorizes(content: AuditContent, label: str, corpus: str, prefix: float | None) -> bool:
    """Whether a model repeats more than each of its baselines there; a model without baselines is believed.

    Args:
        prefix: None asks for any prefix length.
    """
    gaps: dict[int, list[Evidence]] = {}
    for row in content.rows("differences", relation="baseline", model=label, corpus=corpus, measure=PRIMARY):
        if row["decoding"] == GREEDY and prefix in (None, int(row["prefix_tokens"])):
            gaps.setdefault(int(row["prefix_tokens"]), []).append(evidence_of("", row, "difference"))
    return not gaps or any(all(one.above for one in of_prefix) for of_prefix in gaps.values())


def _differences(relation: str, words: Mapping[Verdict, str]) -> Judge:
    def judge(content: AuditContent) -> Cases:
        for row in content.rows("differences", relation=relation, measure=PRIMARY, decoding=GREEDY):
            evidence = evidence_of(f"{PRIMARY}, difference", row, "difference")
            yield _case(f"{row['model']} − {row['against']}", _where(row), evidence, words)

    return judge


def _trends(factor: str, measure: str = PRIMARY, *, falls: bool = False) -> Judge:
    words: Mapping[Verdict, str] = {
        HOLDS: "falls" if falls else "rises",
        FAILS: "rises" if falls else "falls",
        OPEN: "no trend that can be told from none",
    }

    def judge(content: AuditContent) -> Cases:
        for row in content.rows("trends", factor=factor, measure=measure):
            model, where = str(row["model"]), _where(row)
            if not _trained(content, model):
                continue
            evidence = evidence_of(f"{measure}, change for {row['step']}", row, "slope")
            if _memorizes(content, model, str(row["corpus"]), number(row["prefix_tokens"])):
                yield _case(model, where, evidence, words, falls=falls)
            else:
                yield _undecided(model, where, _NO_MORE, OPEN, evidence)

    return judge


def _decoding(content: AuditContent) -> Cases:
    for row in content.rows("differences", relation="decoding", measure=PRIMARY):
        model, corpus, prefix = str(row["model"]), str(row["corpus"]), int(row["prefix_tokens"])
        if not _trained(content, model):
            continue
        greedy = content.reading(model, corpus, prefix, PRIMARY)
        ratio = 0.0 if greedy is None or greedy.value is None else greedy.value
        margin = max(LITTLE_POINTS, LITTLE_SHARE * ratio)
        name = f"{PRIMARY}, {row['decoding']} − greedy (margin {margin:.3f})"
        evidence = evidence_of(name, row, "difference")
        verdict, says = _within(evidence, margin)
        if ratio == 0.0 and evidence.value == 0.0:
            verdict, says = OPEN, "neither repeats anything"
        elif not _memorizes(content, model, corpus, prefix):
            verdict, says = OPEN, _NO_MORE
        yield _undecided(model, f"{_where(row)}, {row['decoding']}", says, verdict, evidence)


def _within(evidence: Evidence, margin: float) -> tuple[Verdict, str]:
    if not evidence.measured or evidence.low is None or evidence.high is None:
        return NOT_MEASURABLE, "no interval"
    if -margin <= evidence.low and evidence.high <= margin:
        return HOLDS, "little effect"
    if evidence.low > margin or evidence.high < -margin:
        return FAILS, "more than little"
    return OPEN, "the interval crosses the margin"


def _first_segment(content: AuditContent) -> Cases:
    words: Mapping[Verdict, str] = {
        HOLDS: "most runs start there",
        FAILS: "most start later",
        OPEN: "half of them or so, or too few",
    }
    name = "share of runs that start in the first 100 tokens, minus a half"
    for row in content.rows("positions", segment=0, measure="starts", at_least=30):
        if _trained(content, str(row["model"])):
            yield _above_half(content, row, str(row["model"]), str(row["model"]), name, words)


def _persistence(content: AuditContent) -> Cases:
    words: Mapping[Verdict, str] = {
        HOLDS: "most persists",
        FAILS: "most does not",
        OPEN: "half of it or so, or too little",
    }
    for row in content.rows("persistence", measure="common", by="probe"):
        models = f"{row['before']} → {row['after']}"
        yield _above_half(content, row, str(row["before"]), models, "common over the union, minus a half", words)


def _above_half(
    content: AuditContent, row: Mapping[str, Any], model: str, models: str, name: str, words: Mapping[Verdict, str]
) -> Case:
    if number(row["value"]) is None:
        return _undecided(models, _where(row), str(row["reason"]), NOT_MEASURABLE)
    evidence = evidence_of(name, row, "value", minus=0.5)
    if not _memorizes(content, model, str(row["corpus"]), int(row["prefix_tokens"])):
        return _undecided(models, _where(row), _NO_MORE, OPEN, evidence)
    return _case(models, _where(row), evidence, words)


def _options(content: AuditContent) -> Cases:
    words: Mapping[Verdict, str] = {HOLDS: "rises", FAILS: "falls", OPEN: _NO_DIFFERENCE}
    for row in content.rows("option_differences", match="exact"):
        evidence = evidence_of("exact match, difference", row, "difference")
        yield _case(f"{row['model']} − {row['against']}", f"prompt {row['prompt']}", evidence, words)


def epoch_values(content: AuditContent) -> dict[str, dict[int, EpochValue]]:
    """Measure -> epoch -> value, low, high; epochs without a value are left out."""
    lines: dict[str, dict[int, EpochValue]] = {}
    for row in content.rows("epochs"):
        value = number(row["value"])
        if value is not None:
            line = lines.setdefault(str(row["measure"]), {})
            line[int(row["epoch"])] = (value, number(row["low"]), number(row["high"]))
    return {measure: dict(sorted(line.items())) for measure, line in lines.items()}


def is_memorization(measure: str) -> bool:
    """Whether a measure of the table of epochs is one of memorization."""
    return measure.startswith(("run ", "memorization", "longest run", "extraction"))


def least_loss(content: AuditContent) -> int | None:
    """The epoch with the least validation loss; the first of equals."""
    losses = epoch_values(content).get(LOSS, {})
    return min(losses, key=lambda epoch: losses[epoch][0]) if losses else None


def epoch_cases(content: AuditContent) -> Cases:
    """One case a measure of memorization: whether it has risen by the epoch of least validation loss.

    A measure on texts that were not trained on carries their fold in its name, ``(held out)``, and is no case.
    """
    words: Mapping[Verdict, str] = {HOLDS: "has risen", FAILS: "has fallen", OPEN: "the intervals overlap"}
    least = least_loss(content)
    for measure, line in epoch_values(content).items() if least is not None else ():
        if not is_memorization(measure) or measure.endswith(")"):
            continue
        first, where = min(line), f"epochs {min(line)} to {least}"
        if first == least:
            yield _undecided(measure, where, "the least loss is at the first epoch")
        elif least not in line:
            yield _undecided(measure, where, f"epoch {least} has no value", NOT_MEASURABLE)
        else:
            evidence = _apart(f"epoch {least} minus epoch {first}", line[first], line[least])
            yield _case(measure, where, evidence, words)


def _apart(name: str, before: EpochValue, after: EpochValue) -> Evidence:
    """After minus before, between the farthest ends of both intervals: wider than a paired interval would be."""
    (value, low, high), (later, later_low, later_high) = before, after
    if low is None or high is None or later_low is None or later_high is None:
        return Evidence(name, later - value, reason="no interval")
    return Evidence(name, later - value, later_low - high, later_high - low)


_MORE: Mapping[Verdict, str] = {HOLDS: "memorizes more", FAILS: "memorizes less", OPEN: _NO_DIFFERENCE}
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
