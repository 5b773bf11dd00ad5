"""People's names by context and word lists: titles, cues, nearby ages and credentials, common given names.

Evidence for a run of words with a capital, the strongest first:

- a title (``Mr. Vane``), a cue before it (``Pt Vane``, ``his wife, Ada``, ``signed by Ada Vane``) or after it
  (``Ada Vane is a 50-year-old``, ``Ada Vane, MD``);
- the family name first (``VANE, ADA M.``);
- a common given name, alone or with what follows it (``Ada Vane has``);
- the same word in a name elsewhere in the text.

Eponyms (Murphy sign, Allen stirrups) do not count. Word lists: :mod:`gazetteer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from medunlearn.audit.identifiers.detectors.gazetteer import gazetteer
from medunlearn.audit.identifiers.detectors.name_candidates import (
    CapitalizedWord,
    NameCandidate,
    capitalized_words,
    ends_like_name,
    name_candidates,
)
from medunlearn.audit.identifiers.normalized_text import folded

STRONG, COMMON, REPEATED = 0.9, 0.85, 0.8
"""Confidence of a name with context, of a common given name, and of a word of a name elsewhere in the text."""
SHORTEST_REPEATED = 3
"""Characters of a word that is looked for in the rest of the text."""
_TITLED_WORDS = 3
_PLACEHOLDERS = ("x", "y", "z", "abc", "xyz")

_TITLE = re.compile(
    r"\b(Mr|Mrs|Ms|Miss|Mister|Dr|Drs|Doctor|Prof|Professor|Nurse|Sister|Pastor|Rev|Fr|Chaplain|Rabbi|Judge)\.?\s{1,2}$",
    re.IGNORECASE,
)
_TITLED = re.compile(
    r"\b(?P<title>Mr|Mrs|Ms|Miss|Dr|Prof)\.?\s(?P<it>(?:(?:van|von|der|den|de|del|della|di|da|du|la|le|al|el|bin|ibn|ter|"
    r"ten|ben|abu|[Ss]t\.?|[Vv]an|[Vv]on|[Dd]e|[Aa]l|[Ee]l)[\s-]){0,3}(?P<last>[A-Z][^\W\d_]*(?:['’-][^\W\d_]+)*))"
)
_NO_FAMILY = frozenset(
    (
        *("on", "no", "the", "and", "or", "who", "to", "of", "in", "at", "is"),
        *("was", "has", "had", "for", "if", "it", "call", "a", "an", "i", "he"),
        *("she", "they", "we", "you", "my", "his", "her", "this", "that", "reports", "states"),
        *("notes", "phone", "office", "not", "unknown", "none", "available", "name", "signature", "please", "per"),
        *("with", "from", "by"),
    )
)
_STAFF_TITLES = ("dr", "drs", "doctor", "prof", "professor", "nurse", "chaplain")
_CREDENTIALS = re.compile(
    r",?\s{1,2}\(?(?:M\.?D|D\.?O|R\.?N|N\.?P|P\.?A(?:-?C)?|Ph\.?D|L\.?P\.?N|C\.?R\.?N\.?A|C\.?N\.?M|L\.?C\.?S\.?W|"
    r"M\.?S\.?W|A\.?P\.?R\.?N|D\.?P\.?M|D\.?D\.?S|D\.?M\.?D|M\.?B\.?B\.?S|F\.?A\.?C\.?[SP]|F\.?R\.?C\.?[SP]|Pharm\.?D|"
    r"R\.?T|P\.?T|O\.?T)\b(?![-\w/])"
)
_YEARS = r"[\s-]?(?:y/?o\b|y\.\s?o|year|yr|month|week|day)"
_AGE = re.compile(
    r"\s?,?\s(?:is|was)\s(?:now\s|currently\s)?(?:an?\s)?(?:[a-z-]+,?\s){0,3}\d{1,3}"
    r"(?:[\s-]?(?:y|mo|wk|week|day)|\s?[.;,]|\s?[FM]\b)"
    rf"|(?:[,;]\s\(?|\s\()(?:an?\s|age[d:]?\s?|now\s)?\d{{1,3}}(?:[,;)]|{_YEARS}|\s?[FM]\b)"
    rf"|\s(?:an?\s|aged?\s)?\d{{1,3}}{_YEARS}"
    r"|\s?[,;(|]?\s?\(?(?i:DOB|D\.O\.B|date\sof\sbirth|born|MRN?\b|MRN#|med(?:ical)?\srec|acct|sex\s?:|age\s?[:\d]|"
    r"age,?\s\d|\d{1,2}/\d{1,2}/\d{2,4}|\d{4}-\d\d-\d\d)"
)
_BY = re.compile(
    r"\b(?:signed(?:\selectronically)?|reported|dictated|read|reviewed|interpreted|transcribed|scribed|performed|seen|"
    r"examined|referred|ordered|pronounced|authenticated|verified|approved|entered|attested|discussed|done)\s?"
    r"by\s?:?\s{1,3}$|\b(?:discussed|reviewed|consulted|spoke)\swith\s{1,3}$"
    r"|\b(?:called|communicated|relayed|reported|faxed|told|notified|cc|thank\syou|copy)\s?(?:to)?[:,]?\s{1,3}$"
    r"|\b(?:signed|report\sto)\s?:\s{1,3}$|\b(?:sincerely|regards|respectfully|yours|truly)\s?,\s{1,12}$",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    r"\b(?:(?:patient|pt)(?:['’]s\sname|\sname)?|name|re|client|subject|resident\sname|"
    r"(?P<greeting>dear|hi|hello|good\smorning|good\safternoon|good\sevening)|"
    r"named|called|is\snamed|known\sas|introduced\sas)(?P<sep>\s?[:,(#|-]?\s{1,9})$",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"([^\W\d_]+(?:-[^\W\d_]+)*)(?:\s(?:physician|radiologist|provider|surgeon|practitioner))?"
    r"(\s?[:,(]?\s{1,9}\(?|\s(?:is|was|named)\s)$"
)
_CUES = (
    "mr mrs ms miss mister dr drs doctor prof professor nurse sister pastor rev fr chaplain rabbi judge by with "
    "called communicated relayed reported faxed told notified cc you copy to signed sincerely regards respectfully "
    "yours truly patient pt name re client subject dear hi hello morning afternoon evening named as is was"
)
_SAINT = re.compile(r"\b(?:St|Saint|Mt|Mount|Fort|Ft|Lake|Port|San|Santa)\.?\s$")
_REVERSED = re.compile(
    r",[ \t]{0,2}(?P<given>[^\W\d_a-z][^\W\d_]*(?:['’-][^\W\d_]+)*)"
    r"(?P<middle>(?:[ \t](?:[A-Z]\b\.?|[^\W\d_a-z][^\W\d_]+(?:-[^\W\d_]+)*\b))?)(?![-\w])"
)
_LINE_END = re.compile(r"\s*(?:\n|$|\s{2,})")
_NEXT_NOUN = re.compile(r"(?:['’]s|['’])?[\s-]+([^\W\d_]+)")
_OWNED = re.compile(r"['’]s\s([a-z-]+)")
_VERB = re.compile(r",?\s([a-z]+)")
_HELPING_VERBS = ("has", "had", "is", "was", "will", "would", "does", "did", "and")
_ACTS = re.compile(
    r"\s(?:(?:has|had)\s(?:an?|no|been|had|not|never|always)\b|"
    r"is\s(?:an?\s\w+\s(?:man|woman|male|female|lady|gentleman)|here|doing)\b|"
    r"was\s(?:brought|seen|admitted|discharged|transferred|referred|told|evaluated|born|sent|asked|readmitted|"
    r"accompanied)\b|saw\b|who\b|whose\b)"
)
"""Words said of persons, behind two words that no list knows."""


class PersonName(NamedTuple):
    """A person's name in a text: offsets in characters, kind (``name`` or ``clinician``), confidence (0-1)."""

    start: int
    end: int
    kind: str
    score: float


def names_in(text: str) -> list[PersonName]:
    """Every capitalized person name in a text, unordered; names may overlap."""
    words = list(capitalized_words(text))
    names = [name for candidate in name_candidates(text, words) for name in _names_of(candidate)]
    names += _titled_words(text)
    return [*names, *_repeated_names(text, words, names)]


def _names_of(candidate: NameCandidate) -> Iterator[PersonName]:
    cued = _last_word(candidate.before) in _cue_words()
    if cued and (titled := _name_with_title(candidate)):
        yield titled
    elif candidate.full and not _is_eponym(candidate.after, candidate.words):
        name = (
            _family_name_first(candidate)
            or _name_with_credentials(candidate)
            or (_name_after_cue(candidate) if cued else None)
        )
        if name or (name := _name_before_age(candidate)):
            yield name
        else:
            yield from _common(candidate)


def _titled_words(text: str) -> Iterator[PersonName]:
    """Particles and words of any other use behind a title: ``Mr. al-Rashid``, ``Dr. Small``."""
    for match in _TITLED.finditer(text):
        word = folded(match["last"])
        if word not in _NO_FAMILY and word not in _PLACEHOLDERS and word.strip("x"):
            yield PersonName(*match.span("it"), _kind_of_title(match["title"]), COMMON)


def is_clinicians(text: str, start: int, end: int) -> bool:
    """True if a name has a clinician's title before it, or credentials behind it."""
    title = _TITLE.search(text[max(0, start - 12) : start])
    return bool(_CREDENTIALS.match(text, end)) or (title is not None and _kind_of_title(title[1]) == "clinician")


def _kind_of_title(title: str) -> str:
    return "clinician" if title.lower() in _STAFF_TITLES else "name"


def _last_word(before: str) -> str:
    """The last word before a name, in lower case, skipping permitted fillers."""
    tail = before.rstrip(" \t\n:,(|#-.")
    return tail[max(map(tail.rfind, " \n-]")) + 1 :].lower()


@cache
def _cue_words() -> frozenset[str]:
    """Every word that may end a cue before a name."""
    roles = (*gazetteer().relatives, *gazetteer().staff)
    return frozenset((*roles, *(role.rsplit("-", 1)[-1] for role in roles), *_CUES.split()))


def _name_with_title(candidate: NameCandidate) -> PersonName | None:
    title = _TITLE.search(candidate.before)
    # Dr. X and Dr. XYZ stand for names that were taken out.
    if title is None or candidate.words[0].lower in _PLACEHOLDERS:
        return None
    words = candidate.words[:_TITLED_WORDS]
    # What follows in the next line may be its first word.
    if "\n" in candidate.text[candidate.start : words[-1].end]:
        words = words[:1]
    return PersonName(candidate.start, words[-1].end, _kind_of_title(title[1]), STRONG)


def _family_name_first(candidate: NameCandidate) -> PersonName | None:
    """``VANE, ADA M.``: the family name, a comma, the given name and initials."""
    lists, text = gazetteer(), candidate.text
    match = _REVERSED.match(text, candidate.end)
    if match is None or len(candidate.words) > 2 or _CREDENTIALS.match(text, candidate.end):
        return None
    given_name, middle = folded(match["given"]), match["middle"].strip(" .\t").lower()
    if given_name in lists.no_names or len(given_name) < 2:
        return None
    shouted = text[candidate.start : match.end("given")].isupper()
    # In ``Vane, Ada DISCHARGE`` the third word is the next heading.
    foreign = len(middle) > 1 and (middle in lists.no_names or (not shouted and match["middle"].isupper()))
    end = match.end("given") if foreign else match.end()
    listed = given_name in lists.given or given_name in lists.ambiguous
    alone = candidate.starts_line and _LINE_END.match(text, end) is not None
    cue = _SUBJECT.search(candidate.before) or _AGE.match(text, end)
    if (
        (cue and (listed or shouted or candidate.starts_line or ":" in candidate.before[-4:]))
        or (listed and (shouted or alone))
        or (shouted and (alone or candidate.starts_sentence) and ends_like_name(given_name))
    ):
        return PersonName(candidate.start, end, "name", STRONG)
    return None


def _name_with_credentials(candidate: NameCandidate) -> PersonName | None:
    first = candidate.full[0].lower
    is_listed_name = len(candidate.words) > 1 or first in gazetteer().given or first in gazetteer().family
    if is_listed_name and _CREDENTIALS.match(candidate.after):
        return PersonName(candidate.start, candidate.end, "clinician", STRONG)
    return None


def _name_after_cue(candidate: NameCandidate) -> PersonName | None:
    """Names recognized by the words before them."""
    if not candidate.is_plausible:
        return None
    lists, before, has_given = gazetteer(), candidate.before, candidate.has_given
    several = len(candidate.full) > 1
    clinician = PersonName(candidate.start, candidate.end, "clinician", STRONG)
    if _BY.search(before):
        return clinician
    role = _ROLE.search(before)
    if role and "." not in role[2]:
        word, colon = role[1].lower(), ":" in role[2]
        if word in lists.relatives and (has_given or not colon):
            return clinician._replace(kind="name")
        if word in lists.staff and (colon or has_given or several or word not in ("pa", "surgeon")):
            return clinician
    subject = _SUBJECT.search(before)
    if subject and (subject["greeting"] or has_given or several or ":" in subject["sep"] or _acts_alone(candidate)):
        return clinician._replace(kind="name")
    return None


def _acts_alone(candidate: NameCandidate) -> bool:
    return not candidate.is_acronym and _person_follows(candidate.after, strictly=True)


def _name_before_age(candidate: NameCandidate) -> PersonName | None:
    """Names recognized by the age, birth date or record number after them."""
    if not candidate.is_plausible or not _AGE.match(candidate.after):
        return None
    if candidate.has_given or len(candidate.full) > 1 or candidate.starts_line:
        return PersonName(candidate.start, candidate.end, "name", STRONG)
    return None


def _common(candidate: NameCandidate) -> Iterator[PersonName]:
    """Names without a cue: recognized by common given names and by verbs after them."""
    if _SAINT.search(candidate.before):
        return
    whole = PersonName(candidate.start, candidate.end, "name", COMMON)
    if len(candidate.full) > 1:
        start = _start_of_known(candidate)
        if start is not None:
            yield whole._replace(start=start)
            return
        if _is_unlisted(candidate) and (
            _ACTS.match(candidate.after) or _person_follows(candidate.after, strictly=True)
        ):
            yield whole
            return
    lists = gazetteer()
    for word in candidate.full:
        if candidate.text[word.start : word.end].isupper():
            continue
        last = word is candidate.full[-1]
        acts = last and word.lower in lists.ambiguous and _person_follows(candidate.after, strictly=True)
        if word.lower in lists.given or acts:
            yield PersonName(word.start, word.end, "name", COMMON)


def _start_of_known(candidate: NameCandidate) -> int | None:
    """Index of the first common name in a run of words; None without one."""
    lists, words, full = gazetteer(), candidate.words, candidate.full
    for word in words[:-1]:
        if word.lower in lists.given:
            return word.start
    first, common = full[0].lower, full[-1].lower in lists.family
    ambiguous = first in lists.ambiguous and (common or (len(full) == 2 and _person_follows(candidate.after)))
    initialed = common and len(words[0].lower) == 1
    pair = common and len(full) == 2 and ends_like_name(first) and candidate.start > 0
    return candidate.start if ambiguous or initialed or pair else None


def _is_unlisted(candidate: NameCandidate) -> bool:
    """True if two or three words look like names that no list contains."""
    return len(candidate.full) <= 3 and all(
        ends_like_name(word.lower) and not candidate.text[word.start : word.end].isupper()
        for word in candidate.full
    )


def _is_eponym(after: str, words: Sequence[CapitalizedWord]) -> bool:
    match = _NEXT_NOUN.match(after)
    return match is not None and len(words) < 3 and match[1].lower() in gazetteer().after_eponym


def _person_follows(after: str, *, strictly: bool = False) -> bool:
    """True if a verb whose subject is a person follows, or ``'s`` and a relative."""
    if match := _OWNED.match(after):
        return match[1] in gazetteer().relatives or match[1] == "office"
    verb = _VERB.match(after)
    if verb is None or verb[1] not in gazetteer().persons_verbs:
        return False
    return not strictly or verb[1] not in _HELPING_VERBS


def _repeated_names(
    text: str, words: Sequence[CapitalizedWord], names: Sequence[PersonName]
) -> Iterator[PersonName]:
    """Other capitalized occurrences of words of known names."""
    if not names:
        return
    lists = gazetteer()
    kind_at = {place: name.kind for name in names for place in range(name.start, name.end)}
    kinds: dict[str, str] = {}
    for word in words:
        kind = kind_at.get(word.start)
        is_word = word.lower in lists.no_names or word.lower in lists.ambiguous
        if kind and len(word.lower) >= SHORTEST_REPEATED and not is_word:
            kinds.setdefault(word.lower, kind)
    for word in words:
        if word.lower in kinds and word.start not in kind_at and not _is_eponym(text[word.end : word.end + 30], ()):
            yield PersonName(word.start, word.end, kinds[word.lower], REPEATED)
