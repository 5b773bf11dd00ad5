"""Porter's stemmer with nltk's modifications, on which published ROUGE scores are based.

Reimplemented because importing nltk takes a second or more, and its stemmer is four times slower per word. The
tests compare it with nltk's, word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Condition = Callable[[str], bool]
Rule = tuple[str, str, Condition]

# Words that are their own stems, or another's, against the rules.
_IRREGULAR = {
    **{
        word: word
        for word in ("news", "howe", "proceed", "exceed", "succeed", "sky", "inning", "outing", "canning")
    },
    **{f"{word}s": word for word in ("inning", "outing", "canning")},
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
}


class _Letters(dict[int, str]):
    def __missing__(self, letter: int) -> str:
        return "c"  # digits too, and letters of other alphabets


_LETTERS = _Letters({ord(letter): "y" if letter == "y" else "v" for letter in "aeiouy"})


def porter_stem(word: str) -> str:
    """The stem of a word in lower case, of letters and digits: ``nltk.stem.PorterStemmer().stem(word)``.

    Words of one or two letters stay as they are. A stem may be empty.

    Source: Porter 1980, "An algorithm for suffix stripping", steps 1a to 5b; the departures are nltk's
    ``NLTK_EXTENSIONS``.
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    # Looking at the ending first saves most words most of the steps.
    if word.endswith("s"):
        word = _plural(word)
    if word.endswith(("ed", "ing")):
        word = _past_and_participle(word)
    if word.endswith("y") and len(word) > 2 and _shape(word)[-2] == "c":
        word = f"{word[:-1]}i"
    while word.endswith("alli") and _has_syllable(word[:-4]):
        word = word[:-2]
    for rules in (_STEP_2, _STEP_3, _STEP_4):
        if word[-2:] in rules:
            word = _replace(word, rules[word[-2:]])
    return _final_letters(word) if word.endswith(("e", "ll")) else word


def _shape(word: str) -> str:
    """Each letter as ``c`` (consonant or digit) or ``v``; a y is a vowel after a consonant.

    A letter's class depends only on the letters before it, so the shape of a prefix is the prefix of the shape.
    """
    letters = word.translate(_LETTERS)
    if "y" not in letters:
        return letters
    shape = ""
    for letter in letters:
        shape += ("v" if shape[-1:] == "c" else "c") if letter == "y" else letter
    return shape


def _measure(stem: str) -> int:
    """Number of times a vowel is followed by a consonant: m in the paper's [C](VC){m}[V]."""
    return _shape(stem).count("vc")


def _has_syllable(stem: str) -> bool:
    return _measure(stem) > 0


def _has_syllables(stem: str) -> bool:
    return _measure(stem) > 1


def _is_short(stem: str) -> bool:
    """The paper's *o: ends consonant, vowel, consonant, the last not w, x or y; nltk adds words like ``at``."""
    shape = _shape(stem)
    return (shape.endswith("cvc") and stem[-1] not in "wxy") or shape == "vc"


def _plural(word: str) -> str:
    """Step 1a, for a word that ends in s."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word if word.endswith("ss") else word[:-1]


def _past_and_participle(word: str) -> str:
    """Step 1b, for a word that ends in -ed or -ing."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _has_syllable(word[:-3]) else word
    for ending in ("ed", "ing"):
        stem = word.removesuffix(ending)
        if stem != word and "v" in _shape(stem):
            return _restore_stem(stem)
    return word


def _restore_stem(stem: str) -> str:
    """Word after removing -ed or -ing, restored: hop(p), fil(e)."""
    if stem.endswith(("at", "bl", "iz")):
        return f"{stem}e"
    if stem[-1] == stem[-2:-1] and _shape(stem)[-1] == "c":
        return stem if stem[-1] in "lsz" else stem[:-1]
    return f"{stem}e" if _measure(stem) == 1 and _is_short(stem) else stem


def _final_letters(word: str) -> str:
    """Steps 5a and 5b."""
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _is_short(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _has_syllables(word[:-1]) else word


def _replace(word: str, rules: Sequence[Rule]) -> str:
    """Apply the first rule whose ending matches, even if its condition then fails."""
    for ending, new, allows in rules:
        if word.endswith(ending):
            stem = word[: -len(ending)]
            return stem + new if allows(stem) else word
    return word


def _by_last_letters(rules: Iterable[Rule]) -> dict[str, list[Rule]]:
    by_ending: dict[str, list[Rule]] = {}
    for rule in rules:
        by_ending.setdefault(rule[0][-2:], []).append(rule)
    return by_ending


def _rules(pairs: str, condition: Condition) -> list[Rule]:
    """Parse ``ending>new`` rules separated by blanks, in the order of trial."""
    return [(ending, new, condition) for ending, _, new in (pair.partition(">") for pair in pairs.split())]


# -alli is not a rule of step 2 here: it goes before, and leaves a word for the rest.
_STEP_2 = _by_last_letters(
    [
        *_rules(
            "ational>ate tional>tion enci>ence anci>ance izer>ize bli>ble entli>ent eli>e ousli>ous "
            "ization>ize ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive "
            "biliti>ble fulli>ful",
            _has_syllable,
        ),
        # The l counts as the stem's, so that the short stems of geology and theology are enough.
        ("logi", "log", lambda stem: _has_syllable(f"{stem}l")),
    ]
)
_STEP_3 = _by_last_letters(_rules("icate>ic ative> alize>al iciti>ic ical>ic ful> ness>", _has_syllable))
_STEP_4 = _by_last_letters(
    [
        *_rules(
            "al> ance> ence> er> ic> able> ible> ant> ement> ment> ent> ou> ism> ate> iti> ous> ive> ize>",
            _has_syllables,
        ),
        ("ion", "", lambda stem: stem.endswith(("s", "t")) and _has_syllables(stem)),
    ]
)
