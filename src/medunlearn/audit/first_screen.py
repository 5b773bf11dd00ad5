"""The first screen of an audit: who can be extracted, what was given away, what nobody looked for, the worst cases.

Terminal, page, Markdown and JSON take their sentences from here. Each is computed; none holds text of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medunlearn.audit.audit_tables import AuditTables
from medunlearn.audit.extraction import (
    BaselineExtraction,
    CorpusExtraction,
    Extraction,
    extraction,
    extraction_rows,
)
from medunlearn.audit.giveaways import Giveaway, giveaway, giveaway_data
from medunlearn.audit.worst_cases import WorstCase, worst_cases
from medunlearn.reports.formatting import count, p_text
from medunlearn.statistics.intervals import MIN_SUBJECTS, subjects_needed
from medunlearn.statistics.shares import ShareDifference, SubjectShare

MOST_KINDS, MOST_RECALLS = 6, 4
BROKEN, UNMEASURED = "Not decided: the model is broken", "Not measured"
_MISSING: Mapping[str, str] = {
    "identifiers": "identifiers and sensitive details in the responses (--identifiers)",
    "baseline": "a model without these texts, on the same prompts (--baseline)",
    "unseen": "texts that the model never saw (--unseen names their corpus)",
    "sampling": "sampled responses: {decoding} decoding is the only one counted (--decodings)",
    "kinds": "kinds of what was repeated (--kinds)",
    "options": "removed answer options (--options)",
    "prompts": "prompts other than the beginning of a text: questions and chats",
}


@dataclass(frozen=True)
class FirstScreen:
    """Answer of one audit.

    Attributes:
        giveaway: None where no search for identifiers was made.
        missing: what was not looked for, in words.
        cases: worst first.
    """

    extraction: Extraction
    giveaway: Giveaway | None
    missing: tuple[str, ...]
    cases: tuple[WorstCase, ...]

    @property
    def answer(self) -> str:
        """``60 of 60 patients can be extracted``, of each corpus where there are several."""
        result = self.extraction
        if result.problems:
            return BROKEN
        if result.reason or not result.corpora:
            return UNMEASURED
        if len(result.corpora) == 1:
            return f"{_of(result.corpora[0].members, result.corpora[0].noun)} can be extracted"
        return "; ".join(f"{one.corpus}: {_of(one.members, one.noun)} can be extracted" for one in result.corpora)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What stands behind the answer."""
        result = self.extraction
        if result.problems:
            why = f"{result.label} is broken: {'; '.join(result.problems)}."
            return (why, "What a broken model does not repeat is no bound on what it memorized.")
        if result.reason:
            return (f"{result.reason[0].upper()}{result.reason[1:]}.",)
        return (*self._of_corpora(_corpus_sentences), *self.identifier_sentences, _definition(result))

    @property
    def conclusions(self) -> tuple[str, ...]:
        """The sentences that :attr:`groups` do not say."""
        if self.extraction.problems or self.extraction.reason:
            return self.sentences
        return (*self._of_corpora(_conclusions), *self.identifier_sentences, _definition(self.extraction))

    def _of_corpora(self, sentences: Callable[[CorpusExtraction], Iterator[str]]) -> list[str]:
        corpora = self.extraction.corpora
        name = "{}: " if len(corpora) > 1 else ""
        return [f"{name.format(one.corpus)}{line}" for one in corpora for line in sentences(one)]

    @property
    def lead(self) -> tuple[str, ...]:
        """The fewest sentences that answer: the bound, the conclusion, the number of identifiers."""
        if self.extraction.problems or self.extraction.reason:
            return self.sentences
        lines = [*self._of_corpora(_bounds), *self._of_corpora(_conclusions), *self.identifier_sentences[:1]]
        if self.giveaway is None:
            lines.append("Identifiers were not searched for.")
        return (*lines, _definition(self.extraction))

    @property
    def identifier_sentences(self) -> tuple[str, ...]:
        """Identifiers given away; nothing where they were not searched."""
        return () if self.giveaway is None else tuple(_giveaway_sentences(self.giveaway))

    @property
    def groups(self) -> list[tuple[str, str, SubjectShare, ShareDifference | None, str]]:
        """Rows of the comparison: corpus, group, its share, the trained subjects minus it, and the test's name."""
        rows: list[tuple[str, str, SubjectShare, ShareDifference | None, str]] = []
        for one in self.extraction.corpora:
            group = "in the training text" if one.trained else "never saw"
            rows.append((one.corpus, group, one.members, None, ""))
            if one.unseen is not None:
                rows.append((one.corpus, "never saw", one.unseen, one.difference, "Fisher"))
            for other in one.baselines:
                note = " (broken)" if other.problems else ""
                name = f"{other.label}, the same {count(2, one.noun).partition(' ')[2]}{note}"
                rows.append((one.corpus, name, other.baseline, other.difference, "McNemar, paired"))
        return rows

    def data(self) -> dict[str, Any]:
        """The screen for JSON; no text of a record unless the cases hold it."""
        result = self.extraction
        return {
            "model": result.label,
            "answer": self.answer,
            "sentences": list(self.sentences),
            "decoding": result.decoding,
            "prefixes": list(result.prefixes),
            "unit": result.unit,
            "problems": list(result.problems),
            "extraction": extraction_rows(result),
            "identifiers": None if self.giveaway is None else giveaway_data(self.giveaway),
            "not_searched": list(self.missing),
            "cases": [case.data() for case in self.cases],
        }


def first_screen(
    audit: AuditTables,
    baselines: Sequence[AuditTables],
    names: Mapping[str, str],
    *,
    show_text: int = 0,
) -> FirstScreen:
    """The first screen of an audited model beside its baselines.

    Args:
        names: subject -> pseudonym (:func:`~medunlearn.audit.worst_cases.pseudonyms`).
        show_text: so many of the worst cases hold text of prompt and response.
    """
    from medunlearn.audit.identifiers.kinds import kinds

    titles = {name: kind.title for name, kind in kinds().items()}
    counted = extraction(audit, baselines)
    given = giveaway(audit, counted, titles, baselines)
    cases = worst_cases(audit, names, titles, baselines, show_text=show_text)
    return FirstScreen(counted, given, tuple(_missing(audit, counted)), cases)


def _missing(audit: AuditTables, result: Extraction) -> Iterator[str]:
    there = {
        "identifiers": audit.findings is not None,
        "baseline": any(corpus.baselines for corpus in result.corpora),
        "unseen": any(corpus.unseen is not None for corpus in result.corpora),
        "sampling": len(result.decodings) > 1,
        "kinds": audit.kinds is not None,
        "options": audit.options is not None,
        "prompts": False,
    }
    yield from (text.format(decoding=result.decoding) for name, text in _MISSING.items() if not there[name])


def _of(share: SubjectShare, noun: str) -> str:
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


def _corpus_sentences(corpus: CorpusExtraction) -> Iterator[str]:
    members, noun = corpus.members, corpus.noun
    nouns = count(2, noun).partition(" ")[2]
    if not members.n:
        yield f"No {noun} has a probe that could be scored."
        return
    yield from _bounds(corpus)
    if corpus.unseen is not None and corpus.difference is not None and corpus.unseen.n:
        yield (
            f"Of {count(corpus.unseen.n, noun)} that the model never saw, {corpus.unseen.hits:,} "
            f"({bound(corpus.unseen)}): a difference of {gap_text(corpus.difference, _FISHER)}."
        )
    yield from (_baseline_sentence(one, nouns) for one in corpus.baselines)
    yield from _conclusions(corpus)


def _bounds(corpus: CorpusExtraction) -> Iterator[str]:
    n, noun = corpus.members.n, corpus.noun
    if n >= MIN_SUBJECTS:
        yield f"Of such {count(2, noun).partition(' ')[2]}, {bound(corpus.members)} can be (95%, exact)."
    elif n:
        yield f"{count(n, noun)} {'is' if n == 1 else 'are'} too few for a bound on others."


def _conclusions(corpus: CorpusExtraction) -> Iterator[str]:
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


def _giveaway_sentences(given: Giveaway) -> Iterator[str]:
    share, nouns = given.subjects, count(2, given.noun).partition(" ")[2]
    if not given.identifiers:
        yield f"Identifiers were searched: none of {count(share.n, given.noun)} was given away ({bound(share)})."
    else:
        kinds = [f"{_lowered(one.title)} ({one.identifiers:,})" for one in given.kinds[:MOST_KINDS]]
        kinds += [f"{len(given.kinds) - MOST_KINDS} more kinds"] if len(given.kinds) > MOST_KINDS else []
        yield (
            f"{count(given.identifiers, 'distinct identifier')} of {_of(share, given.noun)} ({bound(share)}) "
            f"{'was' if given.identifiers == 1 else 'were'} given away that no prompt held: {', '.join(kinds)}."
        )
        by_detector = given.identifiers - given.declared
        if by_detector:
            names = f" ({', '.join(given.detectors)})" if given.detectors else ""
            yield (
                f"{given.declared:,} of them are declared in the records; {by_detector:,} were found by a detector "
                f"alone{names}, which misses some."
            )
    if given.recall:
        shown = ", ".join(f"{share:.0%} of {_lowered(kind)}" for kind, share, _ in given.recall[:MOST_RECALLS])
        yield (
            f"What no record declares a detector must find: in our own notes of four styles it finds {shown}. On "
            "yours it may find fewer (medunlearn audit identifiers recall --labelled FILE)."
        )
    if given.unseen is not None:
        number, whose = given.unseen
        told = f"{number:,}, of {whose.hits:,} of them" if number else "none"
        yield f"Of {count(whose.n, given.noun)} that the model never saw: {told}."
    for one in given.baselines:
        if not one.searched:
            yield f"The responses of {one.label} were not searched for identifiers."
        elif not one.problems and one.difference is not None and one.difference.p is not None:
            told = f"{one.identifiers:,}, of {_of(one.subjects, given.noun)}" if one.identifiers else "none"
            among = f"; {one.only_model:,} of this model's {one.model:,} are not among them" if one.model else ""
            gap = gap_text(one.difference, _MCNEMAR)
            yield f"The baseline {one.label} gives away {told}{among} ({nouns}: {gap})."


def _lowered(title: str) -> str:
    """A title inside a sentence; an abbreviation keeps its capitals."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def _definition(result: Extraction) -> str:
    lengths = [str(n) for n in result.prefixes if n]
    prompt = f"the first {', '.join(lengths)} {result.unit} of a text" if lengths else "the beginning of a text"
    return (
        f"Extracted: given {prompt}, a response ({result.decoding}) repeats 30 {result.unit} in a row of what "
        "follows."
    )
