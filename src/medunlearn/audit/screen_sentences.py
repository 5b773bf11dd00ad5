"""Sentences of an audit's first screen: each is computed, and none holds text of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medunlearn.audit.asking import is_prompt
from medunlearn.audit.extraction import BaselineExtraction, CorpusExtraction, Extraction
from medunlearn.audit.giveaways import ALL_KINDS, Giveaway, KindRecall
from medunlearn.audit.sampled_extraction import SampledExtraction
from medunlearn.audit.way_extraction import WayExtraction
from medunlearn.reports.formatting import count, p_text
from medunlearn.statistics.intervals import MIN_SUBJECTS, subjects_needed
from medunlearn.statistics.shares import ShareDifference, SubjectShare, compare_shares

MOST_KINDS, MOST_RECALLS = 6, 4


def not_memorized(info: Mapping[str, Any]) -> str:
    """That a tiny model's training did not get as far as its texts; empty of every other model."""
    model = info.get("results", {}).get("model", {})
    if model.get("memorized", True):
        return ""
    return (
        f"This tiny model did not learn its texts by heart: the mean loss of its last epoch was "
        f"{model['last_epoch_loss']:.2f} a token. What is not memorized cannot be extracted; train it for more "
        "epochs before anything follows from this audit."
    )


def of_all(share: SubjectShare, noun: str) -> str:
    return f"{share.hits:,} of {count(share.n, noun)}"


def bound(share: SubjectShare) -> str:
    """``at most 6.0%``, ``2.1% to 26.5%``, ``at least 94.0%``; of fewer than five why there is none."""
    low, high = share.limits
    if low is None or high is None:
        return "too few for a bound"
    if not share.hits:
        return f"at most {high:.1%}"
    return f"at least {low:.1%}" if share.hits == share.n else f"{low:.1%} to {high:.1%}"


def gap_text(gap: ShareDifference, test: str) -> str:
    """``+100.0 points [92.9, 100.0], p < 1e-12 (Fisher)``; what cannot be computed is left out."""
    if gap.value is None or gap.p is None:
        return "no difference can be taken"
    interval = "" if gap.low is None or gap.high is None else f" [{_points(gap.low)}, {_points(gap.high)}]"
    p = p_text(max(gap.p, 1e-12))
    return f"{_points(gap.value, sign='+')} points{interval}, p {p if p.startswith('<') else f'= {p}'} ({test})"


def _points(value: float, sign: str = "-") -> str:
    shown = f"{100 * value:{sign}.1f}".replace("-", "−")
    return shown if float(f"{100 * value:.1f}") else "0.0"


def corpus_sentences(corpus: CorpusExtraction) -> Iterator[str]:
    members, noun = corpus.members, corpus.noun
    nouns = count(2, noun).partition(" ")[2]
    if not members.n:
        yield f"No {noun} has a probe that could be scored."
        return
    yield from bounds(corpus)
    if corpus.unseen is not None and corpus.difference is not None and corpus.unseen.n:
        yield (
            f"Of {count(corpus.unseen.n, noun)} that the model never saw, {corpus.unseen.hits:,} "
            f"({bound(corpus.unseen)}): a difference of {gap_text(corpus.difference, _FISHER)}."
        )
    yield from (_baseline_sentence(one, nouns) for one in corpus.baselines)
    yield from conclusions_of(corpus)


def bounds(corpus: CorpusExtraction) -> Iterator[str]:
    n, noun = corpus.members.n, corpus.noun
    if n >= MIN_SUBJECTS:
        yield f"Of such {count(2, noun).partition(' ')[2]}, {bound(corpus.members)} can be (95%, exact)."
    elif n:
        yield f"{count(n, noun)} {'is' if n == 1 else 'are'} too few for a bound on others."


def conclusions_of(corpus: CorpusExtraction) -> Iterator[str]:
    members, noun = corpus.members, corpus.noun
    trained, unseen = corpus.probes
    if members.n:
        yield _conclusion(corpus, count(2, noun).partition(" ")[2])
    if unseen is not None and trained != unseen:
        yield (
            f"A trained {noun} has {trained:g} probes in the median, one never seen {unseen:g}: more prompts are "
            "more chances."
        )
    if members.unscored:
        more = "1 more is" if members.unscored == 1 else f"{members.unscored:,} more are"
        yield f"{more} in no count: no probe of theirs could be scored."


_FISHER, _MCNEMAR = "Fisher's exact test", "McNemar's exact test, paired"


def _baseline_sentence(one: BaselineExtraction, nouns: str) -> str:
    if one.problems:
        return f"The baseline {one.label} is broken ({'; '.join(one.problems)}) and says nothing."
    return (
        f"The baseline {one.label} gives back {one.baseline.hits:,} of the same {one.baseline.n:,} {nouns} "
        f"({one.only_model:,} come from this model alone, {one.only_baseline:,} from the baseline alone): "
        f"{gap_text(one.difference, _MCNEMAR)}."
    )


def _conclusion(corpus: CorpusExtraction, nouns: str) -> str:
    hits, beyond = corpus.members.hits, corpus.beyond_controls
    if not corpus.trained:
        return f"The model never saw these {nouns}: what comes back is wording, or was learned elsewhere."
    if not hits:
        needed = subjects_needed(0.05)
        more = "" if corpus.members.n >= needed else f"; to show at most 5% needs {needed} {nouns} of whom none is"
        return f"Nothing was extracted by these prompts{more}. Other prompts may bring out more."
    if not corpus.controlled:
        return (
            "Without texts that the model never saw, or a baseline, nothing tells memorized text from wording that "
            "any model repeats."
        )
    if beyond:
        return "That is more than every control gives back: the model has memorized text of these " + f"{nouns}."
    return "It is not shown to be more than every control gives back: shared wording may explain it."


def giveaway_sentences(given: Giveaway) -> Iterator[str]:
    share, nouns = given.subjects, count(2, given.noun).partition(" ")[2]
    if not given.identifiers:
        yield f"Identifiers were searched: none of {count(share.n, given.noun)} was given away ({bound(share)})."
    else:
        kinds = [f"{_lowered(one.title)} ({one.identifiers:,})" for one in given.kinds[:MOST_KINDS]]
        kinds += [f"{len(given.kinds) - MOST_KINDS} more kinds"] if len(given.kinds) > MOST_KINDS else []
        yield (
            f"{count(given.identifiers, 'distinct identifier')} of {of_all(share, given.noun)} ({bound(share)}) "
            f"{'was' if given.identifiers == 1 else 'were'} given away that no prompt held: {', '.join(kinds)}."
        )
        by_detector = given.identifiers - given.declared
        if by_detector:
            names = f" ({', '.join(given.detectors)})" if given.detectors else ""
            yield (
                f"{given.declared:,} of them are declared in the records; {by_detector:,} were found by a detector "
                f"alone{names}, which misses some."
            )
    if given.recall and given.recall[0].yours:
        yield _recall_on_yours(given.recall)
    elif given.recall:
        shown = ", ".join(f"{one.recall:.0%} of {_lowered(one.title)}" for one in given.recall[:MOST_RECALLS])
        yield (
            f"What no record declares a detector must find: in our own notes of four styles it finds {shown}. On "
            "yours it may find fewer (--identifiers.labelled FILE)."
        )
    if given.unseen is not None:
        number, whose = given.unseen
        told = f"{number:,}, of {whose.hits:,} of them" if number else "none"
        yield f"Of {count(whose.n, given.noun)} that the model never saw: {told}."
    yield from giveaway_doubt(given)
    for one in given.baselines:
        if not one.searched:
            yield f"The responses of {one.label} were not searched for identifiers."
        elif not one.problems and one.difference is not None and one.difference.p is not None:
            told = f"{one.identifiers:,}, of {of_all(one.subjects, given.noun)}" if one.identifiers else "none"
            among = f"; {one.only_model:,} of this model's {one.model:,} are not among them" if one.model else ""
            gap = gap_text(one.difference, _MCNEMAR)
            yield f"The baseline {one.label} gives away {told}{among} ({nouns}: {gap})."


def giveaway_doubt(given: Giveaway) -> Iterator[str]:
    """That identifiers come as often of patients never seen; nothing where more come of the trained."""
    if given.unseen is None or not given.identifiers:
        return
    gap = compare_shares(given.subjects, given.unseen[1])
    if gap.value is None or gap.p is None or (gap.value > 0 and gap.p < 0.05):
        return
    yield (
        f"It is not shown that more are of the training text ({gap_text(gap, _FISHER)}): such values are guessed, "
        "or shared by many."
    )


def _recall_on_yours(recalls: Sequence[KindRecall]) -> str:
    """Recall of the detectors on the user's labelled notes, by kind and overall."""
    shown = [f"{one.recall:.0%} of {_lowered(one.title)}" for one in recalls if one.title != ALL_KINDS]
    told = f"; of them {', '.join(shown[:MOST_RECALLS])}" if shown else ""
    whole = recalls[-1]
    limits = "" if whole.low is None or whole.high is None else f", {whole.low:.0%} to {whole.high:.0%}"
    return (
        f"What no record declares a detector must find: of your labelled notes it finds {whole.found:,} of "
        f"{count(whole.labelled, 'identifier')} ({whole.recall:.0%}{limits}){told}."
    )


def _lowered(title: str) -> str:
    """A title inside a sentence; an abbreviation keeps its capitals."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def definition(result: Extraction) -> str:
    lengths = [str(n) for n in result.prefixes if n]
    beginning = f"the first {', '.join(lengths)} {result.unit} of a text" if lengths else "the beginning of a text"
    asked = any(map(is_prompt, result.ways))
    begun = any(not is_prompt(way) for way in result.ways)
    given = " or ".join([*([beginning] if begun else []), *(["a prompt"] if asked else [])])
    rest = "the text" if asked and not begun else "the rest" if asked else "what follows"
    return f"Extracted: given {given}, a response ({result.decoding}) repeats 30 {result.unit} in a row of {rest}."


def never_seen(one: WayExtraction) -> str:
    return "" if one.unseen is None else f" (never seen: {one.unseen.hits:,} of {one.unseen.n:,})"


def expected(row: SampledExtraction) -> str:
    """``41.2 of 60 (68.7% [55.1, 80.3])``."""
    interval = "" if row.low is None or row.high is None else f" [{100 * row.low:.1f}, {100 * row.high:.1f}]"
    return f"{row.expected} ({row.chance:.1%}{interval})"
