"""Names and numbers that can belong to nobody.

A name alone cannot be proved to be nobody's, so names come from syllables that form no usual name, and every
other identifier comes from a range that is never given out:

- SSN: ``900-01-0001`` to ``900-49-9999``. The area numbers 900 to 999 are never issued as a social security
  number, and taxpayer numbers that begin with 9 have 50 or more in the middle.
- Phone: ``555-0100`` to ``555-0199`` is set aside for fiction, and area codes with 9 in the middle (``29x``,
  ``39x``, ...) are not assigned. 80 area codes, 100 numbers and 900 extensions make 7,200,000.
- E-mail: at ``example.org``, ``example.net`` or ``example.com``, reserved by RFC 2606.
- Address: streets and towns that do not exist.
- Record number: ``HX-`` and six digits, of hospitals that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from medunlearn.errors import InputError
from medunlearn.synthetic.knowledge import SEXES, Sex

# No onset ends in another one, so that no given name is the tail of another ("Ra..." in "Bra...").
_ONSETS = ("B", "C", "D", "F", "G", "H", "J", "K", "L", "M", "N", "P", "Qu", "R", "S", "T", "V", "W", "Y", "Z")
_VOWELS = ("a", "e", "i", "o", "u", "ae", "io")
_FEMALE_ENDINGS = ("lwenna", "risolde", "nnith", "vestra", "mirelle", "zabeth")
_MALE_ENDINGS = ("dorrik", "lvance", "thorin", "rvaine", "mbrose", "skander")
_FAMILY_STARTS = (
    "Ald", "Bram", "Corv", "Dask", "Elm", "Fenn", "Gorm", "Hask", "Ild", "Jarr", "Keld", "Lund",
    "Morv", "Nesk", "Orl", "Pell", "Quor", "Rusk", "Sorv", "Tamb", "Ulv", "Varn", "Wex", "Zorn",
)  # fmt: skip
_FAMILY_MIDDLES = ("a", "e", "i", "o", "u", "ing", "er", "am")
_FAMILY_ENDINGS = (
    "quill", "vorn", "thwick", "drask", "zelby", "marrow", "stane", "veldt", "grith", "hollen",
)  # fmt: skip
_TOWN_STARTS = (
    "Tarn", "Quell", "Morrow", "Sedge", "Varr", "Ospry", "Kettle", "Wych", "Brindle", "Fallow",
    "Hazel", "Isk", "Lorn", "Nettle", "Pender", "Raven", "Sorrel", "Thistle", "Umber", "Yarrow",
)  # fmt: skip
_TOWN_ENDINGS = ("mouthe", "wickle", "bourne-on-Sele", "hythe", "strand", "combe", "stead", "vale", "garth", "mere")
_STREETS = (
    "Quillmarsh", "Lanternfold", "Copperwren", "Mossgate", "Fernhollow", "Saltpetal", "Thornbarrow", "Dovequarry",
    "Inkwell", "Larkmeadow", "Oatfield", "Pebbleshaw", "Rooksedge", "Silverhaw", "Tallowby", "Windlestraw",
)  # fmt: skip
_WAYS = ("Lane", "Street", "Road", "Close", "Avenue")
_HOUSES = ("Hospital", "Infirmary", "Clinic", "Polyclinic", "Sanatorium")
_DOMAINS = ("example.org", "example.net", "example.com")

_PHONES = (80, 100, 900)
_SSNS = (49, 9999)
_RECORD_NUMBERS = 900_000

MOST_PATIENTS = _SSNS[0] * _SSNS[1]
"""No hospital is larger (489,951): there are more names than that, but no more distinct SSNs."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who somebody is, apart from name and birth date; no two identities of one hospital share any of these."""

    record_number: str
    phone: str
    email: str
    address: str
    ssn: str


def invent_names(sexes: Sequence[Sex], rng: np.random.Generator) -> list[str]:
    """A given and a family name for each, all different; no name is contained in another."""
    names = [""] * len(sexes)
    for sex in SEXES:
        given, family = _given_names(sex), _family_names()
        places = [place for place, theirs in enumerate(sexes) if theirs == sex]
        for place, draw in zip(places, _distinct(len(given) * len(family), len(places), rng), strict=True):
            first, last = divmod(draw, len(family))
            names[place] = f"{given[first]} {family[last]}"
    return names


def invent_identities(names: Sequence[str], rng: np.random.Generator) -> list[Identity]:
    """Record number, phone, e-mail, address and SSN for each name.

    An e-mail address is built from the name as real ones are, and three random digits: whoever knows the name
    guesses the address with a chance of 1 in 2,700.
    """
    count = len(names)
    towns = _towns()
    addresses = (9000, len(_STREETS), len(_WAYS), len(towns))
    draws = zip(
        names,
        _distinct(_RECORD_NUMBERS, count, rng),
        _distinct(int(np.prod(_PHONES)), count, rng),
        rng.integers(0, (len(_DOMAINS), 900), size=(count, 2)).tolist(),
        _distinct(int(np.prod(addresses)), count, rng),
        _distinct(MOST_PATIENTS, count, rng),
        strict=True,
    )
    return [
        Identity(
            record_number=f"HX-{record + 100_000}",
            phone=_phone(phone),
            email=f"{name.lower().replace(' ', '.')}.{digits + 100}@{_DOMAINS[domain]}",
            address=_address(_parts(address, addresses), towns),
            ssn=ssn_of(ssn),
        )
        for name, record, phone, (domain, digits), address, ssn in draws
    ]


def institution_names(count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Different hospitals in invented towns.

    Raises:
        InputError: when more are asked for than there are names.
    """
    towns = _towns()
    most = len(towns) * len(_HOUSES)
    if count > most:
        raise InputError(f"There are names for {most} institutions, not for {count}: ask for {most} at most.")
    # Towns differ as long as they last, so that hospitals differ by more than their last words.
    order = rng.permutation(towns).tolist()
    names = []
    for place in range(count):
        lap, town = divmod(place, len(order))
        names.append(f"{order[town]} {_HOUSES[(town + lap) % len(_HOUSES)]}")
    return tuple(names)


def _distinct(space: int, count: int, rng: np.random.Generator) -> list[int]:
    numbers: list[int] = rng.choice(space, size=count, replace=False).tolist()
    return numbers


def _parts(number: int, sizes: Sequence[int]) -> list[int]:
    parts = []
    for size in reversed(sizes):
        number, part = divmod(number, size)
        parts.append(part)
    return parts[::-1]


def _phone(draw: int) -> str:
    area, line, extension = _parts(draw, _PHONES)
    hundreds, last = divmod(area, 10)
    return f"{hundreds + 2}9{last}-555-01{line:02d} x{extension + 100}"


def _address(parts: Sequence[int], towns: Sequence[str]) -> str:
    house, street, way, town = parts
    return f"{house + 1000} {_STREETS[street]} {_WAYS[way]}, {towns[town]}"


def ssn_of(draw: int) -> str:
    """One of the :data:`MOST_PATIENTS` numbers that nobody has, by its place."""
    group, serial = divmod(draw, _SSNS[1])
    return f"900-{group + 1:02d}-{serial + 1:04d}"


@cache
def _towns() -> tuple[str, ...]:
    return tuple(start + ending for start, ending in product(_TOWN_STARTS, _TOWN_ENDINGS))


@cache
def _given_names(sex: Sex) -> tuple[str, ...]:
    endings = _FEMALE_ENDINGS if sex == "female" else _MALE_ENDINGS
    return tuple("".join(parts) for parts in product(_ONSETS, _VOWELS, endings))


@cache
def _family_names() -> tuple[str, ...]:
    words = ("".join(parts) for parts in product(_FAMILY_STARTS, _FAMILY_MIDDLES, _FAMILY_ENDINGS))
    return _prefix_free(words)


def _prefix_free(words: Iterable[str]) -> tuple[str, ...]:
    """The words that begin no other: a shorter name inside a longer one would look like a leak of both."""
    ordered = sorted(set(words))
    return tuple(
        word for word, after in zip(ordered, [*ordered[1:], ""], strict=True) if not after.startswith(word)
    )
