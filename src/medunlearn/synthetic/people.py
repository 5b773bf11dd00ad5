"""People of LUME's second task: a name and five fields each, none of which can belong to a real person.

- Name: syllables that form no usual name (:mod:`~medunlearn.synthetic.identities`).
- Birth date: 1964-01-01 to 1991-01-01, every day equally likely.
- SSN: ``900-01-0001`` to ``900-49-9999``. The paper says 900-xx-xxxx; area 900 was never issued, but taxpayer
  numbers that begin with 9 have 50 or more in the middle, so those are left out.
- Phone: ``NXX-555-01xx`` with a 9 in the middle of the area code: reserved for fiction, in unassigned areas. The
  paper's are any ten digits, which may be in use. Beyond 8,000 people numbers have an extension.
- E-mail: ``first_last@me.com``, as in the paper. me.com is a real domain, so only the invented name makes it
  unlikely that an address exists; another domain (``example.org``) rules it out.
- Address: a street of one state with town and ZIP code of another (:mod:`~medunlearn.synthetic.places`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from medunlearn.errors import InputError
from medunlearn.synthetic.identities import MOST_PATIENTS, invent_names, ssn_of
from medunlearn.synthetic.knowledge import SEXES, Sex
from medunlearn.synthetic.places import addresses

FIRST_BIRTH, LAST_BIRTH = date(1964, 1, 1), date(1991, 1, 1)
EMAIL_DOMAIN = "me.com"
_AREAS, _LINES, _EXTENSIONS = 80, 100, 900
_NUMBERS = _AREAS * _LINES
"""8,000 telephone numbers of the kind above; more people have an extension each."""
MOST_PEOPLE = MOST_PATIENTS
"""489,951: there are no more SSNs of the kind above."""

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class Person:
    """An invented person; no two persons of one call share a name or any field but the birth date."""

    name: str
    sex: Sex
    birth_date: date
    ssn: str
    phone: str
    email: str
    address: str

    @property
    def birth_day(self) -> str:
        """``November 8, 1990``, as written in texts."""
        return written_date(self.birth_date)


def written_date(day: date) -> str:
    """``November 8, 1990``."""
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year}"


def invent_people(count: int, rng: np.random.Generator, *, email_domain: str = EMAIL_DOMAIN) -> list[Person]:
    """Invent distinct people.

    Raises:
        InputError: more than :data:`MOST_PEOPLE`.

    Source: LUME, Section 2.1 (Task 2).
    """
    if count > MOST_PEOPLE:
        raise InputError(f"There are SSNs for {MOST_PEOPLE:,} invented people, not for {count:,}.")
    phones = _NUMBERS if count <= _NUMBERS else _NUMBERS * _EXTENSIONS
    sexes = [SEXES[draw] for draw in rng.integers(len(SEXES), size=count).tolist()]
    days = rng.integers((LAST_BIRTH - FIRST_BIRTH).days + 1, size=count).tolist()
    draws = zip(
        invent_names(sexes, rng),
        sexes,
        days,
        rng.choice(MOST_PATIENTS, size=count, replace=False).tolist(),
        rng.choice(phones, size=count, replace=False).tolist(),
        addresses(count, rng),
        strict=True,
    )
    return [
        Person(
            name=name,
            sex=sex,
            birth_date=FIRST_BIRTH + timedelta(days=day),
            ssn=ssn_of(number),
            phone=_phone(phone),
            email=f"{name.lower().replace(' ', '_')}@{email_domain}",
            address=address,
        )
        for name, sex, day, number, phone, address in draws
    ]


def _phone(draw: int) -> str:
    lap, number = divmod(draw, _NUMBERS)
    area, line = divmod(number, _LINES)
    hundreds, last = divmod(area, 10)
    extension = f" x{lap + 99}" if lap else ""
    return f"{hundreds + 2}9{last}-555-01{line:02d}{extension}"
