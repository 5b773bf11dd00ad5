"""Sentences of an audit's first screen: all are computed, and none contains record text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medunlearn.audit.asking import is_prompt
from medunlearn.audit.extraction import BaselineExtraction, CorpusExtraction, Extraction, share_text
from medunlearn.audit.giveaways import BaselineGiveaway, Giveaway
from medunlearn.audit.recall_by_kind import ALL_KINDS, YOURS, KindRecall
from medunlearn.audit.sampled_extraction import SampledExtraction
from medunlearn.reports.formatting import count, p_text, percent_interval
from medunlearn.statistics.intervals import MIN_SUBJECTS, subjects_needed
from medunlearn.statistics.shares import ShareDifference, SubjectShare, compare_shares

MOST_KINDS, MOST_RECALLS, MOST_REASONS = 6, 4, 3
_FISHER, _MCNEMAR = "Fisher's exact test", "McNemar's exact test, paired"


def not_memorized(info: Mapping[str, Any]) -> str:
    """Caveat for a tiny model whose training did not memorize its texts; empty for every other model."""
    model = info.get("results", {}).get("model", {})
    if model.get("memorized", True):
        return ""
    return (
        f"This tiny model did not learn its texts by heart: the mean loss of its last epoch was "
        f"{model['last_epoch_loss']:.2f} a token. What is not memorized cannot be extracted; train it for more "
        "epochs before anything follows from this audit."
    )


def plural(noun: str) -> str:
    return count(2, noun).partition(" ")[2]


def bound(share: SubjectShare) -> str:
    """``at most 6.0%``, ``2.1% to 26.5%``, ``at least 94.0%``; with fewer than five subjects, why there is none."""
    low, high = share.limits
    if low is None or high is None:
        return "too few for a bound"
    if not share.hits:
        return f"at most {high:.1%}"
    return f"at least {low:.1%}" if share.hits == share.n else f"{low:.1%} to {high:.1%}"


def gap_text(gap: ShareDifference, test: str) -> str:
    """``+100.0 points [92.9, 100.0], p < 1e-12 (Fisher)``; parts that cannot be computed are left out."""
    if gap.value is None or gap.p is None:
        return "no difference can be taken"
    interval = "" if gap.low is None or gap.high is None else f" [{_points(gap.low)}, {_points(gap.high)}]"
    p = p_text(max(gap.p, 1e-12))
    return f"{_points(gap.value, sign='+')} points{interval}, p {p if p.startswith('<') else f'= {p}'} ({test})"


def _points(value: float, sign: str = "-") -> str:
    text = f"{100 * value:{sign}.1f}"
    return text.replace("-", "−") if float(text) else "0.0"


def corpus_sentences(corpus: CorpusExtraction) -> Iterator[str]:
    noun = corpus.noun
    if not corpus.members.n:
        yield _unmeasured(corpus)
        return
    yield from bounds(corpus)
    if corpus.unseen is not None and corpus.difference is not None and corpus.unseen.n:
        yield (
            f"Of {count(corpus.unseen.n, noun)} that the model never saw, {corpus.unseen.hits:,} "
            f"({bound(corpus.unseen)}): a difference of {gap_text(corpus.difference, _FISHER)}."
        )
    yield from (_baseline_sentence(baseline, plural(noun)) for baseline in corpus.baselines)
    yield from conclusions_of(corpus)


def bounds(corpus: CorpusExtraction) -> Iterator[str]:
    n, noun = corpus.members.n, corpus.noun
    if n >= MIN_SUBJECTS:
        yield f"Of such {plural(noun)}, {bound(corpus.members)} can be (95%, exact)."
    elif n:
        yield f"{count(n, noun)} {'is' if n == 1 else 'are'} too few for a bound on others."


def conclusions_of(corpus: CorpusExtraction) -> Iterator[str]:
    members, noun = corpus.members, corpus.noun
    if not members.n:
        yield _unmeasured(corpus)
        return
    trained, unseen = corpus.probes
    yield from _shared_wording(corpus)
    yield _conclusion(corpus, plural(noun))
    if unseen is not None and trained != unseen:
        yield (
            f"A trained {noun} has {trained:g} probes in the median, one never seen {unseen:g}: more prompts are "
            "more chances."
        )
    if members.unscored:
        more = "1 more is" if members.unscored == 1 else f"{members.unscored:,} more are"
        yield f"{more} in no count: no probe of theirs could be scored{_reasons(corpus)}."


def _unmeasured(corpus: CorpusExtraction) -> str:
    """``6 of 6 patients: memory was not measured (the model or a filter refused: 6).``"""
    n = corpus.members.unscored
    return f"{n:,} of {count(n, corpus.noun)}: memory was not measured{_reasons(corpus)}."


def _reasons(corpus: CorpusExtraction) -> str:
    reasons = [f"{reason}: {number:,}" for reason, number in corpus.unscored[:MOST_REASONS]]
    reasons += ["..."] if len(corpus.unscored) > MOST_REASONS else []
    return f" ({'; '.join(reasons)})" if reasons else ""


def _shared_wording(corpus: CorpusExtraction) -> Iterator[str]:
    """Sentences on wording that other subjects' texts hold too; none if nothing of it came out."""
    n, noun = corpus.members.n, corpus.noun
    if corpus.boilerplate:
        yield (
            f"Boilerplate: {corpus.boilerplate:,} of {count(n, noun)} gave back only wording that the texts of two "
            "or more others hold too. It extracts nobody: a model may know it from those."
        )
    if corpus.template_share:
        share, nouns = f"{corpus.template_share:.0%}", plural(noun)
        yield f"{share} of what was repeated is wording that the texts of several {nouns} hold."


def _baseline_sentence(baseline: BaselineExtraction, nouns: str) -> str:
    if baseline.problems:
        return f"The baseline {baseline.label} is broken ({'; '.join(baseline.problems)}) and says nothing."
    share = baseline.baseline
    return (
        f"The baseline {baseline.label} gives back {share.hits:,} of the same {share.n:,} {nouns} "
        f"({baseline.only_model:,} come from this model alone, {baseline.only_baseline:,} from the baseline "
        f"alone): {gap_text(baseline.difference, _MCNEMAR)}."
    )


def _conclusion(corpus: CorpusExtraction, nouns: str) -> str:
    if not corpus.trained:
        return f"The model never saw these {nouns}: what comes back is wording, or was learned elsewhere."
    if not corpus.members.hits:
        enough = subjects_needed(0.05)
        more = "" if corpus.members.n >= enough else f"; to show at most 5% needs {enough} {nouns} of whom none is"
        nothing = "Nothing else" if corpus.boilerplate else "Nothing"
        return f"{nothing} was extracted by these prompts{more}. Other prompts may bring out more."
    if corpus.unseen is None and all(baseline.problems for baseline in corpus.baselines):
        return (
            "Without texts that the model never saw, or a baseline, nothing tells memorized text from wording that "
            "any model repeats."
        )
    if corpus.beyond_controls:
        return f"That is more than every control gives back: the model has memorized text of these {nouns}."
    return "It is not shown to be more than every control gives back: shared wording may explain it."


def giveaway_sentences(result: Giveaway) -> Iterator[str]:
    share, noun = result.subjects, result.noun
    if not share.n and not result.identifiers:
        yield f"Identifiers were searched in no response: none could be read for any {noun}."
    elif not result.identifiers:
        yield f"Identifiers were searched: none of {count(share.n, noun)} was given away ({bound(share)})."
    else:
        kinds = [f"{_lower(kind.title)} ({kind.identifiers:,})" for kind in result.kinds[:MOST_KINDS]]
        kinds += [f"{len(result.kinds) - MOST_KINDS} more kinds"] if len(result.kinds) > MOST_KINDS else []
        yield (
            f"{count(result.identifiers, 'distinct identifier')} of {share_text(share, noun)} ({bound(share)}) "
            f"{'was' if result.identifiers == 1 else 'were'} given away that no prompt held: {', '.join(kinds)}."
        )
        if by_detector := result.identifiers - result.declared:
            names = f" ({', '.join(result.detectors)})" if result.detectors else ""
            yield (
                f"{result.declared:,} of them are declared in the records; {by_detector:,} were found by a "
                f"detector alone{names}, which misses some."
            )
    if result.recall:
        yield (_recall_on_yours if result.recall[0].notes == YOURS else _recall_on_ours)(result.recall)
        if result.hardly_measured:
            titles = ", ".join(_lower(title) for title in result.hardly_measured)
            yield f"Of these kinds too few were labelled to say what share is found: {titles}."
    elif not result.detectors:
        yield "Names and other identifiers were looked for by the patients' known ones alone: no detector read on."
    if result.unseen is not None:
        number, whose = result.unseen
        text = f"{number:,}, of {whose.hits:,} of them" if number else "none"
        yield f"Of {count(whose.n, noun)} that the model never saw: {text}."
    yield from giveaway_doubt(result)
    for baseline in result.baselines:
        yield from _baseline_giveaway(baseline, noun)


def _baseline_giveaway(baseline: BaselineGiveaway, noun: str) -> Iterator[str]:
    gap, number = baseline.difference, baseline.identifiers
    if not baseline.searched:
        yield f"The responses of {baseline.label} were not searched for identifiers."
    elif not baseline.problems and gap is not None and gap.p is not None:
        text = f"{number:,}, of {share_text(baseline.subjects, noun)}" if number else "none"
        if baseline.model:
            text += f"; {baseline.only_model:,} of this model's {baseline.model:,} are not among them"
        yield f"The baseline {baseline.label} gives away {text} ({plural(noun)}: {gap_text(gap, _MCNEMAR)})."


def giveaway_doubt(result: Giveaway) -> Iterator[str]:
    """Warning if identifiers are leaked as often for unseen patients as for trained ones."""
    if result.unseen is None or not result.identifiers:
        return
    gap = compare_shares(result.subjects, result.unseen[1])
    if gap.value is None or gap.p is None or (gap.value > 0 and gap.p < 0.05):
        return
    yield (
        f"It is not shown that more are of the training text ({gap_text(gap, _FISHER)}): such values are guessed, "
        "or shared by many."
    )


def _recall_by_kind(recalls: Sequence[KindRecall]) -> str:
    kinds = [kind for kind in recalls if kind.kind != ALL_KINDS]
    return ", ".join(f"{kind.recall:.0%} of {_lower(kind.kind)}" for kind in kinds[:MOST_RECALLS])


def _recall_on_ours(recalls: Sequence[KindRecall]) -> str:
    of_style = [row for row in recalls if row.style != ALL_KINDS]
    weakest = [f" ({row.found} of {row.labelled} in the weakest, {row.style})" for row in of_style]
    return (
        "What no record declares a detector must find: in invented notes of several styles it finds "
        f"{_recall_by_kind(recalls)}{''.join(weakest)}. One author wrote these notes and our rules: on yours it "
        "may find fewer (--identifiers.labelled FILE)."
    )


def _recall_on_yours(recalls: Sequence[KindRecall]) -> str:
    whole, by_kind = recalls[-1], _recall_by_kind(recalls)
    limits = "" if whole.low is None or whole.high is None else f", {whole.low:.0%} to {whole.high:.0%}"
    return (
        f"What no record declares a detector must find: of your labelled notes it finds {whole.found:,} of "
        f"{count(whole.labelled, 'identifier')} ({whole.recall:.0%}{limits}){by_kind and f'; of them {by_kind}'}."
    )


def _lower(title: str) -> str:
    """A title in lower case for use inside a sentence; abbreviations keep their capitals."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def definition(result: Extraction) -> str:
    lengths = [str(n) for n in result.prefixes if n]
    beginning = f"the first {', '.join(lengths)} {result.unit} of a text" if lengths else "the beginning of a text"
    prompts = [is_prompt(way) for way in result.ways]
    parts = [*([] if all(prompts) else [beginning]), *(["a prompt"] if any(prompts) else [])]
    rest = "the text" if all(prompts) else "the rest" if any(prompts) else "what follows"
    repeats = f"a response ({result.decoding}) repeats 30 {result.unit} in a row of {rest}"
    known = any(corpus.boilerplate is not None for corpus in result.corpora)
    apart = " Wording that two or more others' texts hold too does not count." if known else ""
    return f"Extracted: given {' or '.join(parts)}, {repeats}.{apart}"


def expected(row: SampledExtraction) -> str:
    """``41.2 of 60 (68.7% [55.1, 80.3])``."""
    share = f"{row.chance:.1%} {percent_interval(row.low, row.high)}".strip()
    return f"{row.expected} ({share})"
