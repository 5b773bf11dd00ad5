"""The first screen of an audit: extractable patients, leaked identifiers, searches not made, the worst cases.

Terminal, page, Markdown and JSON take their sentences from here. All are computed; none contains record text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from medunlearn.audit.attacker_tiers import AttackerTier, attacker_tiers, tiers_data
from medunlearn.audit.audit_tables import AuditTables
from medunlearn.audit.extraction import CorpusExtraction, Extraction, extraction, extraction_rows, share_text
from medunlearn.audit.giveaways import Giveaway, giveaway, giveaway_data
from medunlearn.audit.sampled_extraction import NEVER_SEEN, TRAINED, SampledExtraction, by_samples
from medunlearn.audit.screen_sentences import (
    bounds,
    conclusions_of,
    corpus_sentences,
    definition,
    expected,
    giveaway_doubt,
    giveaway_sentences,
    not_memorized,
    plural,
)
from medunlearn.audit.unanswered import answer_notes
from medunlearn.audit.way_extraction import WayExtraction, by_way, missed_by_beginnings, ways_data
from medunlearn.audit.worst_cases import WorstCase, worst_cases
from medunlearn.config.audit import PREFIX
from medunlearn.reports.formatting import count
from medunlearn.statistics.shares import ShareDifference, SubjectShare

BROKEN, UNMEASURED = "Not decided: the model is broken", "Not measured"
_MISSING: Mapping[str, str] = {
    "identifiers": "identifiers and sensitive details in the responses (--identifiers)",
    "baseline": "a model without these texts, on the same prompts (--baseline)",
    "unseen": "texts that the model never saw (--unseen names their corpus)",
    "sampling": "sampled responses: {decoding} decoding is the only one counted (--decodings)",
    "kinds": "kinds of what was repeated (--kinds)",
    "options": "removed answer options (--options)",
    "prompts": "prompts other than the beginning of a text: questions and chats (--prompt, --template chat)",
    "beginnings": "beginnings of texts, given as they are (--ways)",
    "inference": "inference of a sensitive attribute, such as a diagnosis (--infer COLUMN)",
    "wording": "wording that several patients' texts share (audit again: this audit is of an older version)",
}


@dataclass(frozen=True)
class FirstScreen:
    """Main result of one audit.

    Attributes:
        giveaway: None if no search for identifiers was made.
        missing: searches that were not made, in words.
        cases: worst first.
        ways: subjects extracted by each way of asking; empty if there is one way.
        samples: extraction as a probability over k samples; empty if none were drawn.
        tiers: what attackers with more and less knowledge bring out; empty without prompts or attributes.
        caveat: warning to read before the answer; empty if there is none.
        notes: sentences on what limits the responses (:func:`~medunlearn.audit.unanswered.answer_notes`).
    """

    extraction: Extraction
    giveaway: Giveaway | None
    missing: tuple[str, ...]
    cases: tuple[WorstCase, ...]
    ways: tuple[WayExtraction, ...] = ()
    samples: tuple[SampledExtraction, ...] = ()
    tiers: tuple[AttackerTier, ...] = ()
    caveat: str = ""
    notes: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """``60 of 60 patients can be extracted``, for each corpus if there are several."""
        result = self.extraction
        if result.problems:
            return BROKEN
        if result.reason or not result.corpora:
            return UNMEASURED
        if not any(corpus.members.n for corpus in result.corpora):
            return UNMEASURED
        return "; ".join(self._of_corpora(_extracted))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences that explain the answer."""
        result = self.extraction
        if result.problems:
            why = f"{result.label} is broken: {'; '.join(result.problems)}."
            return (why, "What a broken model does not repeat is no bound on what it memorized.")
        if result.reason:
            return (f"{result.reason[0].upper()}{result.reason[1:]}.",)
        return (
            *self._caveats,
            *self._of_corpora(corpus_sentences),
            *self.way_sentences,
            *self.sample_sentences,
            *self.identifier_sentences,
            definition(result),
        )

    @property
    def conclusions(self) -> tuple[str, ...]:
        """The sentences that :attr:`groups` does not cover."""
        if self.extraction.problems or self.extraction.reason:
            return self.sentences
        lines = (*self._of_corpora(conclusions_of), *self.missed_sentences, *self.identifier_sentences)
        return (*self._caveats, *lines, definition(self.extraction))

    def _of_corpora(self, sentences: Callable[[CorpusExtraction], Iterable[str]]) -> list[str]:
        """Sentences on each corpus, prefixed with its name if there are several."""
        corpora = self.extraction.corpora
        return [
            f"{corpus.corpus}: {line}" if len(corpora) > 1 else line
            for corpus in corpora
            for line in sentences(corpus)
        ]

    @property
    def _caveats(self) -> tuple[str, ...]:
        return (*([self.caveat] if self.caveat else []), *self.notes)

    @property
    def lead(self) -> tuple[str, ...]:
        """The shortest answer: the bound, the conclusion, and the number of identifiers."""
        if self.extraction.problems or self.extraction.reason:
            return self.sentences
        not_searched = ["Identifiers were not searched for."]
        return (
            *self._caveats,
            *self._of_corpora(bounds),
            *self._of_corpora(conclusions_of),
            *self.missed_sentences,
            *self.identifier_sentences[:1],
            *(not_searched if self.giveaway is None else giveaway_doubt(self.giveaway)),
            definition(self.extraction),
        )

    @property
    def identifier_sentences(self) -> tuple[str, ...]:
        """Sentences on leaked identifiers; empty if they were not searched."""
        return () if self.giveaway is None else tuple(giveaway_sentences(self.giveaway))

    @property
    def way_sentences(self) -> tuple[str, ...]:
        """Sentences on the number of subjects that each way of asking extracts."""
        return tuple(self._of_corpora(self._by_way))

    def _by_way(self, corpus: CorpusExtraction) -> Iterator[str]:
        parts = []
        for entry in (entry for entry in self.ways if entry.corpus == corpus.corpus):
            never = "" if entry.unseen is None else f" (never seen: {share_text(entry.unseen)})"
            parts.append(f"{entry.title}: {share_text(entry.members)}{never}")
        if parts:
            yield f"By way of asking: {'; '.join(parts)}."
            yield from self._missed(corpus)

    def _missed(self, corpus: CorpusExtraction) -> Iterator[str]:
        missed = missed_by_beginnings(self.ways, self.extraction, corpus.corpus)
        if missed:
            yield (
                f"{count(missed, corpus.noun)} {'is' if missed == 1 else 'are'} brought out by other ways of "
                "asking alone: beginnings of texts would have missed them."
            )

    @property
    def missed_sentences(self) -> tuple[str, ...]:
        """Sentences on subjects that beginnings of texts would have missed."""
        return tuple(self._of_corpora(self._missed))

    @property
    def sample_sentences(self) -> tuple[str, ...]:
        """Sentences on the chance that one of k samples extracts, for the largest k drawn."""
        return tuple(self._of_corpora(self._by_samples))

    def _by_samples(self, corpus: CorpusExtraction) -> Iterator[str]:
        rows = [row for row in self.samples if row.corpus == corpus.corpus]
        for decoding in dict.fromkeys(row.decoding for row in rows):
            # Rows of a group are in order of their number of samples.
            ours, *never = {row.group: row for row in rows if row.decoding == decoding}.values()
            greedy = "" if ours.greedy is None else f"; greedily, {ours.greedy:,} are"
            unseen = "".join(f"; of those never seen, {expected(row)}" for row in never)
            yield (
                f"In {ours.samples:,} samples of every prompt ({decoding}), {expected(ours)} are expected to be "
                f"extracted, {ours.discoverable:,} with a chance of a half or more{greedy}{unseen}."
            )

    @property
    def groups(self) -> list[tuple[str, str, SubjectShare, ShareDifference | None, str]]:
        """Rows of the comparison: corpus, group, its share, the trained subjects minus it, and the name of the
        test.
        """
        rows: list[tuple[str, str, SubjectShare, ShareDifference | None, str]] = []
        for corpus in self.extraction.corpora:
            name = corpus.corpus
            rows.append((name, TRAINED if corpus.trained else NEVER_SEEN, corpus.members, None, ""))
            if corpus.unseen is not None:
                rows.append((name, NEVER_SEEN, corpus.unseen, corpus.difference, "Fisher"))
            for baseline in corpus.baselines:
                note = " (broken)" if baseline.problems else ""
                group = f"{baseline.label}, the same {plural(corpus.noun)}{note}"
                rows.append((name, group, baseline.baseline, baseline.difference, "McNemar, paired"))
        return rows

    def data(self) -> dict[str, Any]:
        """The screen for JSON; no record text unless the cases contain it."""
        result = self.extraction
        return {
            "model": result.label,
            "answer": self.answer,
            "sentences": list(self.sentences),
            "decoding": result.decoding,
            "prefixes": list(result.prefixes),
            "unit": result.unit,
            "problems": list(result.problems),
            "caveat": self.caveat,
            "notes": list(self.notes),
            "extraction": extraction_rows(result),
            "ways": ways_data(self.ways),
            "tiers": tiers_data(self.tiers),
            "samples": [asdict(row) for row in self.samples],
            "identifiers": None if self.giveaway is None else giveaway_data(self.giveaway),
            "not_searched": list(self.missing),
            "cases": [case.data() for case in self.cases],
        }


def first_screen(
    audit: AuditTables, baselines: Sequence[AuditTables], names: Mapping[str, str], *, show_text: int = 0
) -> FirstScreen:
    """The first screen of an audited model with its baselines.

    Args:
        names: subject -> pseudonym (:func:`~medunlearn.audit.worst_cases.pseudonyms`).
        show_text: number of worst cases that include the text of prompt and response.
    """
    from medunlearn.audit.identifiers.kinds import kinds

    titles = {name: kind.title for name, kind in kinds().items()}
    result = extraction(audit, baselines)
    return FirstScreen(
        result,
        giveaway(audit, result, titles, baselines),
        tuple(_missing_parts(audit, result)),
        worst_cases(audit, names, titles, baselines, show_text=show_text),
        by_way(audit, result, baselines),
        by_samples(audit, result),
        attacker_tiers(audit, result, baselines),
        not_memorized(audit.info),
        tuple(answer_notes(audit.info.get("results", {}))),
    )


def _extracted(corpus: CorpusExtraction) -> Iterator[str]:
    measured = share_text(corpus.members, corpus.noun)
    yield f"{measured} can be extracted" if corpus.members.n else measured


def _missing_parts(audit: AuditTables, result: Extraction) -> Iterator[str]:
    present = {
        "identifiers": audit.findings is not None,
        "baseline": any(corpus.baselines for corpus in result.corpora),
        "unseen": any(corpus.unseen is not None for corpus in result.corpora),
        "sampling": len(result.decodings) > 1,
        "kinds": audit.kinds is not None,
        "options": audit.options is not None,
        "prompts": set(result.ways) != {PREFIX},
        "beginnings": PREFIX in result.ways,
        "inference": audit.attributes is not None,
        "wording": all(corpus.boilerplate is not None for corpus in result.corpora),
    }
    yield from (text.format(decoding=result.decoding) for name, text in _MISSING.items() if not present[name])
